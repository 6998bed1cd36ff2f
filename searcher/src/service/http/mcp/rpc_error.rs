//! Errors of JSON-RPC, and those of the other routes in their form: `{"jsonrpc": "2.0", "id": null, "error": {...}}`.

use axum::http::StatusCode;
use axum::response::Response;
use dyad_proto::service::json_api::HttpRefusal;
use serde_json::{Value, json};

/// Characters of a name that an error repeats.
const TOLD_CHARACTERS: usize = 80;

/// The beginning of a name that a client gives, as an error repeats it.
pub(super) fn beginning(name: &str) -> String {
    // The precision of a format does not shorten escaped texts.
    name.escape_debug().take(TOLD_CHARACTERS).collect()
}

/// A message that was not answered with a result.
#[derive(Debug)]
pub(super) struct RpcError {
    /// Of JSON-RPC and the protocol below -32000; of everything else the HTTP status.
    code: i64,
    refusal: Box<HttpRefusal>,
    data: Option<Value>,
}

impl RpcError {
    fn new(code: i64, status: StatusCode, name: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            refusal: Box::new(HttpRefusal::new(status, name, message)),
            data: None,
        }
    }

    /// The request is at fault.
    fn wrong(code: i64, message: impl Into<String>) -> Self {
        Self::new(code, StatusCode::BAD_REQUEST, "INVALID_ARGUMENT", message)
    }

    /// The body is no JSON.
    pub(super) fn no_json(message: impl Into<String>) -> Self {
        Self::wrong(-32700, message)
    }

    /// The body is no message of JSON-RPC.
    pub(super) fn no_message(message: impl Into<String>) -> Self {
        Self::wrong(-32600, message)
    }

    pub(super) fn no_method(method: &str) -> Self {
        let message = format!("no method `{}`. There are tools: `tools/list`", beginning(method));
        Self::new(-32601, StatusCode::NOT_FOUND, "UNIMPLEMENTED", message)
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::wrong(-32602, message)
    }

    /// A header is not what the message says.
    pub(super) fn header(message: impl Into<String>) -> Self {
        Self::wrong(-32020, message)
    }

    /// A revision of the protocol that is not spoken here.
    pub(super) fn revision(requested: &str, spoken: &[&str]) -> Self {
        let message = format!(
            "`MCP-Protocol-Version`: expected one of {}, got `{}`",
            spoken.join(", "),
            beginning(requested)
        );
        Self {
            data: Some(json!({"supported": spoken, "requested": requested})),
            ..Self::wrong(-32022, message)
        }
    }

    /// As before the revision of 2026, when the errors of a well-formed request came with 200.
    pub(super) fn of_session(self) -> Self {
        if matches!(self.code, -32601 | -32602) {
            let refusal = HttpRefusal::new(StatusCode::OK, self.refusal.status(), self.refusal.message());
            return Self {
                refusal: Box::new(refusal),
                ..self
            };
        }
        self
    }

    /// The reply to the request with this id, which is JSON.
    pub(super) fn reply(&self, id: &str) -> Response {
        let mut error = json!({"code": self.code, "message": self.refusal.message()});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        self.refusal
            .with_body(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
    }
}

impl From<HttpRefusal> for RpcError {
    fn from(refusal: HttpRefusal) -> Self {
        Self {
            code: refusal.code().as_u16().into(),
            data: Some(json!({"status": refusal.status()})),
            refusal: Box::new(refusal),
        }
    }
}
