//! `POST /v1/embeddings`, from headers to reply.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};

use super::app::{App, Taken};
use super::refusal::Refusal;
use super::request::{Parsed, parse};
use super::response;
use crate::serve::EncodeOptions;

pub(super) async fn embeddings(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let Taken { parsed, deadline, room, under_way: _under_way } = app.take(request, parse).await?;
    let Parsed { input, tower, truncation, dimensions, format } = parsed;
    let options = EncodeOptions { deadline, truncation, dimensions };
    let encoded = app.handle.encode(tower, input, options).await?;
    drop(room);
    let model = app.handle.info().clone();
    // Nor is the reply written on the runtime's threads.
    let written = move || (response::headers(&encoded, &model), response::body(&encoded, format, &model));
    let (headers, body) = app.handle.compute(deadline, written).await?;
    Ok((headers, body.map_err(|error| Refusal::unwritten(&error))?).into_response())
}
