//! `/livez`, `/readyz`, `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use dyad_proto::access::Caller;
use dyad_proto::service::Security;
use dyad_proto::service::json_api::HttpRefusal;

use super::scrape::Scrape;
use crate::run::Engine;

/// What probes and metrics are of.
pub(super) struct ProbedEngine {
    engine: Arc<Engine>,
    security: Security,
    /// Set when the server is about to stop.
    stopping: Arc<AtomicBool>,
    scrape: Scrape,
}

impl ProbedEngine {
    pub(super) fn new(engine: Arc<Engine>, security: Security, stopping: Arc<AtomicBool>) -> Self {
        let scrape = Scrape::new(&security);
        Self {
            engine,
            security,
            stopping,
            scrape,
        }
    }

    /// The routes.
    pub(super) fn routes<S: Clone + Send + Sync + 'static>(self) -> Router<S> {
        Router::new()
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .with_state(Arc::new(self))
    }
}

/// The process answers.
async fn livez() -> &'static str {
    "ok\n"
}

/// The searcher can answer, and stays.
async fn readyz(State(app): State<Arc<ProbedEngine>>) -> Result<&'static str, HttpRefusal> {
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

async fn metrics(
    State(app): State<Arc<ProbedEngine>>,
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
