//! The layer around every gRPC service: checks the caller, and bounds the call's time and its requests, which are
//! checked before they are decoded.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use tokio::sync::watch;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::Instrument as _;

use super::budget::ByteBudget;
use super::connection::ConnectedClient;
use super::deadline;
use super::encoding::{ACCEPTED, Encoding};
use super::receive::{HeldBody, ReceivedRequest, RequestMemory, inbox};
use super::reply::UntilSent;
use super::request_id::{REQUEST_ID, header_value, request_id};
use super::schema::{Method, Schema};
use crate::access::{AccessControl, Caller, Needed};
use crate::trace_context;

/// Told of the calls of dyad's own services, and of those for which there is no method.
pub trait CallObserver: std::fmt::Debug + Send + Sync {
    /// A unary call was answered, refused, or left by its client (`Cancelled`); or a stream of requests was refused
    /// before the first of them. `path` is `/dyad.v1.Searcher/Search`, or absent where there is no such method. The
    /// time is from the call's headers to the reply's.
    fn answered(&self, path: Option<&str>, status: Code, time: Duration);
}

/// A call to be told of when this is dropped.
struct Observed {
    observer: Arc<dyn CallObserver>,
    path: Option<String>,
    came: Instant,
    streams: bool,
    status: Code,
}

impl Observed {
    fn new(observer: Option<&Arc<dyn CallObserver>>, path: &str, method: Option<Method>) -> Option<Self> {
        // Health and reflection are no work.
        if method.is_some() && !path.starts_with("/dyad.") {
            return None;
        }
        Some(Self {
            observer: Arc::clone(observer?),
            path: method.map(|_| path.to_owned()),
            came: Instant::now(),
            streams: method.is_some_and(|method| method.streams),
            status: Code::Cancelled,
        })
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        // The requests of a stream are counted by the service, one by one.
        if !(self.streams && self.status == Code::Ok) {
            self.observer
                .answered(self.path.as_deref(), self.status, self.came.elapsed());
        }
    }
}

/// Header of how a request's messages are compressed, and that of what a server unpacks (gRPC, "Compression").
const ENCODING: &str = "grpc-encoding";
const ACCEPT_ENCODING: &str = "grpc-accept-encoding";

/// How the messages of a request are compressed; the name, where that is not known.
fn encoding(headers: &HeaderMap) -> Result<Option<Encoding>, String> {
    let Some(name) = headers.get(ENCODING) else {
        return Ok(None);
    };
    let name = String::from_utf8_lossy(name.as_bytes());
    Encoding::named(&name).map_err(|()| name.into_owned())
}

fn unknown_encoding(name: &str) -> Status {
    let got = name.escape_debug();
    Status::unimplemented(format!(
        "header `grpc-encoding`: expected one of {ACCEPTED}, got `{got}`"
    ))
}

/// The layer that wraps services.
#[derive(Debug, Clone)]
pub(super) struct BoundedLayer {
    schema: Arc<Schema>,
    inbox: ByteBudget,
    draining: watch::Receiver<bool>,
    timeout: Duration,
    access: AccessControl,
    observer: Option<Arc<dyn CallObserver>>,
}

impl BoundedLayer {
    pub(super) fn new(
        schema: Schema,
        draining: watch::Receiver<bool>,
        timeout: Duration,
        access: AccessControl,
        observer: Option<Arc<dyn CallObserver>>,
    ) -> Self {
        Self {
            schema: Arc::new(schema),
            inbox: inbox(),
            draining,
            timeout,
            access,
            observer,
        }
    }

    /// The request with a body that is bounded, and checked against the schema. Messages are unpacked here, and reach
    /// the service plain.
    fn bound(
        &self,
        mut request: Request,
        method: Method,
        encoding: Option<Encoding>,
        memory: RequestMemory,
    ) -> Request {
        request.headers_mut().remove(ENCODING);
        let mut draining = self.draining.clone();
        let drain = Box::pin(async move {
            // The sender is dropped when the server ends.
            let _ = draining.wait_for(|begun| *begun).await;
        });
        let schema = Arc::clone(&self.schema);
        request.map(|body| {
            let body = tonic::body::Body::new(body);
            Body::new(ReceivedRequest::new(body, schema, method, memory, drain, encoding))
        })
    }
}

