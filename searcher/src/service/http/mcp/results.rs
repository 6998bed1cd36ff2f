//! Results, as JSON and as text for the model.

use std::fmt::Write as _;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use dyad_proto::service::json_api::{HttpRefusal, JSON, StatusName};
use serde_json::{Value, json};

use super::revision::Revision;

/// What a result answers.
#[derive(Debug, Clone)]
pub(super) struct ResultFrame {
    /// Id of the request, as JSON.
    pub(super) id: String,
    pub(super) revision: Revision,
}

impl ResultFrame {
    /// The reply with a result.
    pub(super) fn reply(&self, mut result: Value) -> Response {
        if let Value::Object(members) = &mut result {
            members.extend(self.revision.of_results());
        }
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, self.id);
        ([(CONTENT_TYPE, JSON)], body).into_response()
    }

    /// The body of a tool's result: a message as JSON, and its text as a JSON string.
    pub(super) fn tool_result(&self, text: &str, json: &str) -> String {
        let mut body = format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{{"type":"text","text":{text}}}],"isError":false"#,
            self.id
        );
        body.reserve(json.len() + 256);
        for (name, value) in self.revision.of_results() {
            // A text takes everything.
            let _ = write!(body, r#","{name}":{value}"#);
        }
        for part in [r#","structuredContent":"#, json, "}}"] {
            body.push_str(part);
        }
        body
    }

    /// The reply that a tool was refused, for the model to put right.
    pub(super) fn tool_error(&self, refusal: &HttpRefusal) -> Response {
        let content = json!([{"type": "text", "text": refusal.message()}]);
        let mut reply = self.reply(json!({"content": content, "isError": true}));
        reply.extensions_mut().insert(StatusName(refusal.status()));
        reply
    }
}
