//! Methods of gRPC as routes that take and give JSON over HTTP: bounded before it is read, and read and written off the
//! runtime where it is large.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | a route, from headers to reply |
//! | `bounds.rs` | the bounds of a request's JSON |
//! | `off_runtime.rs` | work that takes long, on threads for computing |
//! | `refusal.rs` | errors as JSON |
//! | [`openapi`] | the OpenAPI document, made of the `.proto` files |
//! | `schemas.rs` | JSON Schemas of messages, of which that document and those of tools are made |
//! | `schema_rules.rs` | what validation asks of requests, in these |

mod bounds;
mod off_runtime;
pub mod openapi;
mod refusal;
mod schema_rules;
mod schemas;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use prost::{Message, Name};
use tonic::Status;

pub use bounds::JsonBounds;
pub use off_runtime::off_the_runtime;
pub use refusal::{HttpRefusal, StatusName};
pub use schemas::{MethodSchemas, OfferedRequest};

use super::deadline::LONGEST;
use super::http_request::{BodyError, ReceivedBody, read_body, timeout};
use super::reply::UntilSent;
use crate::access::Caller;
use crate::admission::{AdmissionLimit, Admitted};
use crate::json::MessageJson;

/// The type of bodies.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What the calls over HTTP of a server share.
#[derive(Debug)]
pub struct JsonCalls {
    /// Reads requests and writes replies.
    pub json: MessageJson,
    /// Bytes of requests that may be under way, as JSON and as what was read of it.
    pub request_bytes: AdmissionLimit,
    /// Calls that may be under way.
    pub requests: AdmissionLimit,
}

impl JsonCalls {
    /// A place among the calls that are under way.
    pub fn under_way(&self) -> Result<Admitted, HttpRefusal> {
        let place = self.requests.try_admit(1);
        place.map_err(|_| HttpRefusal::busy("too many requests are under way. Try again later with back-off"))
    }

    /// A message as a reply that takes no reply memory.
    pub async fn written<R>(self: &Arc<Self>, message: R) -> Result<Response, HttpRefusal>
    where
        R: Message + Name + 'static,
    {
        let (calls, deadline) = (Arc::clone(self), Instant::now() + LONGEST);
        let (body, ()) =
            off_the_runtime(message.encoded_len(), deadline, (), move || calls.json.write(message)).await?;
        Ok(([(CONTENT_TYPE, JSON)], body?).into_response())
    }

    /// A request within its bounds, that takes its place among those that are under way.
    pub async fn receive(&self, request: Request, most: JsonBounds) -> Result<ReceivedJson, HttpRefusal> {
        let came = Instant::now();
        let caller = request.extensions().get::<Caller>().cloned();
        let time = timeout(request.headers()).map_err(HttpRefusal::invalid)?;
        check_content_type(request.headers())?;
        let under_way = self.under_way()?;
        let deadline = came + time.unwrap_or(LONGEST);
        let ReceivedBody { bytes, room } = read_body(request, most.bytes, &self.request_bytes, deadline).await?;
        let memory = self.request_bytes.try_admit(most.memory(&bytes)?);
        let memory = memory.map_err(|_| HttpRefusal::from(BodyError::Full))?;
        Ok(ReceivedJson {
            bytes,
            caller,
            came,
            time,
            deadline,
            _held: vec![under_way, room, memory],
        })
    }

    /// From a request to a reply, by a method of gRPC.
    pub async fn call<Q, R, F>(
        self: &Arc<Self>,
        request: Request,
        most: JsonBounds,
        answer: impl FnOnce(tonic::Request<Q>) -> F,
    ) -> Result<Response, HttpRefusal>
    where
        Q: Message + Name + Default + 'static,
        R: Message + Name + 'static,
        F: Future<Output = Result<tonic::Response<R>, Status>>,
    {
        let received = self.receive(request, most).await?;
        let read = |calls: &Self, bytes: &[u8]| calls.json.read::<Q>(bytes);
        let (message, received) = self.read(received, read).await?;
        let reply = answer(received.request(message?)).await?;
        self.reply(received, reply, |calls, reply| calls.json.write(reply))
            .await
    }

