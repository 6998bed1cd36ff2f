//! Errors as JSON: `{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "..."}}`, the form of gRPC's own
//! gateways.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tonic::{Code, Status};

use crate::json::MessageJsonError;
use crate::service::http_request::BodyError;
use crate::status::status_name;

/// Time after which a caller may try again, where nothing is known.
const RETRY: Duration = Duration::from_secs(1);

/// A request that was not answered.
#[derive(Debug)]
pub struct HttpRefusal {
    code: StatusCode,
    status: &'static str,
    message: String,
    retry_after: Option<Duration>,
}

impl HttpRefusal {
    /// With a gRPC status by name.
    pub fn new(code: StatusCode, status: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            status,
            message: message.into(),
            retry_after: None,
        }
    }

    /// The request is at fault.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", message)
    }

    /// Too much for now.
    pub fn busy(message: impl Into<String>) -> Self {
        let refusal = Self::new(StatusCode::TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED", message);
        Self {
            retry_after: Some(RETRY),
            ..refusal
        }
    }
}

impl HttpRefusal {
    /// The HTTP status.
    pub fn code(&self) -> StatusCode {
        self.code
    }

    /// The name of the gRPC code.
    pub fn status(&self) -> &'static str {
        self.status
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The reply with another body of the type `application/json`: its status and headers are those of the refusal.
    pub fn with_body(&self, body: String) -> Response {
        let mut response = (self.code, body).into_response();
        response.extensions_mut().insert(StatusName(self.status));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.code == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(time) = self.retry_after {
            // The standard has whole seconds; the other header is of gRPC's and OpenAI's clients.
            headers.insert(RETRY_AFTER, HeaderValue::from(time.as_millis().div_ceil(1000) as u64));
            headers.insert("retry-after-ms", HeaderValue::from(time.as_millis() as u64));
        }
        response
    }
}

impl From<BodyError> for HttpRefusal {
    fn from(error: BodyError) -> Self {
        let message = error.to_string();
        match error {
            BodyError::Late => Self::new(StatusCode::REQUEST_TIMEOUT, "DEADLINE_EXCEEDED", message),
            BodyError::Broken(_) | BodyError::Damaged(_) => Self::invalid(message),
            BodyError::Encoded(_) => Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "INVALID_ARGUMENT", message),
            BodyError::TooLarge { .. } => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "OUT_OF_RANGE", message),
            BodyError::Full => Self::busy(message),
        }
    }
}

/// The gRPC status of a reply, by name, in its extensions.
#[derive(Debug, Clone, Copy)]
pub struct StatusName(pub &'static str);

/// The HTTP status of a gRPC code, as in `google/rpc/code.proto`.
fn mapped(code: Code) -> u16 {
    match code {
        Code::Ok => 200,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::ResourceExhausted => 429,
        Code::Cancelled => 499,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::DeadlineExceeded => 504,
    }
}

impl From<MessageJsonError> for HttpRefusal {
    fn from(error: MessageJsonError) -> Self {
        match error {
            MessageJsonError::Request(_) => Self::invalid(error.to_string()),
            MessageJsonError::Reply(_) => Status::internal(error.to_string()).into(),
        }
    }
}

impl From<Status> for HttpRefusal {
    fn from(status: Status) -> Self {
        let pushback: Option<i64> = status
            .metadata()
            .get("grpc-retry-pushback-ms")
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let is_transient = matches!(status.code(), Code::ResourceExhausted | Code::Unavailable);
        // Below 0 it says that another attempt is of no use.
        let retry_after = match pushback {
            Some(pushback) => u64::try_from(pushback).ok().map(Duration::from_millis),
            None => Some(RETRY),
        };
        Self {
            code: StatusCode::from_u16(mapped(status.code())).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            status: status_name(status.code()),
            message: status.message().to_owned(),
            retry_after: retry_after.filter(|_| is_transient),
        }
    }
}

impl IntoResponse for HttpRefusal {
    fn into_response(self) -> Response {
        let error = json!({"code": self.code.as_u16(), "status": self.status, "message": self.message});
        self.with_body(json!({ "error": error }).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_its_meaning_and_its_retry_hint() {
        let mut busy = Status::resource_exhausted("full");
        busy.metadata_mut()
            .insert("grpc-retry-pushback-ms", "1500".parse().unwrap());
        let reply = HttpRefusal::from(busy).into_response();
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
        for (status, code) in [
            (Status::invalid_argument("x"), 400),
            (Status::failed_precondition("x"), 400),
            (Status::not_found("x"), 404),
            (Status::cancelled("x"), 499),
            (Status::deadline_exceeded("x"), 504),
        ] {
            let reply = HttpRefusal::from(status).into_response();
            assert_eq!(
                (reply.status().as_u16(), reply.headers().get(RETRY_AFTER)),
                (code, None)
            );
        }
        let mut for_good = Status::resource_exhausted("the disk is full");
        for_good
            .metadata_mut()
            .insert("grpc-retry-pushback-ms", "-1".parse().unwrap());
        let reply = HttpRefusal::from(for_good).into_response();
        let hints = [RETRY_AFTER.as_str(), "retry-after-ms"].map(|name| reply.headers().contains_key(name));
        assert_eq!((reply.status().as_u16(), hints), (429, [false, false]));
        let away = HttpRefusal::from(Status::unavailable("x")).into_response();
        assert_eq!(
            (away.status().as_u16(), away.headers()[RETRY_AFTER].to_str().unwrap()),
            (503, "1")
        );
    }
}
