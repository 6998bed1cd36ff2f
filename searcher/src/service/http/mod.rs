//! HTTP: the calls of `Searcher` as JSON for clients without gRPC, what is served, and a page for people.
//!
//! ```text
//! POST /v1/search               SearchRequest to SearchResponse
//! POST /v1/search/batch         SearchBatchRequest to SearchBatchResponse
//! POST /v1/documents            GetDocumentsRequest to GetDocumentsResponse
//! POST /v1/documents/sample     SampleDocumentsRequest to SampleDocumentsResponse
//! POST /v1/explain              ExplainRequest to ExplainResponse
//! GET  /v1/indexes              ListIndexesResponse
//! GET  /v1/status?index=NAME    StatusResponse
//! GET  /v1/openapi.json         all of it as an OpenAPI document
//! GET  /                        the page, and its files below /page
//! GET  /livez                   the process answers
//! GET  /readyz                  the searcher can answer
//! GET  /metrics                 counters for Prometheus
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the routes, from headers to reply |
//! | `access.rs` | the check of every request, what each route needs, and what it counts as |
//! | `app.rs` | what the routes share |
//! | `probes.rs`, `scrape.rs` | health, and metrics |
//! | `json_bounds.rs` | the bounds of a request's JSON |
//! | `off_runtime.rs` | work that takes long, on threads for computing |
//! | `refusal.rs` | errors as JSON |
//! | `openapi.rs` | the OpenAPI document, made of the `.proto` files |
//! | `page.rs` | the page at `/` |
//!
//! The caller's time (`X-Request-Timeout`) and the bounds of bodies are those of `dyad_proto::service::http_request`;
//! listener, header timeout and drain those of `dyad_proto::service::serve_http`.

mod access;
mod app;
mod json_bounds;
mod off_runtime;
mod openapi;
mod page;
mod probes;
mod refusal;
mod scrape;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use dyad_proto::access::Caller;
use dyad_proto::admission::AdmissionLimit;
use dyad_proto::service::deadline::LONGEST;
use dyad_proto::service::http_request::{BodyError, ReceivedBody, read_body, timeout};
use dyad_proto::service::{CorsOrigin, HttpAccess, Security, UntilSent};
use dyad_proto::v1;
use dyad_proto::v1::admin_server::Admin as _;
use dyad_proto::v1::searcher_server::Searcher as _;
use prost::{Message, Name};
use tonic::Status;

use self::app::SearcherApp;
use self::json_bounds::JsonBounds;
use self::off_runtime::off_the_runtime;
use self::refusal::SearcherRefusal;
use self::scrape::Scrape;
use super::{AdminService, SearchService, convert};
use crate::error::Error;
use crate::json::MessageJson;
use crate::run::{ALL_REPLIES, Engine};

/// Bytes of all requests that are under way at once, as JSON and as what was read of it: 256 MiB.
const REQUESTS_BYTES: usize = 256 << 20;
/// Bytes that HTTP takes at most: requests, and of each reply two forms next to the message, which counts as reply
/// memory.
pub const HTTP_BYTES: usize = REQUESTS_BYTES + 2 * ALL_REPLIES;

/// Configuration of the routes.
#[derive(Debug, Clone)]
pub struct RouterConfig {
    /// The check of callers; keys and TLS are in the metrics.
    pub security: Security,
    /// Names, next to addresses and `localhost`, by which the server may be called where there are no API keys.
    pub hosts: Vec<String>,
    /// Whose pages may call the server from a browser.
    pub origins: Vec<CorsOrigin>,
    /// Calls under way at once: fewer than the server has connections, so that the others are refused at once.
    pub requests: usize,
    /// Once it is set, `/readyz` says that the server is about to stop.
    pub stopping: Arc<AtomicBool>,
}

