//! Models, health and metrics: `/v1/models`, `/livez`, `/readyz`, `/metrics`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::app::EncoderApp;
use super::refusal::EncoderRefusal;
use crate::model::ModelKind;

/// Longest time of a readiness probe; Kubernetes' own `timeoutSeconds` should be more.
const READY: Duration = Duration::from_secs(5);

const JSON: [(axum::http::HeaderName, &str); 1] = [(CONTENT_TYPE, "application/json")];

/// The process answers.
pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// The model embeds, and the server stays.
pub(super) async fn readyz(State(app): State<Arc<EncoderApp>>) -> Result<&'static str, EncoderRefusal> {
    if app.stopping.load(Ordering::Relaxed) {
        let message = "the server is about to stop".to_owned();
        return Err(EncoderRefusal::server(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            message,
        ));
    }
    match app.handle.ready(READY).await {
        Ok(()) => Ok("ok\n"),
        Err(error) if app.access.has_keys() => {
            tracing::error!(%error, "not ready");
            let message = "not ready: the server's log says why";
            Err(EncoderRefusal::server(
                StatusCode::SERVICE_UNAVAILABLE,
                "not_ready",
                message,
            ))
        }
        Err(error) => Err(EncoderRefusal::server(
            StatusCode::SERVICE_UNAVAILABLE,
            "not_ready",
            error.to_string(),
        )),
    }
}

pub(super) async fn metrics(State(app): State<Arc<EncoderApp>>) -> Result<impl IntoResponse, EncoderRefusal> {
    let text = app.handle.scrape().map_err(|error| {
        let message = format!("the metrics cannot be written: {error}");
        EncoderRefusal::server(StatusCode::INTERNAL_SERVER_ERROR, "metrics", message)
    })?;
    Ok((
        [(
            CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        text,
    ))
}

/// Every model that is served: one.
pub(super) async fn models(State(app): State<Arc<EncoderApp>>) -> impl IntoResponse {
    (JSON, json!({ "object": "list", "data": [describe(&app)] }).to_string())
}

pub(super) async fn model(
    State(app): State<Arc<EncoderApp>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<impl IntoResponse, EncoderRefusal> {
    let info = app.handle.info();
    let Path(name) = name.map_err(|error| {
        let message = format!(
            "the model's name in the path cannot be read: {}. Ask for `{}`",
            error.body_text(),
            info.name
        );
        EncoderRefusal::invalid(StatusCode::BAD_REQUEST, "invalid_path", message).at("model")
    })?;
    if name == info.name || name == info.fingerprint {
        return Ok((JSON, describe(&app).to_string()));
    }
    let message = format!("model `{name}` is not served here, `{}` is", info.name);
    Err(EncoderRefusal::invalid(StatusCode::NOT_FOUND, "model_not_found", message).at("model"))
}

fn describe(app: &EncoderApp) -> Value {
    let info = app.handle.info();
    json!({
        "id": info.name,
        "object": "model",
        "created": app.since,
        "owned_by": "dyad",
        "fingerprint": info.fingerprint,
        "kind": match info.kind {
            ModelKind::DualEncoder => "dual-encoder",
            ModelKind::CrossEncoder => "cross-encoder",
        },
        "dimensions": if info.kind == ModelKind::DualEncoder { Some(info.dim) } else { None },
        "max_tokens": info.max_tokens,
        "prompts": info.named_prompts.iter().collect::<BTreeMap<_, _>>(),
        "device": info.device.to_string(),
        "dtype": info.dtype.to_string(),
    })
}
