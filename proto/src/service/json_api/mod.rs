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
//! | `schema_rules.rs` | what validation asks of requests, in that document |

mod bounds;
mod off_runtime;
pub mod openapi;
mod refusal;
mod schema_rules;

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
        let came = Instant::now();
        let caller = request.extensions().get::<Caller>().cloned();
        let time = timeout(request.headers()).map_err(HttpRefusal::invalid)?;
        check_content_type(request.headers())?;
        let under_way = self.under_way()?;
        let deadline = came + time.unwrap_or(LONGEST);
        let ReceivedBody { bytes, room } = read_body(request, most.bytes, &self.request_bytes, deadline).await?;
        let memory = self.request_bytes.try_admit(most.memory(&bytes)?);
        // Given back when the reply is made.
        let held = (under_way, room, memory.map_err(|_| HttpRefusal::from(BodyError::Full))?);
        let (size, reader) = (bytes.len(), Arc::clone(self));
        let read = move || reader.json.read::<Q>(&bytes);
        let (message, held) = off_the_runtime(size, deadline, held, read).await?;
        let mut request = tonic::Request::new(message?);
        // Without it the service refuses the call.
        caller.map(|caller| request.extensions_mut().insert(caller));
        if let Some(time) = time {
            // The service takes the time from the call's deadline, of which at least a moment is left.
            request.set_timeout(time.saturating_sub(came.elapsed()).max(Duration::from_millis(1)));
        }
        let (_, reply, mut extensions) = answer(request).await?.into_parts();
        let budget = extensions.remove::<UntilSent>();
        let (size, writer) = (reply.encoded_len(), Arc::clone(self));
        let write = move || writer.json.write(reply);
        let (body, (_, budget)) = off_the_runtime(size, deadline, (held, budget), write).await?;
        let mut reply = ([(CONTENT_TYPE, JSON)], body?).into_response();
        // The connection holds the budget until the reply is sent.
        budget.map(|budget| reply.extensions_mut().insert(budget));
        Ok(reply)
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
