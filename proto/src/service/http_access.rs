//! The check of an HTTP request's caller, for routes that answer in a form of their own.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use futures_util::StreamExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;
use tracing::Span;

use super::request_id::{REQUEST_ID, header_value, request_id};
use crate::access::{AccessControl, Caller, Needed};
use crate::trace_context;

/// A request that may be answered: its caller is in its extensions.
#[derive(Debug)]
pub struct Checked {
    id: Arc<str>,
    span: Span,
    place: Option<OwnedSemaphorePermit>,
}

/// Checks the caller of a request for `call`, as the log names it, and puts it into the request. The id is for the reply, refusal or not:
/// [`Checked::answer`].
pub fn check_caller(
    access: &AccessControl,
    needed: Needed,
    call: &str,
    request: &mut Request,
) -> (Checked, Result<(), Status>) {
    let id = request_id(request.headers());
    let span = tracing::info_span!("request", %id, call);
    trace_context::continue_from(&span, request.headers());
    let peer = request.extensions().get::<SocketAddr>().copied();
    let caller = Caller::new(peer, Arc::clone(&id));
    match access.check(request.headers(), needed, call, caller) {
        Ok((caller, place)) => {
            request.extensions_mut().insert(caller);
            (Checked { id, span, place }, Ok(()))
        }
        Err(status) => (Checked { id, span, place: None }, Err(status)),
    }
}

impl Checked {
    /// The span of the request, for logs and traces.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// The reply with the request's id; it keeps the place that the caller's key has given until it is sent.
    pub fn answer(self, reply: Response) -> Response {
        let Self { id, place, .. } = self;
        let (mut head, body) = reply.into_parts();
        head.headers.insert(REQUEST_ID, header_value(&id));
        let Some(place) = place else { return Response::from_parts(head, body) };
        let body = body.into_data_stream().map(move |piece| {
            let _held = &place;
            piece
        });
        Response::from_parts(head, axum::body::Body::from_stream(body))
    }
}
