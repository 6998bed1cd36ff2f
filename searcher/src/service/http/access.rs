//! The check of every request, and what each route needs.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use dyad_proto::access::{Needed, Role};
use dyad_proto::service::HttpAccess;
use tracing::Instrument as _;

use super::page;
use super::refusal::Refusal;

/// Checks a request before its route does anything.
pub(super) async fn check(State(access): State<HttpAccess>, mut request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let (checked, allowed) = access.check(needed(&path), &path, &mut request);
    let reply = match allowed {
        Ok(()) => next.run(request).instrument(checked.span().clone()).await,
        Err(status) => Refusal::from(status).into_response(),
    };
    checked.answer(reply)
}

/// What a route needs, where the server has keys. The document of the API and the page, into which a key is typed, are the same everywhere.
fn needed(route: &str) -> Needed {
    match route {
        "/v1/openapi.json" | "/livez" | "/readyz" => Needed::Nothing,
        route if page::has(route) => Needed::Nothing,
        _ => Needed::Role(Role::Read),
    }
}
