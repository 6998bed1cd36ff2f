//! The check of a request's caller, and what the reply gets of it: over gRPC and HTTP.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use tonic::Status;
use tracing::Span;

use super::connection::ServedConnection;
use super::reply::UntilSent;
use super::request_id::{REQUEST_ID, header_value, request_id};
use crate::access::{AccessControl, Caller, Needed};
use crate::admission::Admitted;
use crate::trace_context;

/// A request whose caller was checked.
#[derive(Debug)]
pub struct Checked {
    id: Arc<str>,
    span: Span,
    place: Option<Admitted>,
}

impl Checked {
    /// Checks the caller of a request for `call`, as the log names it, and puts it into the request.
    pub(super) fn open(
        access: &AccessControl,
        needed: Needed,
        call: &str,
        request: &mut Request,
    ) -> (Self, Result<(), Status>) {
        let id = request_id(request.headers());
        let span = tracing::info_span!("request", %id, call);
        trace_context::continue_from(&span, request.headers());
        let connection = request.extensions_mut().remove::<Arc<ServedConnection>>();
        let peer = connection.as_ref().and_then(|connection| connection.peer);
        let checked = access.check(request.headers(), needed, call, Caller::new(peer, Arc::clone(&id)));
        let (place, allowed) = match checked {
            Ok((caller, place)) => {
                if let Some(connection) = connection.filter(|_| caller.has_key()) {
                    connection.slot.hold();
                }
                request.extensions_mut().insert(caller);
                (place, Ok(()))
            }
            Err(status) => (None, Err(status)),
        };
        (Self { id, span, place }, allowed)
    }

    /// The span of the request, for logs and traces.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// The reply with the request's id; it keeps the place that the caller's key has given until it is sent.
    pub fn answer(self, mut reply: Response) -> Response {
        reply.headers_mut().insert(REQUEST_ID, header_value(&self.id));
        UntilSent::add(reply.extensions_mut(), self.place);
        reply
    }
}
