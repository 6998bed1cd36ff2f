//! The Model Context Protocol over streamable HTTP: searches, documents and explanations as tools of a language model.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the route, from headers to reply |
//! | `message.rs` | JSON-RPC: one message of a body |
//! | `rpc_error.rs` | errors of JSON-RPC, and those of the other routes in their form |
//! | `revision.rs` | the revisions of the protocol, and what each asks of a request |
//! | `tools.rs` | the tools: names, descriptions, schemas of arguments and results |
//! | `arguments.rs` | a tool's arguments as a request |
//! | `results.rs` | results, as JSON and as text for the model |
//! | `text.rs` | replies as text |
//!
//! There are no sessions and no streams from the server: every message is answered by itself, as the revision of
//! 2026-07-28 has it, and earlier ones allow it. So GET and DELETE are answered 405.

mod arguments;
mod message;
mod results;
mod revision;
mod rpc_error;
mod text;
mod tools;

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use dyad_proto::access::Caller;
use dyad_proto::service::json_api::{HttpRefusal, JsonCalls, ReceivedJson};
use dyad_proto::v1;
use dyad_proto::v1::searcher_server::Searcher as _;
use prost::Message;
use serde_json::{Value, json};
use tonic::Status;

use self::message::{Params, RpcCall, RpcMessage};
use self::results::ResultFrame;
use self::revision::{GivenHeaders, Revision};
use self::rpc_error::RpcError;
use self::tools::{Tool, ToolList};
use super::app::SEARCH;
use crate::metrics::CountedName;
use crate::run::Engine;
use crate::service::convert;
use crate::service::search::SearchService;

/// The path of the endpoint.
pub(super) const ROUTE: &str = "/mcp";
/// How long a client may keep the list of tools, in milliseconds.
const LIST_AGE_MS: u64 = 300_000;
/// Names of indexes that the list of tools tells.
const TOLD_INDEXES: usize = 20;

/// A refusal of another part of the server, in the form of this route.
pub(super) fn refused(refusal: HttpRefusal) -> Response {
    RpcError::from(refusal).reply("null")
}

/// What answers at the endpoint.
pub(super) struct McpServer {
    service: SearchService,
    engine: Arc<Engine>,
    calls: Arc<JsonCalls>,
    tools: ToolList,
}

impl McpServer {
    /// None where a tool has no method.
    pub(super) fn new(service: SearchService, engine: Arc<Engine>, calls: Arc<JsonCalls>) -> Option<Self> {
        let tools = ToolList::new(&calls.json)?;
        Some(Self {
            service,
            engine,
            calls,
            tools,
        })
    }

