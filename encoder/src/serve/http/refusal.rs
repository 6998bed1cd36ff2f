//! Every error in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use dyad_proto::service::http_request::BodyError;
use serde_json::json;
use tonic::{Code, Status};

use crate::error::Error;
use crate::serve::EncodeError;
use crate::serve::error::more_than;

/// Time after which a caller may try again, where nothing is known.
const RETRY: Duration = Duration::from_secs(1);

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// A request that was not answered.
#[derive(Debug)]
pub(super) struct EncoderRefusal {
    status: StatusCode,
    kind: &'static str,
    code: &'static str,
    param: Option<String>,
    message: String,
    retry_after: Option<Duration>,
}

impl EncoderRefusal {
    /// The request is at fault.
    pub(super) fn invalid(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind: "invalid_request_error",
            code,
            param: None,
            message: message.into(),
            retry_after: None,
        }
    }

    /// Too much for now.
    pub(super) fn busy(code: &'static str, message: impl Into<String>) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let message = message.into();
        Self {
            status,
            kind: "rate_limit_error",
            code,
            param: None,
            message,
            retry_after: Some(RETRY),
        }
    }

    /// The service is at fault.
    pub(super) fn server(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(RETRY);
        Self {
            status,
            kind: "server_error",
            code,
            param: None,
            message: message.into(),
            retry_after,
        }
    }

    /// The caller's API key is at fault: it is missing, wrong, for something else, or has too many calls under way.
    pub(super) fn of_caller(status: &Status) -> Self {
        let message = status.message().to_owned();
        let (code, kind, name) = match status.code() {
            Code::ResourceExhausted => return Self::busy("key_busy", message),
            Code::InvalidArgument => return Self::invalid(StatusCode::BAD_REQUEST, "invalid_host", message),
            Code::PermissionDenied => (StatusCode::FORBIDDEN, "permission_error", "forbidden"),
            _ => (StatusCode::UNAUTHORIZED, "authentication_error", "invalid_api_key"),
        };
        Self {
            status: code,
            kind,
            code: name,
            param: None,
            message,
            retry_after: None,
        }
    }

    /// The reply cannot be written.
    pub(super) fn unwritten(error: &serde_json::Error) -> Self {
        let message = format!("the reply cannot be written: {error}");
        Self::server(StatusCode::INTERNAL_SERVER_ERROR, "reply", message)
    }

    /// Names the field.
    pub(super) fn at(self, param: impl Into<String>) -> Self {
        Self {
            param: Some(param.into()),
            ..self
        }
    }
}

