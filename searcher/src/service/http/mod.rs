//! HTTP: the calls of `Searcher` as JSON for clients without gRPC, what is served, and a page for people.
//!
//! ```text
//! POST /v1/search               SearchRequest to SearchResponse
//! POST /v1/search/batch         SearchBatchRequest to SearchBatchResponse
//! POST /v1/documents            GetDocumentsRequest to GetDocumentsResponse
//! POST /v1/documents/sample     SampleDocumentsRequest to SampleDocumentsResponse
//! POST /v1/scroll               ScrollDocumentsRequest to ScrollDocumentsResponse
//! POST /v1/count                CountDocumentsRequest to CountDocumentsResponse
//! GET  /v1/fields?index=NAME    ListFieldsResponse
//! POST /v1/explain              ExplainRequest to ExplainResponse
//! GET  /v1/indexes              ListIndexesResponse
//! GET  /v1/status?index=NAME    StatusResponse
//! GET  /v1/openapi.json         all of these as an OpenAPI document
//! POST /mcp                     the Model Context Protocol, with searches, documents and explanations as tools
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
//! | `mcp/` | the Model Context Protocol |
//! | `probes.rs`, `scrape.rs`, `scraped_leaves.rs` | health, and metrics |
//! | `openapi.rs` | what the OpenAPI document describes |
//! | `page.rs` | the page at `/` |
//!
//! A route is a method of gRPC by `dyad_proto::service::json_api`. The caller's time (`X-Request-Timeout`) and the
//! bounds of bodies are those of `dyad_proto::service::http_request`; listener, header timeout and drain those of
//! `dyad_proto::service::serve_http`.

mod access;
mod app;
mod mcp;
mod openapi;
mod page;
mod probes;
mod scrape;
mod scraped_leaves;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use dyad_filter::message_json;
use dyad_proto::access::Caller;
use dyad_proto::admission::AdmissionLimit;
use dyad_proto::service::json_api::{self, HttpRefusal, JSON, JsonCalls};
use dyad_proto::service::{CorsOrigin, HttpAccess, Security};
use dyad_proto::v1;
use dyad_proto::v1::admin_server::Admin as _;
use dyad_proto::v1::searcher_server::Searcher as _;

use self::app::{BATCH, SEARCH, SearcherApp};
use self::mcp::McpServer;
pub use self::page::PagePlaces;
use self::probes::ProbedEngine;
use super::{AdminService, SearchService, convert};
use crate::error::Error;
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
    /// What the page is told of other programs.
    pub places: PagePlaces,
}

/// The routes around an engine. For `dyad_proto::service::serve_http`.
pub fn router(engine: Arc<Engine>, config: RouterConfig) -> Result<Router, Error> {
    let RouterConfig {
        security,
        hosts,
        origins,
        requests,
        stopping,
        places,
    } = config;
    let service = SearchService::new(Arc::clone(&engine));
    let admin = AdminService::new(Arc::clone(&engine));
    let json = message_json().map_err(|error| {
        tracing::error!(%error, "the compiled .proto files cannot be read");
        Error::Internal
    })?;
    let openapi = openapi::SEARCHER.document(&json).to_string();
    let calls = Arc::new(JsonCalls {
        json,
        request_bytes: AdmissionLimit::new(REQUESTS_BYTES),
        requests: AdmissionLimit::new(requests),
    });
    let mcp = McpServer::new(service.clone(), Arc::clone(&engine), Arc::clone(&calls)).ok_or_else(|| {
        tracing::error!("the compiled .proto files lack a method that is a tool");
        Error::Internal
    })?;
    let http_access = HttpAccess::new(security.access().clone(), hosts, origins);
    let cors = http_access.cors();
    let access = (http_access, Arc::clone(engine.metrics()));
    let probed = ProbedEngine::new(Arc::clone(&engine), security, stopping);
    let app = SearcherApp {
        service,
        admin,
        engine,
        calls,
        openapi,
        places,
    };
    let page = page::routes(&app.places).map_err(|error| {
        tracing::error!(%error, "the origin of an indexer cannot be told to browsers");
        Error::Internal
    })?;
    let routes = page
        .route("/v1/search", post(search))
        .route("/v1/search/batch", post(search_batch))
        .route("/v1/documents", post(documents))
        .route("/v1/documents/sample", post(sample))
        .route("/v1/scroll", post(scroll))
        .route("/v1/count", post(count))
        .route("/v1/fields", get(fields))
        .route("/v1/explain", post(explain))
        .route("/v1/indexes", get(indexes))
        .route("/v1/status", get(status))
        .route("/v1/openapi.json", get(document))
        .merge(mcp.route())
        .route("/page/places.json", get(page_places))
        .merge(probed.routes())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(access, access::check))
        .with_state(Arc::new(app));
    Ok(match cors {
        Some(cors) => routes.layer(cors),
        None => routes,
    })
}