    /// The route.
    pub(super) fn route<S: Clone + Send + Sync + 'static>(self) -> Router<S> {
        let server = Arc::new(self);
        let answer = move |request: Request| async move { server.answer(request).await };
        Router::new().route(ROUTE, post(answer))
    }

    async fn answer(&self, request: Request) -> Response {
        let headers = GivenHeaders::of(request.headers());
        let (caller, name) = (
            request.extensions().get::<Caller>().cloned(),
            request.extensions().get::<CountedName>().cloned(),
        );
        let received = match self.calls.receive(request, SEARCH).await {
            Ok(received) => received,
            Err(refusal) => return refused(refusal),
        };
        let read = |_: &JsonCalls, json: &[u8]| RpcMessage::read(json);
        let (message, received) = match self.calls.read(received, read).await {
            Ok(read) => read,
            Err(refusal) => return refused(refusal),
        };
        let call = match message {
            Ok(RpcMessage::Call(call)) => call,
            // There is nothing that a notification would change.
            Ok(RpcMessage::Notification) => {
                return match headers.check_of_notification() {
                    Ok(()) => StatusCode::ACCEPTED.into_response(),
                    Err(error) => error.reply("null"),
                };
            }
            Err(fault) => return fault.error.reply(&fault.id),
        };
        let revision = match headers.revision_of(&call) {
            Ok(revision) => revision,
            Err(error) => return error.reply(&call.id),
        };
        let frame = ResultFrame {
            id: call.id.clone(),
            revision,
        };
        let called = Called {
            caller: caller.unwrap_or_default(),
            name,
            received,
        };
        let answered = self.answer_call(call, &frame, called).await;
        answered.unwrap_or_else(|error| match revision {
            Revision::Request => error.reply(&frame.id),
            Revision::Session => error.of_session().reply(&frame.id),
        })
    }

    async fn answer_call(&self, call: RpcCall, frame: &ResultFrame, called: Called) -> Result<Response, RpcError> {
        match (call.method.as_str(), frame.revision) {
            ("initialize", Revision::Session) => {
                let version = Revision::agreed(&call.params)?;
                Ok(frame.reply(json!({
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": revision::server(),
                    "instructions": tools::INSTRUCTIONS,
                })))
            }
            ("server/discover", Revision::Request) => Ok(frame.reply(json!({
                "supportedVersions": revision::ALL,
                "capabilities": {"tools": {}},
                "instructions": tools::INSTRUCTIONS,
                "ttlMs": LIST_AGE_MS,
                "cacheScope": "public",
            }))),
            ("ping", Revision::Session) => Ok(frame.reply(json!({}))),
            ("tools/list", _) => {
                if call.params.get("cursor").is_some() {
                    let message = "`params.cursor`: expected none, got one. The list has one page";
                    return Err(RpcError::invalid_params(message));
                }
                let mut result = json!({"tools": self.tools.told(&self.indexes_of(&called.caller))});
                if frame.revision == Revision::Request {
                    (result["ttlMs"], result["cacheScope"]) = (json!(LIST_AGE_MS), json!("private"));
                }
                Ok(frame.reply(result))
            }
            ("tools/call", _) => self.call_tool(&call.params, frame, called).await,
            (method, _) => Err(RpcError::no_method(method)),
        }
    }

    /// The indexes that a caller may name, as a sentence.
    fn indexes_of(&self, caller: &Caller) -> String {
        let indexes = convert::indexes(&self.engine, caller).indexes;
        let named = indexes.iter().take(TOLD_INDEXES).map(|index| {
            let is_default = if index.is_default { " (the default)" } else { "" };
            format!("`{}`{is_default}", index.name)
        });
        let named: Vec<String> = named.collect();
        let more = match indexes.len().saturating_sub(TOLD_INDEXES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("Indexes: {}{more}.", named.join(", "))
    }

    async fn call_tool(&self, params: &Params, frame: &ResultFrame, called: Called) -> Result<Response, RpcError> {
        let tool = Tool::of(params)?;
        let arguments = params.get("arguments").unwrap_or("{}");
        if let Some(name) = &called.name {
            name.find(tool.call());
        }
        let mut received = called.received;
        received.bytes = arguments.as_bytes().to_vec();
        let service = self.service.clone();
        let answered = match tool {
            Tool::Search => {
                let answer = |request| async move { service.search(request).await };
                self.run(received, frame, arguments::search, answer, text::search).await
            }
            Tool::Get => {
                let answer = |request| async move { service.get_documents(request).await };
                let read = |calls: &JsonCalls, json: &[u8]| Ok(calls.json.read(json)?);
                self.run(received, frame, read, answer, text::documents).await
            }
            Tool::Explain => {
                let answer =
                    |request: tonic::Request<v1::ExplainRequest>| async move { service.explain(request).await };
                self.run(received, frame, arguments::explain, answer, text::explanation)
                    .await
            }
        };
        // What a call is refused for, a model may put right or tell.
        Ok(answered.unwrap_or_else(|refusal| frame.tool_error(&refusal)))
    }

    /// From arguments to a result, by a method of gRPC.
    async fn run<Q, R, F>(
        &self,
        received: ReceivedJson,
        frame: &ResultFrame,
        read: fn(&JsonCalls, &[u8]) -> Result<Q, HttpRefusal>,
        answer: impl FnOnce(tonic::Request<Q>) -> F,
        text: fn(&R) -> String,
    ) -> Result<Response, HttpRefusal>
    where
        Q: Send + 'static,
        R: Message + prost::Name + 'static,
        F: Future<Output = Result<tonic::Response<R>, Status>>,
    {
        let (message, received) = self.calls.read(received, read).await?;
        let reply = answer(received.request(message?)).await?;
        let frame = frame.clone();
        let write = move |calls: &JsonCalls, reply: R| {
            // The text first: of the message and its JSON, one is dropped before the other is made.
            let text = Value::String(text(&reply)).to_string();
            calls.json.write(reply).map(|json| frame.tool_result(&text, &json))
        };
        self.calls.reply(received, reply, write).await
    }
}

/// What a call comes with.
struct Called {
    caller: Caller,
    /// What it counts as.
    name: Option<CountedName>,
    received: ReceivedJson,
}