/// The routes around an engine. For `dyad_proto::service::serve_http`.
pub fn router(engine: Arc<Engine>, config: RouterConfig) -> Result<Router, Error> {
    let RouterConfig {
        security,
        hosts,
        origins,
        requests,
        stopping,
    } = config;
    let service = SearchService::new(Arc::clone(&engine));
    let admin = AdminService::new(Arc::clone(&engine));
    let json = MessageJson::new().map_err(|error| {
        tracing::error!(%error, "the compiled .proto files cannot be read");
        Error::Internal
    })?;
    let openapi = openapi::document(&json).to_string();
    let (request_bytes, requests) = (AdmissionLimit::new(REQUESTS_BYTES), AdmissionLimit::new(requests));
    let http_access = HttpAccess::new(security.access().clone(), hosts, origins);
    let cors = http_access.cors();
    let access = (http_access, Arc::clone(engine.metrics()));
    let scrape = Scrape::new(&security);
    let app = SearcherApp {
        service,
        admin,
        engine,
        security,
        stopping,
        json,
        openapi,
        request_bytes,
        requests,
        scrape,
    };
    let routes = page::routes()
        .route("/v1/search", post(search))
        .route("/v1/search/batch", post(search_batch))
        .route("/v1/documents", post(documents))
        .route("/v1/documents/sample", post(sample))
        .route("/v1/explain", post(explain))
        .route("/v1/indexes", get(indexes))
        .route("/v1/status", get(status))
        .route("/v1/openapi.json", get(document))
        .route("/livez", get(probes::livez))
        .route("/readyz", get(probes::readyz))
        .route("/metrics", get(probes::metrics))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(access, access::check))
        .with_state(Arc::new(app));
    Ok(match cors {
        Some(cors) => routes.layer(cors),
        None => routes,
    })
}

async fn search(State(app): State<Arc<SearcherApp>>, request: Request) -> Result<Response, SearcherRefusal> {
    call(&app, request, JsonBounds::SEARCH, |service, request| async move {
        service.search(request).await
    })
    .await
}

async fn search_batch(State(app): State<Arc<SearcherApp>>, request: Request) -> Result<Response, SearcherRefusal> {
    let most = JsonBounds::BATCH;
    call(&app, request, most, |service, request| async move {
        service.search_batch(request).await
    })
    .await
}

async fn documents(State(app): State<Arc<SearcherApp>>, request: Request) -> Result<Response, SearcherRefusal> {
    let most = JsonBounds::SEARCH;
    call(&app, request, most, |service, request| async move {
        service.get_documents(request).await
    })
    .await
}

async fn sample(State(app): State<Arc<SearcherApp>>, request: Request) -> Result<Response, SearcherRefusal> {
    let most = JsonBounds::SEARCH;
    call(&app, request, most, |service, request| async move {
        service.sample_documents(request).await
    })
    .await
}

async fn explain(State(app): State<Arc<SearcherApp>>, request: Request) -> Result<Response, SearcherRefusal> {
    let most = JsonBounds::SEARCH;
    call(&app, request, most, |service, request| async move {
        service.explain(request).await
    })
    .await
}

async fn indexes(
    State(app): State<Arc<SearcherApp>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, SearcherRefusal> {
    written(&app, convert::indexes(&app.engine, &caller)).await
}

async fn status(
    State(app): State<Arc<SearcherApp>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, SearcherRefusal> {
    let _under_way = app.under_way()?;
    let index = named_index(uri.query().unwrap_or_default())?;
    let mut request = tonic::Request::new(v1::StatusRequest { index });
    request.extensions_mut().insert(caller);
    let status = app.admin.status(request).await?;
    written(&app, status.into_inner()).await
}

/// The index that a query names: `index=NAME`. Names have no letters that would be encoded.
fn named_index(query: &str) -> Result<String, SearcherRefusal> {
    let mut name = None;
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("index", value)) if name.is_none() => name = Some(value),
            _ => {
                return Err(SearcherRefusal::invalid(format!(
                    "the query: expected `index=NAME` once, got `{query}`"
                )));
            }
        }
    }
    Ok(name.unwrap_or_default().to_owned())
}

/// A message that takes no reply memory.
async fn written<R: Message + Name + 'static>(app: &Arc<SearcherApp>, message: R) -> Result<Response, SearcherRefusal> {
    let (writer, deadline) = (Arc::clone(app), Instant::now() + LONGEST);
    let (body, ()) = off_the_runtime(message.encoded_len(), deadline, (), move || writer.json.write(message)).await?;
    Ok(([(CONTENT_TYPE, JSON)], body?).into_response())
}