/// A call as logs and refusals name it: `Searcher.Search` of the path `/dyad.v1.Searcher/Search`.
fn name(path: &str) -> String {
    let path = path.trim_start_matches('/');
    let (service, method) = path.split_once('/').unwrap_or((path, ""));
    format!("{}.{method}", service.rsplit('.').next().unwrap_or_default())
}

impl<S> Layer<S> for BoundedLayer {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded {
            inner,
            bounds: self.clone(),
        }
    }
}

/// A wrapped service.
#[derive(Debug, Clone)]
pub(super) struct Bounded<S> {
    inner: S,
    bounds: BoundedLayer,
}

impl<S> Service<Request> for Bounded<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let bounds = &self.bounds;
        let client = request.extensions_mut().remove::<ConnectedClient>();
        let (path, id) = (request.uri().path(), request_id(request.headers()));
        // Paths that lead nowhere are one call, so that strangers cannot write what they like into logs.
        let method = bounds.schema.method(path);
        let call = method.map_or_else(|| "unknown".to_owned(), |_| name(path));
        let mut observed = Observed::new(bounds.observer.as_ref(), path, method);
        let id_header = header_value(&id);
        let span = tracing::info_span!("request", %id, call);
        trace_context::continue_from(&span, request.headers());
        let caller = Caller::new(client.as_ref().and_then(|client| client.address), id);
        let checked = bounds
            .access
            .check(request.headers(), Needed::of_grpc(path), &call, caller);
        let encoding = encoding(request.headers()).map_err(|name| unknown_encoding(&name));
        let (caller, place, encoding) = match checked.and_then(|(caller, place)| Ok((caller, place, encoding?))) {
            Ok(checked) => checked,
            // No byte of the request's body is read.
            Err(status) => {
                if let Some(observed) = &mut observed {
                    observed.status = status.code();
                }
                return Box::pin(async move { Ok(refusal(status, id_header)) });
            }
        };
        if let Some(client) = client.filter(|_| caller.has_key()) {
            client.slot.accept_key();
        }
        request.extensions_mut().insert(caller);
        let held = HeldBody::default();
        let time = deadline::of_headers(request.headers()).map_or(bounds.timeout, |time| time.min(bounds.timeout));
        if let Some(method) = method {
            // Unknown methods are refused by the routes, which read no body.
            let memory = RequestMemory {
                inbox: bounds.inbox.clone(),
                held: Arc::clone(&held),
            };
            request = bounds.bound(request, method, encoding, memory);
        }
        let reply = tokio::time::timeout(time, self.inner.call(request));
        let reply = async move {
            let mut reply = match reply.await {
                Ok(Ok(reply)) => reply,
                Ok(Err(never)) => match never {},
                Err(_) => Status::cancelled("Timeout expired").into_http(),
            };
            if let Some(observed) = &mut observed {
                // A call that fails has no more than headers.
                observed.status = Status::from_header_map(reply.headers()).map_or(Code::Ok, |status| status.code());
            }
            drop(observed);
            reply.headers_mut().insert(REQUEST_ID, id_header);
            // The request has been consumed by now.
            drop(held);
            UntilSent::add(reply.extensions_mut(), place);
            Ok(reply)
        };
        Box::pin(reply.instrument(span))
    }
}

/// The reply to a call that is refused before its body is read.
fn refusal(status: Status, id: HeaderValue) -> Response {
    let mut refusal = status.into_http::<Body>();
    let headers = refusal.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED));
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_named_by_service_and_method() {
        for (path, expected) in [
            ("/dyad.v1.Searcher/Search", "Searcher.Search"),
            ("/grpc.health.v1.Health/Check", "Health.Check"),
            ("/Search", "Search."),
            ("", "."),
        ] {
            assert_eq!(name(path), expected);
        }
    }
}
