//! What is around every gRPC service: the caller is checked, the call's time is bounded, and so are its requests, which
//! are checked before they are decoded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::watch;
use tonic::{Code, Status};
use tracing::Instrument as _;

use super::budget::ByteBudget;
use super::checked::Checked;
use super::deadline;
use super::encoding::{ACCEPTED, Encoding};
use super::receive::{HeldBody, ReceivedRequest, RequestMemory};
use super::schema::{Method, Schema};
use crate::access::{AccessControl, Needed};

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

/// How the messages of a request are compressed.
fn encoding(headers: &HeaderMap) -> Result<Option<Encoding>, Status> {
    let Some(name) = headers.get(ENCODING) else {
        return Ok(None);
    };
    let name = String::from_utf8_lossy(name.as_bytes());
    Encoding::named(&name).map_err(|()| {
        let got = name.escape_debug();
        Status::unimplemented(format!(
            "header `grpc-encoding`: expected one of {ACCEPTED}, got `{got}`"
        ))
    })
}

/// The bounds of a server's calls.
#[derive(Debug)]
pub(super) struct CallBounds {
    pub(super) schema: Arc<Schema>,
    /// Memory for the requests of all calls.
    pub(super) inbox: ByteBudget,
    /// Whether the drain has begun.
    pub(super) draining: watch::Receiver<bool>,
    /// Longest time for any call; a shorter deadline of the client wins.
    pub(super) timeout: Duration,
    pub(super) access: AccessControl,
    /// Told of calls, for metrics.
    pub(super) observer: Option<Arc<dyn CallObserver>>,
}

impl CallBounds {
    /// Answers a call by `next`, unless it is refused: before a byte of its requests is read.
    pub(super) async fn answer(State(bounds): State<Arc<Self>>, mut request: Request, next: Next) -> Response {
        let path = request.uri().path().to_owned();
        // Paths that lead nowhere are one call, so that strangers cannot write what they like into logs.
        let method = bounds.schema.method(&path);
        let call = method.map_or_else(|| "unknown".to_owned(), |_| name(&path));
        let mut observed = Observed::new(bounds.observer.as_ref(), &path, method);
        let (checked, allowed) = Checked::open(&bounds.access, Needed::of_grpc(&path), &call, &mut request);
        let reply = match allowed.and_then(|()| encoding(request.headers())) {
            Ok(encoding) => {
                let reply = bounds.call(request, method, encoding, next);
                reply.instrument(checked.span().clone()).await
            }
            Err(status) => {
                let mut refusal = status.into_http::<Body>();
                let accepted = HeaderValue::from_static(ACCEPTED);
                refusal.headers_mut().insert(ACCEPT_ENCODING, accepted);
                refusal
            }
        };
        if let Some(observed) = &mut observed {
            // A call that fails has no more than headers.
            observed.status = Status::from_header_map(reply.headers()).map_or(Code::Ok, |status| status.code());
        }
        checked.answer(reply)
    }

    /// Passes on a call whose requests are bounded, and checked against the schema. Messages are unpacked on the way,
    /// and reach the service plain.
    async fn call(
        &self,
        mut request: Request,
        method: Option<Method>,
        encoding: Option<Encoding>,
        next: Next,
    ) -> Response {
        let time = deadline::of_headers(request.headers()).map_or(self.timeout, |time| time.min(self.timeout));
        request.headers_mut().remove(ENCODING);
        let (inbox, held) = (self.inbox.clone(), HeldBody::default());
        // Until the reply is made: the request has been consumed by then.
        let _held = Arc::clone(&held);
        // Unknown methods are refused by the routes, which read no body.
        if let Some(method) = method {
            let (schema, memory) = (Arc::clone(&self.schema), RequestMemory { inbox, held });
            let mut draining = self.draining.clone();
            let drain = Box::pin(async move {
                // The sender is dropped when the server ends.
                let _ = draining.wait_for(|begun| *begun).await;
            });
            request = request.map(|body| {
                let body = tonic::body::Body::new(body);
                Body::new(ReceivedRequest::new(body, schema, method, memory, drain, encoding))
            });
        }
        let reply = tokio::time::timeout(time, next.run(request)).await;
        reply.unwrap_or_else(|_| Status::cancelled("Timeout expired").into_http())
    }
}

/// A call as logs and refusals name it: `Searcher.Search` of the path `/dyad.v1.Searcher/Search`.
fn name(path: &str) -> String {
    let path = path.trim_start_matches('/');
    let (service, method) = path.split_once('/').unwrap_or((path, ""));
    format!("{}.{method}", service.rsplit('.').next().unwrap_or_default())
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
