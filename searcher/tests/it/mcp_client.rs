//! Messages of the Model Context Protocol, as clients of either kind of revision send them.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::http_client::{Http, Reply};

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// Each request by itself: 2026-07-28.
    Requests,
    /// After `initialize`: 2025-11-25.
    Session,
}

/// A client of the endpoint.
pub(crate) struct McpCaller<'a> {
    pub(crate) http: &'a Http,
    pub(crate) spoken: Spoken,
    /// More lines of the head.
    pub(crate) headers: String,
}

impl<'a> McpCaller<'a> {
    pub(crate) fn new(http: &'a Http, spoken: Spoken) -> Self {
        let headers = String::new();
        Self { http, spoken, headers }
    }

    pub(crate) fn with_key(http: &'a Http, spoken: Spoken, key: &str) -> Self {
        Self {
            headers: format!("Authorization: Bearer {key}\r\n"),
            ..Self::new(http, spoken)
        }
    }

    /// Sends a body as it is.
    pub(crate) async fn send(&self, headers: &str, body: &str) -> Reply {
        let headers = format!("Content-Type: application/json\r\n{}{headers}", self.headers);
        self.http.send("POST", "/mcp", &headers, body).await
    }

    /// Calls a method.
    pub(crate) async fn call(&self, method: &str, mut params: Value) -> Reply {
        let mut headers = "MCP-Protocol-Version: 2025-11-25\r\n".to_owned();
        if self.spoken == Spoken::Requests {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n");
            if let Some(name) = params["name"].as_str() {
                let _ = write!(headers, "Mcp-Name: {name}\r\n");
            }
        }
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let reply = self.send(&headers, &message.to_string()).await;
        assert_eq!(reply.json["jsonrpc"], "2.0", "{}", reply.json);
        reply
    }

    /// Calls a tool, and gives its result.
    pub(crate) async fn tool(&self, name: &str, arguments: Value) -> Value {
        let mut reply = self
            .call("tools/call", json!({"name": name, "arguments": arguments}))
            .await;
        assert_eq!((reply.status, &reply.json["id"]), (200, &json!(7)), "{}", reply.json);
        let mut result = reply.json["result"].take();
        if self.spoken == Spoken::Requests {
            assert_eq!(result["resultType"], "complete", "{result}");
            let meta = result.as_object_mut().unwrap().remove("_meta").unwrap();
            assert_eq!(meta["io.modelcontextprotocol/serverInfo"]["name"], "dyad-searcher");
        }
        result
    }

    /// The text of a tool that was refused.
    pub(crate) async fn refused(&self, name: &str, arguments: Value) -> String {
        let result = self.tool(name, arguments.clone()).await;
        assert_eq!(result["isError"], true, "{name} {arguments}: {result}");
        assert_eq!(result.get("structuredContent"), None);
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}
