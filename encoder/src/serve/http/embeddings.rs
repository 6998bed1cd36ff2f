//! `POST /v1/embeddings`, from headers to reply.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};

use super::app::{EncoderApp, TakenRequest};
use super::refusal::EncoderRefusal;
use super::request::{ParsedEmbeddings, parse};
use super::response;
use crate::serve::EncodeOptions;

pub(super) async fn embeddings(
    State(app): State<Arc<EncoderApp>>,
    request: Request,
) -> Result<Response, EncoderRefusal> {
    let TakenRequest {
        parsed,
        deadline,
        room,
        under_way: _under_way,
    } = app.take(request, parse).await?;
    let ParsedEmbeddings {
        input,
        tower,
        truncation,
        dimensions,
        prompt,
        format,
        precision,
    } = parsed;
    let options = EncodeOptions {
        deadline,
        truncation,
        dimensions,
        prompt,
    };
    let encoded = app.handle.encode(tower, input, options).await?;
    drop(room);
    let model = app.handle.info().clone();
    // Nor is the reply written on the runtime's threads.
    let written = move || {
        (
            response::headers(&encoded),
            response::body(&encoded, format, precision, &model),
        )
    };
    let (headers, body) = app.handle.compute(deadline, written).await?;
    Ok((headers, body.map_err(|error| EncoderRefusal::unwritten(&error))?).into_response())
}
