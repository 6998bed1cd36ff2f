//! Reply bodies: sent in pieces, each with a deadline of the connection's clock by which the client must have read it.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::http::Extensions;

use super::client_clock::ClientClock;

/// Bytes passed to the transport at a time: the most that it buffers of a reply that its client does not read.
const PIECE: usize = 64 << 10;
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

    /// Keeps `what` too, next to what a reply with these extensions keeps already.
    pub(super) fn add(extensions: &mut Extensions, what: impl Any + Send + Sync) {
        let kept = extensions.remove::<Self>();
        extensions.insert(Self::new((kept, what)));
    }
}

impl std::fmt::Debug for UntilSent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UntilSent")
            .field("holders", &Arc::strong_count(&self.0))
            .finish()
    }
}

/// A reply's body.
pub(super) struct SentReply {
    inner: Body,
    /// The rest of the last frame.
    rest: Bytes,
    /// Deadline by which the client must have read the last frame.
    frame_until: Instant,
    clock: Arc<ClientClock>,
    /// Of the reply, in the clock.
    number: u64,
    _kept: Box<dyn Any + Send>,
}

impl SentReply {
    /// `kept` is dropped with the body.
    pub(super) fn new(inner: Body, clock: Arc<ClientClock>, kept: Box<dyn Any + Send>) -> Self {
        let (number, frame_until) = (clock.new_reply(), clock.time_to_read(0));
        clock.set_reply(number, Some(frame_until));
        Self {
            inner,
            rest: Bytes::new(),
            frame_until,
            clock,
            number,
            _kept: kept,
        }
    }

    fn piece(&mut self) -> Frame<Bytes> {
        let last = usize::from(self.rest.len() > LAST_ALONE);
        Frame::data(self.rest.split_to((self.rest.len() - last).min(PIECE)))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_data() {
                Ok(data) => {
                    self.frame_until = self.clock.time_to_read(data.len());
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
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = self.poll_next(cx);
        // The transport polls again only when the client has read some of the last piece; while there is none, the
        // client waits for the server.
        let waits = matches!(&polled, Poll::Ready(Some(Ok(_))));
        let until = waits.then(|| self.clock.time_to_read(0).min(self.frame_until));
        self.clock.set_reply(self.number, until);
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
        self.clock.set_reply(self.number, None);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::super::client_stream::ClientStream;
    use super::super::transport::ClientTransport;
    use super::*;

    const STALL: Duration = Duration::from_millis(300);

    fn connection() -> (ClientStream, DuplexStream, Arc<ClientClock>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let clock = Arc::new(ClientClock::new(Duration::ZERO, 0, STALL));
        let transport = ClientTransport::new(ours, Arc::clone(&clock));
        (ClientStream::new(transport), theirs, clock)
    }

    async fn send(connection: &mut ClientStream, clock: &Arc<ClientClock>, bytes: usize) {
        let mut reply = SentReply::new(Body::from(vec![7; bytes]), Arc::clone(clock), Box::new(()));
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut reply).poll_frame(cx)).await {
            let piece = frame.unwrap().into_data().unwrap();
            connection.write_all(&piece).await.unwrap();
        }
        connection.flush().await.unwrap();
    }

    /// Whether a reader that takes that many bytes after each pause is in time for a reply of 4 MiB.
    async fn is_in_time(bytes: usize, pause: Duration) -> bool {
        let (mut connection, mut theirs, clock) = connection();
        let read = async {
            let mut taken = vec![0; bytes];
            while theirs.read_exact(&mut taken).await.is_ok() {
                tokio::time::sleep(pause).await;
            }
            std::future::pending::<()>().await;
        };
        let late = async {
            while clock.missed(false).is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let sent = async {
            tokio::select! {
                () = send(&mut connection, &clock, 4 << 20) => true,
                () = read => false,
                () = late => false,
            }
        };
        tokio::time::timeout(Duration::from_mins(1), sent).await.unwrap()
    }

    #[tokio::test]
    async fn who_reads_nothing_or_too_slowly_is_too_late_and_who_reads_steadily_is_not() {
        assert!(!is_in_time(1, Duration::from_hours(1)).await);
        // Each pause alone is shorter than the limit.
        assert!(!is_in_time(4 << 10, STALL / 4).await);
        assert!(is_in_time(256 << 10, Duration::from_millis(1)).await);
    }

    #[tokio::test]
    async fn a_pause_between_replies_does_not_count() {
        let (mut connection, mut theirs, clock) = connection();
        for _ in 0..3 {
            send(&mut connection, &clock, 8 << 10).await;
            tokio::time::sleep(STALL).await;
            assert_eq!(clock.missed(false), None);
            theirs.read_exact(&mut [0; 8 << 10]).await.unwrap();
        }
        // More than the buffer holds: the time begins now.
        let mut taken = vec![0; 128 << 10];
        let (read, ()) = tokio::join!(theirs.read_exact(&mut taken), send(&mut connection, &clock, 128 << 10));
        read.unwrap();
        assert_eq!(clock.missed(false), None);
    }
}