/// The routes of a leaf: probes and metrics. What it answers is a part, and not for clients.
pub fn leaf_router(engine: Arc<Engine>, security: &Security, hosts: Vec<String>, stopping: Arc<AtomicBool>) -> Router {
    let http_access = HttpAccess::new(security.access().clone(), hosts, Vec::new());
    let access = (http_access, Arc::clone(engine.metrics()));
    let probed = ProbedEngine::new(engine, security.clone(), stopping);
    let routes: Router<()> = probed.routes();
    routes
        .fallback(no_leaf_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(access, access::check))
}

async fn search(State(app): State<Arc<SearcherApp>>, request: Request) -> Result<Response, HttpRefusal> {
    let service = app.service.clone();
    app.calls
        .call(request, SEARCH, |request| async move { service.search(request).await })
        .await
}

async fn search_batch(State(app): State<Arc<SearcherApp>>, request: Request) -> Result<Response, HttpRefusal> {
    let most = BATCH;
    let service = app.service.clone();
    app.calls
        .call(
            request,
            most,
            |request| async move { service.search_batch(request).await },
        )
        .await
}

async fn documents(State(app): State<Arc<SearcherApp>>, request: Request) -> Result<Response, HttpRefusal> {
    let most = SEARCH;
    let service = app.service.clone();
    app.calls
        .call(
            request,
            most,
            |request| async move { service.get_documents(request).await },
        )
        .await
}

async fn sample(State(app): State<Arc<SearcherApp>>, request: Request) -> Result<Response, HttpRefusal> {
    let most = SEARCH;
    let service = app.service.clone();
    app.calls
        .call(request, most, |request| async move {
            service.sample_documents(request).await
        })
        .await
}

async fn scroll(State(app): State<Arc<SearcherApp>>, request: Request) -> Result<Response, HttpRefusal> {
    let service = app.service.clone();
    app.calls
        .call(request, SEARCH, |request| async move {
            service.scroll_documents(request).await
        })
        .await
}

async fn count(State(app): State<Arc<SearcherApp>>, request: Request) -> Result<Response, HttpRefusal> {
    let service = app.service.clone();
    app.calls
        .call(request, SEARCH, |request| async move {
            service.count_documents(request).await
        })
        .await
}

async fn fields(
    State(app): State<Arc<SearcherApp>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, HttpRefusal> {
    let _under_way = app.calls.under_way()?;
    let index = named_index(uri.query().unwrap_or_default())?;
    let mut request = tonic::Request::new(v1::ListFieldsRequest { index });
    request.extensions_mut().insert(caller);
    let fields = app.service.list_fields(request).await?;
    app.calls.written(fields.into_inner()).await
}

async fn explain(State(app): State<Arc<SearcherApp>>, request: Request) -> Result<Response, HttpRefusal> {
    let most = SEARCH;
    let service = app.service.clone();
    app.calls
        .call(request, most, |request| async move { service.explain(request).await })
        .await
}

async fn indexes(
    State(app): State<Arc<SearcherApp>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, HttpRefusal> {
    app.calls.written(convert::indexes(&app.engine, &caller)).await
}

/// What the page is told of other programs.
async fn page_places(State(app): State<Arc<SearcherApp>>, Extension(caller): Extension<Caller>) -> Response {
    let told = app.places.told_to(&caller).to_string();
    let headers = [
        (CONTENT_TYPE, JSON),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, told).into_response()
}

async fn status(
    State(app): State<Arc<SearcherApp>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, HttpRefusal> {
    let _under_way = app.calls.under_way()?;
    let index = named_index(uri.query().unwrap_or_default())?;
    let mut request = tonic::Request::new(v1::StatusRequest { index });
    request.extensions_mut().insert(caller);
    let status = app.admin.status(request).await?;
    app.calls.written(status.into_inner()).await
}

/// The index that a query names: `index=NAME`. Names have no letters that would be encoded.
fn named_index(query: &str) -> Result<String, HttpRefusal> {
    let mut name = None;
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("index", value)) if name.is_none() => name = Some(value),
            _ => {
                return Err(HttpRefusal::invalid(format!(
                    "the query: expected `index=NAME` once, got `{query}`"
                )));
            }
        }
    }
    Ok(name.unwrap_or_default().to_owned())
}

async fn document(State(app): State<Arc<SearcherApp>>) -> Response {
    ([(CONTENT_TYPE, JSON)], app.openapi.clone()).into_response()
}

async fn no_route(uri: Uri) -> HttpRefusal {
    let routes = "POST /v1/search, /v1/search/batch, /v1/documents, /v1/documents/sample, /v1/scroll, /v1/count, /v1/explain and /mcp, \
                  GET /, /v1/fields, /v1/indexes, /v1/status, /v1/openapi.json, /livez, /readyz and /metrics";
    json_api::no_route(&uri, routes)
}

async fn no_leaf_route(uri: Uri) -> HttpRefusal {
    json_api::no_route(&uri, "GET /livez, /readyz and /metrics; searches are for the root")
}

async fn no_method(method: Method, uri: Uri) -> HttpRefusal {
    json_api::no_method(&method, &uri)
}
