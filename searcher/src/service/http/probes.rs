//! `/livez`, `/readyz`, `/metrics`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use dyad_proto::access::Caller;
use dyad_proto::service::json_api::HttpRefusal;

use super::app::SearcherApp;

/// The process answers.
pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// The searcher can answer, and stays.
pub(super) async fn readyz(State(app): State<Arc<SearcherApp>>) -> Result<&'static str, HttpRefusal> {
    let unavailable = |message: &str| HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message);
    if app.stopping.load(Ordering::Relaxed) {
        return Err(unavailable("the server is about to stop"));
    }
    match app.engine.readiness() {
        Ok(()) => Ok("ok\n"),
        // The reason names indexes and paths, and everybody may ask.
        Err(_) if app.security.access().has_keys() => Err(unavailable("not ready: the server's log says why")),
        Err(reason) => Err(unavailable(&reason)),
    }
}

pub(super) async fn metrics(
    State(app): State<Arc<SearcherApp>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, HttpRefusal> {
    caller.check_everything("/metrics")?;
    let text = app.scrape.text(&app.engine).map_err(|error| {
        tracing::error!(%error, "the metrics cannot be written");
        HttpRefusal::from(tonic::Status::internal("the metrics cannot be written"))
    })?;
    Ok((
        [(
            CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        text,
    )
        .into_response())
}
