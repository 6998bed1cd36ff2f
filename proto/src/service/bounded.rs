//! The layer around every gRPC service: checks the caller, bounds and checks request bodies, tracks reply bodies per
//! connection, and counts requests in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::{Code, Status};
use tower::Layer;
use tracing::Instrument as _;

use super::budget::ByteBudget;
use super::encoding::{ACCEPTED, Encoding};
use super::incoming::Client;
use super::receive::{HeldBody, ReceivedRequest, inbox};
use super::reply::{SentReply, UntilSent};
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
fn encoding(headers: &http::HeaderMap) -> Result<Option<Encoding>, String> {
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
    in_flight: Arc<AtomicUsize>,
    access: AccessControl,
    observer: Option<Arc<dyn CallObserver>>,
}

impl BoundedLayer {
    pub(super) fn new(
        schema: Schema,
        draining: watch::Receiver<bool>,
        in_flight: Arc<AtomicUsize>,
        (access, observer): (AccessControl, Option<Arc<dyn CallObserver>>),
    ) -> Self {
        Self {
            schema: Arc::new(schema),
            inbox: inbox(),
            draining,
            in_flight,
            access,
            observer,
        }
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

/// Counts a request from its arrival until its reply is sent.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(in_flight: &Arc<AtomicUsize>) -> Self {
        in_flight.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(in_flight))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S> Service<http::Request<Body>> for Bounded<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let BoundedLayer {
            schema,
            inbox,
            draining,
            in_flight,
            access,
            observer,
        } = &self.bounds;
        let counted = Counted::new(in_flight);
        let held = HeldBody::default();
        let Client {
            owed,
            address,
            is_known,
        } = request.extensions().get::<Client>().cloned().unwrap_or_default();
        let (path, id) = (request.uri().path(), request_id(request.headers()));
        // Paths that lead nowhere are one call, so that strangers cannot write what they like into logs.
        let method = schema.method(path);
        let call = if method.is_some() {
            name(path)
        } else {
            "unknown".to_owned()
        };
        let mut observed = Observed::new(observer.as_ref(), path, method);
        let id_header = header_value(&id);
        let span = tracing::info_span!("request", %id, call);
        trace_context::continue_from(&span, request.headers());
        let checked = access.check(
            request.headers(),
            Needed::of_grpc(path),
            &call,
            Caller::new(address, id),
        );
        let encoding = encoding(request.headers()).map_err(|name| unknown_encoding(&name));
        let (caller, place, encoding) = match checked.and_then(|(caller, place)| Ok((caller, place, encoding?))) {
            Ok(checked) => checked,
            // No byte of the request's body is read.
            Err(status) => {
                if let Some(observed) = &mut observed {
                    observed.status = status.code();
                }
                let mut refusal = status.into_http();
                refusal.headers_mut().insert(REQUEST_ID, id_header);
                refusal
                    .headers_mut()
                    .insert(ACCEPT_ENCODING, http::HeaderValue::from_static(ACCEPTED));
                return Box::pin(async move { Ok(refusal) });
            }
        };
        // Messages are unpacked here, and reach the service plain.
        request.headers_mut().remove(ENCODING);
        if caller.has_key() {
            is_known.store(true, Ordering::Relaxed);
        }
        request.extensions_mut().insert(caller);
        // Unknown methods are refused by the routes, which read no body.
        let request = match method {
            Some(method) => request.map(|body| {
                let mut draining = draining.clone();
                let drain = Box::pin(async move {
                    // The sender is dropped when the server ends.
                    let _ = draining.wait_for(|begun| *begun).await;
                });
                let memory = (inbox.clone(), Arc::clone(&held));
                Body::new(ReceivedRequest::new(
                    body,
                    Arc::clone(schema),
                    method,
                    memory,
                    drain,
                    encoding,
                ))
            }),
            None => request,
        };
        let reply = self.inner.call(request);
        let reply = async move {
            let mut reply = reply.await?;
            if let Some(observed) = &mut observed {
                // A call that fails has no more than headers.
                observed.status = Status::from_header_map(reply.headers()).map_or(Code::Ok, |status| status.code());
            }
            drop(observed);
            reply.headers_mut().insert(REQUEST_ID, id_header);
            // The request has been consumed by now.
            drop(held);
            let kept = reply.extensions_mut().remove::<UntilSent>();
            Ok(reply.map(|body| Body::new(SentReply::new(body, owed, kept, Box::new((counted, place))))))
        };
        Box::pin(reply.instrument(span))
    }
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
