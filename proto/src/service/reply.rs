//! Reply bodies: sent in pieces, and tracked by their connection until the client has read them.
//!
//! HTTP/2 lets a client request a reply and never read it. A connection with a piece that is unread for too long is
//! closed, with all of its replies.

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

/// Bytes passed to the transport at a time: the most that it buffers of a reply that its client does not read.
const PIECE: usize = 64 << 10;
/// Minimum rate at which a client must read a reply, in bytes per second.
pub(super) const LEAST_RATE: usize = 512 << 10;
/// Replies whose last byte is passed alone. The transport polls a piece before the client's window has room for it, and
/// the next one only after: so a reply is held until all of it but one byte is sent.
const LAST_ALONE: usize = 1 << 10;

/// A value that is kept until a reply is sent, such as its memory budget. Stored in the extensions of a response.
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
        f.debug_struct("UntilSent")
            .field("holders", &Arc::strong_count(&self.0))
            .finish()
    }
}

/// The replies of one connection whose next piece waits for the client, with their deadlines.
#[derive(Debug, Clone, Default)]
pub(super) struct Owed {
    until: Arc<Mutex<HashMap<u64, Instant>>>,
    next: Arc<AtomicU64>,
    stall: Duration,
}

impl Owed {
    /// For a connection whose client may take this long to read a piece.
    pub(super) fn new(stall: Duration) -> Self {
        Self {
            stall,
            ..Self::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a client has left a piece waiting for too long.
    pub(super) fn is_overdue(&self) -> bool {
        let now = Instant::now();
        self.lock().values().any(|until| *until < now)
    }
}

/// A reply's body.
pub(super) struct SentReply {
    inner: Body,
    /// The rest of the last frame.
    rest: Bytes,
    /// Deadline by which the client must have read the last frame.
    frame_until: Instant,
    owed: Owed,
    number: u64,
    _kept: Option<UntilSent>,
    _counted: Box<dyn Any + Send>,
}

impl SentReply {
    /// `counted` is dropped with the body.
    pub(super) fn new(inner: Body, owed: Owed, kept: Option<UntilSent>, counted: Box<dyn Any + Send>) -> Self {
        let number = owed.next.fetch_add(1, Ordering::Relaxed);
        let frame_until = Instant::now() + owed.stall;
        owed.lock().insert(number, frame_until);
        Self {
            inner,
            rest: Bytes::new(),
            frame_until,
            owed,
            number,
            _kept: kept,
            _counted: counted,
        }
    }

    fn piece(&mut self) -> Frame<Bytes> {
        let last = usize::from(self.rest.len() > LAST_ALONE);
        Frame::data(self.rest.split_to((self.rest.len() - last).min(PIECE)))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_data() {
                Ok(data) => {
                    let time = Duration::from_secs((data.len() / LEAST_RATE) as u64);
                    self.frame_until = Instant::now() + self.owed.stall + time;
                    self.rest = data;
                    self.piece()
                }
                Err(trailers) => trailers,
            }))),
            other => other,
        }
    }
}

impl http_body::Body for SentReply {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = self.poll_next(cx);
        let (number, until) = (self.number, (Instant::now() + self.owed.stall).min(self.frame_until));
        let mut owed = self.owed.lock();
        // The transport polls again only when the client has read some of the last piece; while there is none, the
        // client waits for the server.
        match &polled {
            Poll::Ready(Some(Ok(_))) => drop(owed.insert(number, until)),
            Poll::Ready(_) | Poll::Pending => drop(owed.remove(&number)),
        }
        drop(owed);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.rest.is_empty() {
            self.inner.size_hint()
        } else {
            SizeHint::default()
        }
    }
}

impl Drop for SentReply {
    fn drop(&mut self) {
        self.owed.lock().remove(&self.number);
    }
}
