//! Reply bodies: handed over in pieces, and known to their connection until the client has taken them.
//!
//! HTTP/2 lets a client ask for a reply and never take it. A connection that owes a client a piece for too long is ended,
//! and its replies with it.

use std::any::Any;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

/// Bytes handed to the transport at a time: what it holds of a reply that its client does not take.
const PIECE: usize = 64 << 10;

/// Something that is kept until a reply was sent, such as a share of memory. Goes into the extensions of a response.
#[derive(Clone)]
pub struct UntilSent(Arc<dyn Any + Send + Sync>);

impl UntilSent {
    /// Keeps `what`.
    pub fn new(what: impl Any + Send + Sync) -> Self {
        Self(Arc::new(what))
    }
}

impl std::fmt::Debug for UntilSent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UntilSent").field("holders", &Arc::strong_count(&self.0)).finish()
    }
}

/// The replies of one connection whose next piece waits for the client, and since when.
#[derive(Debug, Clone, Default)]
pub(super) struct Owed {
    since: Arc<Mutex<HashMap<u64, Instant>>>,
    next: Arc<AtomicU64>,
}

impl Owed {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a client has left a piece waiting for so long.
    pub(super) fn longer_than(&self, time: Duration) -> bool {
        self.lock().values().any(|since| since.elapsed() > time)
    }
}

/// A reply's body.
pub(super) struct Sent {
    inner: Body,
    /// Of the last frame, what was not handed over yet.
    rest: Bytes,
    owed: Owed,
    number: u64,
    _kept: Option<UntilSent>,
    _counted: Box<dyn Any + Send>,
}

impl Sent {
    /// `counted` is dropped with the body.
    pub(super) fn new(inner: Body, owed: Owed, kept: Option<UntilSent>, counted: Box<dyn Any + Send>) -> Self {
        let number = owed.next.fetch_add(1, Ordering::Relaxed);
        owed.lock().insert(number, Instant::now());
        Self { inner, rest: Bytes::new(), owed, number, _kept: kept, _counted: counted }
    }

    fn piece(&mut self) -> Frame<Bytes> {
        Frame::data(self.rest.split_to(self.rest.len().min(PIECE)))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_data() {
                Ok(data) => {
                    self.rest = data;
                    self.piece()
                }
                Err(trailers) => trailers,
            }))),
            other => other,
        }
    }
}

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = self.poll_next(cx);
        let number = self.number;
        let mut owed = self.owed.lock();
        // A piece that was handed over is asked for again only when the client has taken of it; while there is none, the
        // client waits for the server.
        match &polled {
            Poll::Ready(Some(Ok(_))) => drop(owed.insert(number, Instant::now())),
            Poll::Ready(_) | Poll::Pending => drop(owed.remove(&number)),
        }
        drop(owed);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.rest.is_empty() { self.inner.size_hint() } else { SizeHint::default() }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.owed.lock().remove(&self.number);
    }
}
