//! `POST /v1/embeddings`, from headers to reply.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dyad_proto::limits::MAX_MESSAGE_BYTES;
use dyad_proto::service::deadline::LONGEST;
use dyad_proto::service::http_request::{Received, read_body, timeout};

use super::app::App;
use super::refusal::Refusal;
use super::request::{Parsed, parse};
use super::response;
use crate::serve::EncodeOptions;

pub(super) async fn embeddings(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let time = timeout(request.headers());
    let time = time.map_err(|reason| Refusal::invalid(StatusCode::BAD_REQUEST, "invalid_timeout", reason))?;
    // Every wait of the request ends by then.
    let deadline = Instant::now() + time.unwrap_or(LONGEST);
    // Until the reply is made, and from before the body: the connection's other places are for probes.
    let _under_way = app.requests.try_acquire().map_err(|_| {
        Refusal::busy("requests_full", "too many requests are under way. Try again later with back-off")
    })?;
    let received = read_body(request.into_body(), MAX_MESSAGE_BYTES, &app.bodies, deadline).await?;
    // A body may be large: neither it nor the reply is read or written on the runtime's threads.
    let model = app.handle.info().clone();
    let parsed = move || {
        let Received { bytes, room } = received;
        // Its room is held for as long as the body is, or what was read of it.
        parse(&bytes, &model).map(|parsed| (parsed, room))
    };
    let (parsed, room) = app.handle.compute(deadline, parsed).await??;
    let Parsed { input, tower, truncation, dimensions, format } = parsed;
    let options = EncodeOptions { deadline, truncation, dimensions };
    let encoded = app.handle.encode(tower, input, options).await?;
    drop(room);
    let model = app.handle.info().clone();
    let written = move || (response::headers(&encoded, &model), response::body(&encoded, format, &model));
    let (headers, body) = app.handle.compute(deadline, written).await?;
    let body = body.map_err(|error| {
        Refusal::server(StatusCode::INTERNAL_SERVER_ERROR, "reply", format!("the reply cannot be written: {error}"))
    })?;
    Ok((headers, body).into_response())
}