impl IntoResponse for EncoderRefusal {
    fn into_response(self) -> Response {
        let Self {
            status,
            kind,
            code,
            param,
            message,
            retry_after,
        } = self;
        let error = json!({ "error": { "message": message, "type": kind, "param": param, "code": code } });
        let mut response = (status, error.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(time) = retry_after {
            // The standard knows whole seconds; OpenAI's clients read the other header first.
            headers.insert(RETRY_AFTER, HeaderValue::from(time.as_millis().div_ceil(1000) as u64));
            headers.insert(RETRY_AFTER_MS, HeaderValue::from(time.as_millis() as u64));
        }
        response
    }
}

impl From<BodyError> for EncoderRefusal {
    fn from(error: BodyError) -> Self {
        let message = error.to_string();
        match error {
            BodyError::Late => Self::invalid(StatusCode::REQUEST_TIMEOUT, "body_timeout", message),
            BodyError::Broken(_) => Self::invalid(StatusCode::BAD_REQUEST, "body", message),
            BodyError::Damaged(_) => Self::invalid(StatusCode::BAD_REQUEST, "content_encoding", message),
            BodyError::Encoded(_) => Self::invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_encoding", message),
            BodyError::TooLarge { .. } => Self::invalid(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message),
            BodyError::Full => Self::busy("bodies_full", message),
        }
    }
}

impl From<EncodeError> for EncoderRefusal {
    fn from(error: EncodeError) -> Self {
        Self::of(&error, "input")
    }
}

impl EncoderRefusal {
    /// A request that the model did not run. gRPC calls the field of the texts `texts`, OpenAI `input`, Cohere
    /// `documents`.
    pub(super) fn of(error: &EncodeError, field: &'static str) -> Self {
        let input = |status, code, message: String| Self::invalid(status, code, message).at(field);
        let bad = StatusCode::BAD_REQUEST;
        match error {
            EncodeError::OtherKind { .. } => Self::invalid(bad, "other_model_kind", error.to_string()),
            EncodeError::NoMeans { .. } => Self::invalid(bad, "no_means", error.to_string()).at("documents"),
            EncodeError::EmptyQuery => Self::invalid(bad, "empty_input", error.to_string()).at("query"),
            EncodeError::NoTexts => input(
                bad,
                "empty_input",
                format!("`{field}` is empty. Send at least one text"),
            ),
            EncodeError::EmptyText { position } => input(
                bad,
                "empty_input",
                format!("`{field}[{position}]` is empty. Leave it out"),
            ),
            EncodeError::TooLong {
                position,
                tokens,
                more,
                limit,
            } => input(
                StatusCode::UNPROCESSABLE_ENTITY,
                "context_length_exceeded",
                format!(
                    "`{field}[{position}]` has {}{tokens} tokens, the model reads {limit}. Shorten it, or leave `truncate` true",
                    more_than(*more)
                ),
            ),
            EncodeError::UnknownToken {
                position,
                place,
                id,
                vocabulary,
            } => input(
                bad,
                "unknown_token",
                format!(
                    "`{field}[{position}][{place}]` is token id {id}, the vocabulary has {vocabulary} tokens. Use the model's own tokenizer, or send text"
                ),
            ),
            EncodeError::SpecialToken {
                position,
                place,
                id,
                token,
            } => input(
                bad,
                "special_token",
                format!(
                    "`{field}[{position}][{place}]` is the special token `{token}` ({id}), which is added automatically. Tokenize with `add_special_tokens=False`"
                ),
            ),
            EncodeError::UnknownPrompt(_) => Self::invalid(bad, "unknown_prompt", error.to_string()).at("prompt_name"),
            EncodeError::PromptTooLong { .. } => {
                Self::invalid(StatusCode::UNPROCESSABLE_ENTITY, "prompt_too_long", error.to_string()).at("prompt")
            }
            EncodeError::PromptOfPairs => Self::invalid(bad, "prompt_of_pairs", error.to_string()).at("prompt"),
            EncodeError::Dimensions { .. } => Self::invalid(bad, "dimensions", error.to_string()).at("dimensions"),
            EncodeError::TooLarge { .. } => input(StatusCode::PAYLOAD_TOO_LARGE, "too_many_tokens", error.to_string()),
            EncodeError::QueueFull { .. } | EncodeError::Overloaded { .. } => {
                let retry_after = error.retry_after();
                Self {
                    retry_after,
                    ..Self::busy(error.reason(), error.to_string())
                }
            }
            EncodeError::Deadline { .. } => Self::server(StatusCode::GATEWAY_TIMEOUT, "deadline", error.to_string()),
            EncodeError::Stopped => Self::server(StatusCode::SERVICE_UNAVAILABLE, "stopped", error.to_string()),
            EncodeError::Model(cause) => match &**cause {
                Error::Tokenize { .. } => input(StatusCode::UNPROCESSABLE_ENTITY, "tokenize", error.to_string()),
                _ => Self::server(StatusCode::INTERNAL_SERVER_ERROR, "model", error.to_string()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_too_often_is_told_when_to_come_again() {
        let (wait, left) = (Duration::from_millis(2500), Duration::from_secs(1));
        let reply = EncoderRefusal::from(EncodeError::Overloaded { ahead: 5, wait, left }).into_response();
        let header = |name: &str| {
            reply
                .headers()
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(reply.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(
            (header("retry-after").as_deref(), header("retry-after-ms").as_deref()),
            (Some("2"), Some("1500"))
        );
        let reply = EncoderRefusal::from(EncodeError::Deadline { waited_ms: 5 }).into_response();
        assert_eq!(
            (reply.status(), reply.headers().get(RETRY_AFTER)),
            (StatusCode::GATEWAY_TIMEOUT, None)
        );
    }
}
