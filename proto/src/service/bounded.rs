//! The layer around every gRPC service: bounds and checks request bodies, tracks reply bodies per connection, and counts
//! requests in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::sync::watch;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tower::Layer;

use super::budget::ByteBudget;
use super::receive::{Held, Received, inbox};
use super::reply::{Owed, Sent, UntilSent};
use super::schema::Schema;

/// The layer that wraps services.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    schema: Arc<Schema>,
    inbox: ByteBudget,
    draining: watch::Receiver<bool>,
    in_flight: Arc<AtomicUsize>,
}

impl Bounds {
    pub(super) fn new(schema: Schema, draining: watch::Receiver<bool>, in_flight: Arc<AtomicUsize>) -> Self {
        Self { schema: Arc::new(schema), inbox: inbox(), draining, in_flight }
    }
}

impl<S> Layer<S> for Bounds {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded { inner, bounds: self.clone() }
    }
}

/// A wrapped service.
#[derive(Debug, Clone)]
pub(super) struct Bounded<S> {
    inner: S,
    bounds: Bounds,
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

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let Bounds { schema, inbox, draining, in_flight } = &self.bounds;
        let counted = Counted::new(in_flight);
        let held = Held::default();
        let owed = request.extensions().get::<Owed>().cloned().unwrap_or_default();
        // Unknown methods are refused by the routes, which read no body.
        let request = match schema.method(request.uri().path()) {
            Some(method) => request.map(|body| {
                let mut draining = draining.clone();
                let drain = Box::pin(async move {
                    // The sender is dropped when the server ends.
                    let _ = draining.wait_for(|begun| *begun).await;
                });
                Body::new(Received::new(body, Arc::clone(schema), method, (inbox.clone(), Arc::clone(&held)), drain))
            }),
            None => request,
        };
        let reply = self.inner.call(request);
        Box::pin(async move {
            let mut reply = reply.await?;
            // The request has been consumed by now.
            drop(held);
            let kept = reply.extensions_mut().remove::<UntilSent>();
            Ok(reply.map(|body| Body::new(Sent::new(body, owed, kept, Box::new(counted)))))
        })
    }
}
