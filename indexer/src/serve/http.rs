//! HTTP: changes as JSON for clients without gRPC, probes, metrics.
//!
//! ```text
//! POST /v1/upsert        UpsertRequest to ChangeResponse: one message of the call of gRPC
//! POST /v1/delete        DeleteRequest to ChangeResponse
//! GET  /v1/openapi.json  both as an OpenAPI document
//! GET  /livez            the process answers
//! GET  /readyz           the index can be read, and the server is not about to stop
//! GET  /metrics          counters for Prometheus
//! ```
//!
//! A route is a method of gRPC by `dyad_proto::service::json_api`, with the same keys, limits and errors.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use dyad_filter::message_json;
use dyad_index::manifest;
use dyad_proto::access::{Caller, Needed, Role};
use dyad_proto::admission::AdmissionLimit;
use dyad_proto::json::MessageJsonError;
use dyad_proto::service::json_api::openapi::{JsonRoute, OpenApi};
use dyad_proto::service::json_api::{self, HttpRefusal, JSON, JsonBounds, JsonCalls};
use dyad_proto::service::{HttpAccess, Security};
use dyad_proto::{limits, rules};
use tracing::Instrument as _;

use super::service::IndexService;

/// Bytes of all requests that are under way at once, as JSON and as what was read of it.
const REQUESTS_BYTES: usize = 256 << 20;

/// The bounds of one message of documents, or of keys.
const CHANGE: JsonBounds = JsonBounds {
    bytes: rules::request_limits("/dyad.v1.Index/Upsert").bytes as usize,
    // Names of members too.
    elements: 4 * rules::request_limits("/dyad.v1.Index/Upsert").elements as usize,
    // Vectors of 2048 values for each document.
    values: 2048 * limits::MAX_CHANGED,
};

const fn index_route(path: &'static str, method: &'static str) -> JsonRoute {
    JsonRoute {
        path,
        service: "dyad.v1.Index",
        method,
    }
}

/// The document of the routes.
const INDEXER: OpenApi = OpenApi {
    title: "dyad-indexer",
    description: "Changes of an index. The same calls over gRPC are those of `dyad.v1.Index`.",
    routes: &[index_route("/v1/upsert", "Upsert"), index_route("/v1/delete", "Delete")],
    served: &[],
};

/// What the routes need.
#[derive(Debug)]
pub struct IndexRoutes {
    /// Makes the changes.
    pub service: IndexService,
    /// The index's directory.
    pub index: PathBuf,
    /// The check of callers; keys and TLS are in the metrics.
    pub security: Security,
    /// The check of where requests come from.
    pub access: HttpAccess,
    /// Calls under way at once: fewer than the server has connections.
    pub requests: usize,
    /// Once it is set, `/readyz` says that the server is about to stop.
    pub stopping: Arc<AtomicBool>,
}

struct IndexerApp {
    service: IndexService,
    index: PathBuf,
    security: Security,
    stopping: Arc<AtomicBool>,
    calls: Arc<JsonCalls>,
    openapi: String,
}

impl IndexRoutes {
    /// The routes. For `dyad_proto::service::serve_http`.
    pub fn router(self) -> Result<Router, MessageJsonError> {
        let json = message_json()?;
        let openapi = INDEXER.document(&json).to_string();
        self.service.metrics().add_security(&self.security);
        let cors = self.access.cors();
        let app = Arc::new(IndexerApp {
            service: self.service,
            index: self.index,
            security: self.security,
            stopping: self.stopping,
            calls: Arc::new(JsonCalls {
                json,
                request_bytes: AdmissionLimit::new(REQUESTS_BYTES),
                requests: AdmissionLimit::new(self.requests),
            }),
            openapi,
        });
        let routes = Router::new()
            .route("/v1/upsert", post(upsert))
            .route("/v1/delete", post(delete))
            .route("/v1/openapi.json", get(document))
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .fallback(no_route)
            .method_not_allowed_fallback(no_method)
            .layer(from_fn_with_state(self.access, check))
            .with_state(app);
        Ok(match cors {
            Some(cors) => routes.layer(cors),
            None => routes,
        })
    }
}

/// Checks a request before its route does anything.
async fn check(State(access): State<HttpAccess>, mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let needed = match route {
        "/v1/openapi.json" | "/livez" | "/readyz" => Needed::Nothing,
        "/metrics" => Needed::Role(Role::Read),
        _ => Needed::Role(Role::Write),
    };
    let (checked, allowed) = access.check(needed, route, &mut request);
    let reply = match allowed {
        Ok(()) => next.run(request).instrument(checked.span().clone()).await,
        Err(status) => HttpRefusal::from(status).into_response(),
    };
    checked.answer(reply)
}

async fn upsert(State(app): State<Arc<IndexerApp>>, request: Request) -> Result<Response, HttpRefusal> {
    let service = app.service.clone();
    let answer = |request| async move { service.upsert_message(request).await };
    app.calls.call(request, CHANGE, answer).await
}

async fn delete(State(app): State<Arc<IndexerApp>>, request: Request) -> Result<Response, HttpRefusal> {
    let service = app.service.clone();
    let answer = |request| async move { service.delete_message(request).await };
    app.calls.call(request, CHANGE, answer).await
}

async fn document(State(app): State<Arc<IndexerApp>>) -> Response {
    ([(CONTENT_TYPE, JSON)], app.openapi.clone()).into_response()
}

async fn livez() -> &'static str {
    "ok\n"
}

async fn readyz(State(app): State<Arc<IndexerApp>>) -> Result<&'static str, HttpRefusal> {
    let unavailable = |message: String| HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message);
    if app.stopping.load(Ordering::Relaxed) {
        return Err(unavailable("the server is about to stop".to_owned()));
    }
    match manifest::current_generation(&app.index) {
        Ok(Some(_)) => Ok("ok\n"),
        // The reason names paths, and everybody may ask.
        Ok(None) | Err(_) if app.security.access().has_keys() => {
            Err(unavailable("the index cannot be read".to_owned()))
        }
        Ok(None) => Err(unavailable(format!("`{}` has no generation", app.index.display()))),
        Err(error) => Err(unavailable(error.to_string())),
    }
}

async fn metrics(
    State(app): State<Arc<IndexerApp>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, HttpRefusal> {
    caller.check_everything("/metrics")?;
    let text = app.service.metrics().text(&app.index).map_err(|error| {
        tracing::error!(%error, "the metrics cannot be written");
        HttpRefusal::from(tonic::Status::internal("the metrics cannot be written"))
    })?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

async fn no_route(uri: Uri) -> HttpRefusal {
    let routes = "POST /v1/upsert and /v1/delete, GET /v1/openapi.json, /livez, /readyz and /metrics";
    json_api::no_route(&uri, routes)
}

async fn no_method(method: Method, uri: Uri) -> HttpRefusal {
    json_api::no_method(&method, &uri)
}