async fn document(State(app): State<Arc<SearcherApp>>) -> Response {
    ([(CONTENT_TYPE, JSON)], app.openapi.clone()).into_response()
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

async fn no_route(uri: Uri) -> SearcherRefusal {
    let routes = "POST /v1/search, /v1/search/batch, /v1/documents, /v1/documents/sample and /v1/explain, GET /, /v1/indexes, \
                  /v1/status, /v1/openapi.json, /livez, /readyz and /metrics";
    SearcherRefusal::new(
        StatusCode::NOT_FOUND,
        "NOT_FOUND",
        format!("no route `{}`. There are {routes}", uri.path()),
    )
}

async fn no_method(method: Method, uri: Uri) -> SearcherRefusal {
    let message = format!(
        "`{}` does not take {method}. The header `Allow` says what it takes",
        uri.path()
    );
    SearcherRefusal::new(StatusCode::METHOD_NOT_ALLOWED, "UNIMPLEMENTED", message)
}

/// A browser sends JSON to another site's server only after asking it, and these routes allow it to the pages of
/// `--cors-origin` alone.
fn check_content_type(headers: &HeaderMap) -> Result<(), SearcherRefusal> {
    let got = headers
        .get(CONTENT_TYPE)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
    let kind = got
        .as_deref()
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    if kind == "application/json" {
        return Ok(());
    }
    let got = got.as_deref().unwrap_or("none");
    let message = format!("header `Content-Type`: expected application/json, got {got}");
    Err(SearcherRefusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "INVALID_ARGUMENT",
        message,
    ))
}

/// From a request to a reply, by a call of the service.
async fn call<Q, R, F>(
    app: &Arc<SearcherApp>,
    request: Request,
    most: JsonBounds,
    answer: impl FnOnce(SearchService, tonic::Request<Q>) -> F,
) -> Result<Response, SearcherRefusal>
where
    Q: Message + Name + Default + 'static,
    R: Message + Name + 'static,
    F: Future<Output = Result<tonic::Response<R>, Status>>,
{
    let came = Instant::now();
    let caller = request.extensions().get::<Caller>().cloned();
    let time = timeout(request.headers()).map_err(SearcherRefusal::invalid)?;
    check_content_type(request.headers())?;
    let under_way = app.under_way()?;
    let deadline = came + time.unwrap_or(LONGEST);
    let ReceivedBody { bytes, room } = read_body(request, most.bytes, &app.request_bytes, deadline).await?;
    let memory = app.request_bytes.try_admit(most.memory(&bytes)?);
    // Given back when the reply is made.
    let held = (
        under_way,
        room,
        memory.map_err(|_| SearcherRefusal::from(BodyError::Full))?,
    );
    let (size, reader) = (bytes.len(), Arc::clone(app));
    let read = move || reader.json.read::<Q>(&bytes);
    let (message, held) = off_the_runtime(size, deadline, held, read).await?;
    let mut request = tonic::Request::new(message?);
    // Without it the service refuses the call.
    caller.map(|caller| request.extensions_mut().insert(caller));
    if let Some(time) = time {
        // The service takes the time from the call's deadline, of which at least a moment is left.
        request.set_timeout(time.saturating_sub(came.elapsed()).max(Duration::from_millis(1)));
    }
    let (_, reply, mut extensions) = answer(app.service.clone(), request).await?.into_parts();
    let budget = extensions.remove::<UntilSent>();
    let (size, writer) = (reply.encoded_len(), Arc::clone(app));
    let write = move || writer.json.write(reply);
    let (body, (_, budget)) = off_the_runtime(size, deadline, (held, budget), write).await?;
    let mut reply = ([(CONTENT_TYPE, JSON)], body?).into_response();
    // The connection holds the budget until the reply is sent.
    budget.map(|budget| reply.extensions_mut().insert(budget));
    Ok(reply)
}
