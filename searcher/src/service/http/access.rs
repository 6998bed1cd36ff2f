//! The check of every request, what each route needs, and what it counts as.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use dyad_proto::access::{Needed, Role};
use dyad_proto::service::HttpAccess;
use dyad_proto::service::json_api::{HttpRefusal, StatusName};
use dyad_proto::status::status_name;
use tonic::Code;
use tracing::Instrument as _;

use super::{mcp, page};
use crate::metrics::{CountedCall, CountedName, NO_CALL, SearcherMetrics};

/// Checks a request before its route does anything, and counts its reply.
pub(super) async fn check(
    State((access, metrics)): State<(HttpAccess, Arc<SearcherMetrics>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("none", MatchedPath::as_str)
        .to_owned();
    let counted = call(&path).map(|call| {
        let name = CountedName::new(call);
        request.extensions_mut().insert(name.clone());
        CountedCall::new(&metrics, name)
    });
    let (checked, mut allowed) = access.check(needed(&path), &path, &mut request);
    if path == mcp::ROUTE {
        allowed = allowed.and_then(|()| access.check_origin(&request));
    }
    let reply = match allowed {
        Ok(()) => next.run(request).instrument(checked.span().clone()).await,
        Err(status) if path == mcp::ROUTE => mcp::refused(status.into()),
        Err(status) => HttpRefusal::from(status).into_response(),
    };
    if let Some(counted) = counted {
        counted.end(
            reply
                .extensions()
                .get()
                .map_or(status_name(Code::Ok), |StatusName(name)| name),
        );
    }
    checked.answer(reply)
}

/// What a route needs, where the server has keys. The document of the API and the page, into which a key is typed, are
/// the same everywhere.
fn needed(route: &str) -> Needed {
    match route {
        "/v1/openapi.json" | "/livez" | "/readyz" => Needed::Nothing,
        route if page::has(route) => Needed::Nothing,
        _ => Needed::Role(Role::Read),
    }
}

/// The call that a route is, as gRPC names it; none for what is no work.
fn call(route: &str) -> Option<&'static str> {
    match route {
        "/v1/search" => Some("Searcher.Search"),
        "/v1/search/batch" => Some("Searcher.SearchBatch"),
        "/v1/documents" => Some("Searcher.GetDocuments"),
        "/v1/documents/sample" => Some("Searcher.SampleDocuments"),
        "/v1/scroll" => Some("Searcher.ScrollDocuments"),
        "/v1/count" => Some("Searcher.CountDocuments"),
        "/v1/fields" => Some("Searcher.ListFields"),
        "/v1/explain" => Some("Searcher.Explain"),
        "/v1/indexes" => Some("Admin.ListIndexes"),
        "/v1/status" => Some("Admin.Status"),
        // Calls of tools have the names of their methods.
        mcp::ROUTE => Some("Mcp"),
        "none" => Some(NO_CALL),
        _ => None,
    }
}
