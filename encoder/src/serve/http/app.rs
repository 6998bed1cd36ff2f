//! State shared by the routes, and how each of them takes a request in.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use axum::extract::Request;
use axum::http::StatusCode;
use dyad_proto::admission::{AdmissionLimit, Admitted};
use dyad_proto::limits::MAX_MESSAGE_BYTES;
use dyad_proto::service::HttpAccess;
use dyad_proto::service::deadline::LONGEST;
use dyad_proto::service::http_request::{ReceivedBody, read_body, timeout};

use super::refusal::EncoderRefusal;
use crate::model::ModelInfo;
use crate::serve::handle::Handle;

/// State shared by the routes.
#[derive(Debug)]
pub(super) struct EncoderApp {
    pub(super) handle: Handle,
    pub(super) access: HttpAccess,
    /// Room for bodies.
    pub(super) bodies: AdmissionLimit,
    /// Requests for the model that may be under way.
    pub(super) requests: AdmissionLimit,
    /// Set when the server is about to stop.
    pub(super) stopping: Arc<AtomicBool>,
    /// Seconds since 1970 when the service began, which is the model's `created`.
    pub(super) since: u64,
}

/// A request for the model that was read and checked.
#[derive(Debug)]
pub(super) struct TakenRequest<T> {
    pub(super) parsed: T,
    /// Every wait of the request ends by then.
    pub(super) deadline: Instant,
    /// Held for as long as the body is, or what was read of it.
    pub(super) room: Admitted,
    /// Until the reply is made, and from before the body: the connection's other places are for probes.
    pub(super) under_way: Admitted,
}

impl EncoderApp {
    /// Takes in a request for the model. A body may be large: it is not parsed on the runtime's threads.
    pub(super) async fn take<T: Send + 'static>(
        &self,
        request: Request,
        parse: fn(&[u8], &ModelInfo) -> Result<T, EncoderRefusal>,
    ) -> Result<TakenRequest<T>, EncoderRefusal> {
        let time = timeout(request.headers());
        let time =
            time.map_err(|reason| EncoderRefusal::invalid(StatusCode::BAD_REQUEST, "invalid_timeout", reason))?;
        let deadline = Instant::now() + time.unwrap_or(LONGEST);
        let under_way = self.requests.try_admit(1).map_err(|_| {
            EncoderRefusal::busy(
                "requests_full",
                "too many requests are under way. Try again later with back-off",
            )
        })?;
        let received = read_body(request, MAX_MESSAGE_BYTES, &self.bodies, deadline).await?;
        let model = self.handle.info().clone();
        let parsed = move || {
            let ReceivedBody { bytes, room } = received;
            parse(&bytes, &model).map(|parsed| (parsed, room))
        };
        let (parsed, room) = self.handle.compute(deadline, parsed).await??;
        Ok(TakenRequest {
            parsed,
            deadline,
            room,
            under_way,
        })
    }
}
