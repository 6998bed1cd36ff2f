//! Every error in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::error::Error;
use crate::serve::EncodeError;

/// Seconds after which a caller may try again. A queue of the default size is worked off in some seconds; whoever comes
/// again sooner finds it as full.
const RETRY_S: u16 = 1;

/// A request that was not answered.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    kind: &'static str,
    code: &'static str,
    param: Option<String>,
    message: String,
}

impl Refusal {
    /// The request is at fault.
    pub(super) fn invalid(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind: "invalid_request_error", code, param: None, message: message.into() }
    }

    /// Too much for now.
    pub(super) fn busy(code: &'static str, message: impl Into<String>) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self { status, kind: "rate_limit_error", code, param: None, message: message.into() }
    }

    /// The service is at fault.
    pub(super) fn server(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind: "server_error", code, param: None, message: message.into() }
    }

    /// Names the field.
    pub(super) fn at(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { status, kind, code, param, message } = self;
        let error = json!({ "error": { "message": message, "type": kind, "param": param, "code": code } });
        let mut response = (status, error.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_S));
        }
        response
    }
}

impl From<EncodeError> for Refusal {
    fn from(error: EncodeError) -> Self {
        // gRPC calls the field `texts`, OpenAI `input`.
        let input = |status, code, message: String| Self::invalid(status, code, message).at("input");
        let bad = StatusCode::BAD_REQUEST;
        match &error {
            EncodeError::NoTexts => input(bad, "empty_input", "`input` is empty. Send at least one text".into()),
            EncodeError::EmptyText { position } => {
                input(bad, "empty_input", format!("`input[{position}]` is empty. Leave it out"))
            }
            EncodeError::TooLong { position, tokens, limit } => input(
                StatusCode::UNPROCESSABLE_ENTITY,
                "context_length_exceeded",
                format!(
                    "`input[{position}]` has {tokens} tokens, the model reads {limit}. Shorten it, or leave `truncate` true"
                ),
            ),
            EncodeError::UnknownToken { position, place, id, vocabulary } => input(
                bad,
                "unknown_token",
                format!(
                    "`input[{position}][{place}]` is token id {id}, the vocabulary has {vocabulary} tokens. Use the model's own tokenizer, or send text"
                ),
            ),
            EncodeError::SpecialToken { position, place, id, token } => input(
                bad,
                "special_token",
                format!(
                    "`input[{position}][{place}]` is the special token `{token}` ({id}), which is put there anyway. Tokenize with `add_special_tokens=False`"
                ),
            ),
            EncodeError::Dimensions { .. } => Self::invalid(bad, "dimensions", error.to_string()).at("dimensions"),
            EncodeError::TooLarge { .. } => input(StatusCode::PAYLOAD_TOO_LARGE, "too_many_tokens", error.to_string()),
            EncodeError::QueueFull { .. } => Self::busy("queue_full", error.to_string()),
            EncodeError::Deadline { .. } => Self::server(StatusCode::GATEWAY_TIMEOUT, "deadline", error.to_string()),
            EncodeError::Stopped => Self::server(StatusCode::SERVICE_UNAVAILABLE, "stopped", error.to_string()),
            EncodeError::Model(cause) => match &**cause {
                Error::Tokenize { .. } => input(StatusCode::UNPROCESSABLE_ENTITY, "tokenize", error.to_string()),
                _ => Self::server(StatusCode::INTERNAL_SERVER_ERROR, "model", error.to_string()),
            },
        }
    }
}