    /// What `read` makes of a request's bytes, which are dropped.
    pub async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        mut received: ReceivedJson,
        read: impl FnOnce(&Self, &[u8]) -> T + Send + 'static,
    ) -> Result<(T, ReceivedJson), HttpRefusal> {
        let (bytes, reader) = (std::mem::take(&mut received.bytes), Arc::clone(self));
        let (size, deadline) = (bytes.len(), received.deadline);
        off_the_runtime(size, deadline, received, move || read(&reader, &bytes)).await
    }

    /// The reply to a request, with the body that `write` makes of its message.
    pub async fn reply<R, E>(
        self: &Arc<Self>,
        received: ReceivedJson,
        reply: tonic::Response<R>,
        write: impl FnOnce(&Self, R) -> Result<String, E> + Send + 'static,
    ) -> Result<Response, HttpRefusal>
    where
        R: Message + 'static,
        E: Send + 'static,
        HttpRefusal: From<E>,
    {
        let (_, reply, mut extensions) = reply.into_parts();
        let budget = extensions.remove::<UntilSent>();
        let (size, deadline, writer) = (reply.encoded_len(), received.deadline, Arc::clone(self));
        let work = move || write(&writer, reply);
        let (body, (_, budget)) = off_the_runtime(size, deadline, (received, budget), work).await?;
        let mut reply = ([(CONTENT_TYPE, JSON)], body?).into_response();
        // The connection holds the budget until the reply is sent.
        budget.map(|budget| reply.extensions_mut().insert(budget));
        Ok(reply)
    }
}

/// A request that was received, and what it holds until its reply is made.
#[derive(Debug)]
pub struct ReceivedJson {
    /// What is read of it next.
    pub bytes: Vec<u8>,
    caller: Option<Caller>,
    came: Instant,
    time: Option<Duration>,
    deadline: Instant,
    /// Its place among the calls under way, and its room.
    _held: Vec<Admitted>,
}

impl ReceivedJson {
    /// The request of a method of gRPC, of the same caller and with what is left of its time.
    pub fn request<Q>(&self, message: Q) -> tonic::Request<Q> {
        let mut request = tonic::Request::new(message);
        // Without it the service refuses the call.
        if let Some(caller) = &self.caller {
            request.extensions_mut().insert(caller.clone());
        }
        if let Some(time) = self.time {
            // The service takes the time from the call's deadline, of which at least a moment is left.
            request.set_timeout(time.saturating_sub(self.came.elapsed()).max(Duration::from_millis(1)));
        }
        request
    }
}

/// The refusal of a path that is no route; `routes` says which there are.
pub fn no_route(uri: &Uri, routes: &str) -> HttpRefusal {
    let message = format!("no route `{}`. There are {routes}", uri.path());
    HttpRefusal::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
}

/// The refusal of a method that a route does not take.
pub fn no_method(method: &Method, uri: &Uri) -> HttpRefusal {
    let message = format!(
        "`{}` does not take {method}. The header `Allow` says what it takes",
        uri.path()
    );
    HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, "UNIMPLEMENTED", message)
}

/// A browser sends JSON to another site's server only after asking it, and these routes allow it to the pages of
/// `--cors-origin` alone.
fn check_content_type(headers: &HeaderMap) -> Result<(), HttpRefusal> {
    let got = headers
        .get(CONTENT_TYPE)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
    let kind = got
        .as_deref()
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    if kind == "application/json" {
        return Ok(());
    }
    let got = got.as_deref().unwrap_or("none");
    let message = format!("header `Content-Type`: expected application/json, got {got}");
    Err(HttpRefusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "INVALID_ARGUMENT",
        message,
    ))
}
