//! HTTP over a [`Handle`]: OpenAI's embeddings, reranking, probes, metrics.
//!
//! ```text
//! POST /v1/embeddings        texts or token ids to vectors
//! POST /v1/rerank            texts in the order in which they answer a query; /rerank replies in TEI's form
//! GET  /v1/models            the model, also under its name
//! GET  /livez                the process answers
//! GET  /readyz               the model embeds
//! GET  /metrics              counters for Prometheus
//! ```
//!
//! | file | what |
//! |---|---|
//! | `app.rs` | what the routes share, and how they take a request in |
//! | `embeddings.rs` | `/v1/embeddings` from headers to reply |
//! | `request.rs`, `response.rs` | the JSON of its request and its reply |
//! | `rerank.rs` | `/v1/rerank` and `/rerank` |
//! | `json.rs` | JSON with errors that name the field |
//! | `refusal.rs` | every error in OpenAI's shape |
//! | `probes.rs` | `/v1/models`, `/livez`, `/readyz`, `/metrics` |
//!
//! The caller's time (`X-Request-Timeout`; 10 minutes where it is absent) and the bounds of bodies are those of
//! `dyad_proto::service::http_request`; listener, header timeout and drain those of `dyad_proto::service::serve_http`.

mod app;
mod embeddings;
mod json;
mod probes;
mod refusal;
mod request;
mod rerank;
mod response;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use dyad_proto::access::{Needed, Role};
use dyad_proto::admission::AdmissionLimit;
use dyad_proto::service::HttpAccess;
use tracing::Instrument as _;

use self::app::EncoderApp;
use self::refusal::EncoderRefusal;
use super::handle::Handle;

/// Bytes of all bodies that are under way at once: 256 MiB.
const BODIES_BYTES: usize = 256 << 20;

/// The routes of one model, with at most `requests` for it under way. Fewer than the server has connections: whoever
/// sends slowly, or waits for the model, must not take the last place from a probe. Once `stopping` is set, `/readyz`
/// says so.
pub fn router(handle: Handle, access: HttpAccess, requests: usize, stopping: Arc<AtomicBool>) -> Router {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let cors = access.cors();
    let app = Arc::new(EncoderApp {
        handle,
        access,
        bodies: AdmissionLimit::new(BODIES_BYTES),
        requests: AdmissionLimit::new(requests),
        stopping,
        since,
    });
    let routes = Router::new()
        .route("/v1/embeddings", post(embeddings::embeddings))
        .route("/v1/rerank", post(rerank::rerank))
        .route("/rerank", post(rerank::rerank_as_tei))
        .route("/v1/models", get(probes::models))
        .route("/v1/models/{model}", get(probes::model))
        .route("/livez", get(probes::livez))
        .route("/readyz", get(probes::readyz))
        .route("/metrics", get(probes::metrics))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(Arc::clone(&app), count))
        .with_state(app);
    match cors {
        Some(cors) => routes.layer(cors),
        None => routes,
    }
}

/// Checks the caller of every request, and counts every answer by route and status.
async fn count(State(app): State<Arc<EncoderApp>>, mut request: Request, next: Next) -> Response {
    let came = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    // Paths that lead nowhere are one route, so that strangers cannot make new series.
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let (checked, caller) = app.access.check(needed(route), route, &mut request);
    let response = match caller {
        Ok(()) => next.run(request).instrument(checked.span().clone()).await,
        Err(status) => EncoderRefusal::of_caller(&status).into_response(),
    };
    app.handle
        .metrics()
        .request(route, response.status().as_str(), came.elapsed());
    checked.answer(response)
}

/// What a route needs, where the server has keys.
fn needed(route: &str) -> Needed {
    match route {
        "/livez" | "/readyz" => Needed::Nothing,
        _ => Needed::Role(Role::Read),
    }
}

async fn no_route(uri: Uri) -> EncoderRefusal {
    let routes = "POST /v1/embeddings, /v1/rerank and /rerank, GET /v1/models, /livez, /readyz and /metrics";
    EncoderRefusal::invalid(
        StatusCode::NOT_FOUND,
        "not_found",
        format!("no route `{}`. There are {routes}", uri.path()),
    )
}

async fn no_method(method: Method, uri: Uri) -> EncoderRefusal {
    let message = format!(
        "`{}` does not take {method}. The header `Allow` says what it takes",
        uri.path()
    );
    EncoderRefusal::invalid(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
