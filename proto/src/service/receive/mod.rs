//! Request bodies: one message at a time, bounded in bytes and in time, checked before it is decoded.
//!
//! The transport would reserve as many bytes as the message header announces. Here a message grows as its bytes arrive,
//! and the decoder gets it whole.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame};
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;

use super::budget::{ByteBudget, HeldBytes};
use super::encoding::{Encoding, UnpackError, when_there_is_room};
use super::pace::TransferPace;
use super::schema::{Method, Schema};

/// Bytes of all requests from their arrival until they are answered: of their first 64 KiB, and of the rest.
const BYTES_AT_ONCE: [usize; 2] = [64 << 20, 128 << 20];
/// Bytes of all requests of a gRPC server that are under way: 192 MiB.
pub const MAX_REQUESTS_BYTES: usize = BYTES_AT_ONCE[0] + BYTES_AT_ONCE[1];
/// Memory overhead of a decoded string or message.
const ELEMENT_BYTES: usize = 64;
/// Compression flag and length.
const HEADER: usize = 5;

/// Memory for requests, shared by all requests of a server.
pub(super) fn inbox() -> ByteBudget {
    let [beginnings, rest] = BYTES_AT_ONCE;
    ByteBudget::new(beginnings, rest)
}

/// The bytes of it that a request holds. Shared with the handler of the request, which drops it last.
pub(super) type HeldBody = Arc<Mutex<HeldBytes>>;

/// The memory of one request.
#[derive(Debug, Clone)]
pub(super) struct RequestMemory {
    /// What all requests share.
    pub(super) inbox: ByteBudget,
    pub(super) held: HeldBody,
}

impl RequestMemory {
    /// Holds at least `bytes`. False where there is no room.
    fn raise_to(&self, bytes: usize) -> bool {
        self.held().raise_to(bytes, &self.inbox)
    }

    fn held(&self) -> MutexGuard<'_, HeldBytes> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Completes when a drain begins.
pub(super) type Draining = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A request's body.
pub(super) struct ReceivedRequest {
    inner: Body,
    schema: Arc<Schema>,
    method: Method,
    memory: RequestMemory,
    /// Bytes of an incomplete message.
    gathered: BytesMut,
    messages: usize,
    /// When the header of the incomplete message arrived.
    begun: Option<Instant>,
    stall: Pin<Box<Sleep>>,
    draining: Option<Draining>,
    /// How messages with the flag are compressed.
    encoding: Option<Encoding>,
    /// A message that is being unpacked.
    unpacking: Option<Unpacking>,
    ended: bool,
}

/// Ends with a message with its header, or why there is none. Dropped with the request, it does not begin any more.
type Unpacking = Pin<Box<dyn Future<Output = Result<Vec<u8>, UnpackError>> + Send>>;

/// A message that has arrived, with its header.
enum Whole {
    Plain(Bytes),
    Packed(Encoding, Bytes),
}

impl ReceivedRequest {
    pub(super) fn new(
        inner: Body,
        schema: Arc<Schema>,
        method: Method,
        memory: RequestMemory,
        draining: Draining,
        encoding: Option<Encoding>,
    ) -> Self {
        Self {
            inner,
            schema,
            method,
            memory,
            gathered: BytesMut::new(),
            messages: 0,
            begun: None,
            stall: Box::pin(tokio::time::sleep(TransferPace::MESSAGE.time_for(0))),
            // A unary request is answered; a stream could go on for ever.
            draining: method.streams.then_some(draining),
            encoding,
            unpacking: None,
            ended: false,
        }
    }

    /// The next whole message with its header, if it has arrived.
    fn whole(&mut self) -> Result<Option<Whole>, Status> {
        let Some(header) = self.gathered.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let [flag, length @ ..] = *header;
        let encoding = match (flag, self.encoding) {
            (0, _) => None,
            (1, Some(encoding)) => Some(encoding),
            (1, None) => {
                return Err(Status::internal(
                    "the message is compressed, and header `grpc-encoding` does not say how",
                ));
            }
            (flag, _) => return Err(Status::internal(format!("the message's flag is 0 or 1, got {flag}"))),
        };
        let length = u32::from_be_bytes(length) as usize;
        if length > self.method.bytes {
            let most = self.method.bytes;
            return Err(Status::invalid_argument(format!(
                "the request announces {length} bytes, expected at most {most}. Send smaller requests"
            )));
        }
        if self.gathered.len() < HEADER + length {
            let announced = self.begun.get_or_insert_with(Instant::now);
            self.stall
                .as_mut()
                .reset(*announced + TransferPace::MESSAGE.time_for(length));
            return Ok(None);
        }
        let message = self.gathered.split_to(HEADER + length).freeze();
        Ok(Some(match encoding {
            None => Whole::Plain(message),
            Some(encoding) => Whole::Packed(encoding, message),
        }))
    }

    /// Checks a message with its header, for the decoder.
    fn checked(&mut self, message: Bytes) -> Result<Frame<Bytes>, Status> {
        let elements = self
            .schema
            .check(self.method, message.get(HEADER..).unwrap_or_default())?;
        self.hold(message.len() + elements * ELEMENT_BYTES)?;
        self.messages += 1;
        self.begun = None;
        self.stall
            .as_mut()
            .reset(Instant::now() + TransferPace::MESSAGE.time_for(0));
        Ok(Frame::data(message))
    }

    /// Unpacks a message on another thread, together with a header of its own.
    fn unpack(&self, encoding: Encoding, packed: Bytes) -> Unpacking {
        let (memory, most) = (self.memory.clone(), self.method.bytes);
        let unpacked = when_there_is_room(move || {
            let reserve = |bytes: usize| memory.raise_to(packed.len() + bytes);
            let body = packed.get(HEADER..).unwrap_or_default();
            encoding.unpack(body, vec![0; HEADER], most, reserve)
        });
        Box::pin(async { unpacked.await? })
    }

    /// The message that was unpacked, as it would have come plain.
    fn unpacked(&mut self, unpacked: Result<Vec<u8>, UnpackError>) -> Result<Frame<Bytes>, Status> {
        let mut message = unpacked.map_err(|error| match error {
            UnpackError::TooLarge => {
                let most = self.method.bytes;
                Status::invalid_argument(format!(
                    "the request has more than {most} bytes when it is unpacked. Send smaller requests"
                ))
            }
            UnpackError::Full => full(),
            UnpackError::Damaged(reason) => Status::invalid_argument(format!("the compressed message is {reason}")),
        })?;
        let length = u32::try_from(message.len() - HEADER).unwrap_or(u32::MAX);
        if let Some(announced) = message.get_mut(1..HEADER) {
            announced.copy_from_slice(&length.to_be_bytes());
        }
        self.checked(message.into())
    }

    /// Holds memory for `bytes`.
    fn hold(&self, bytes: usize) -> Result<(), Status> {
        if self.memory.raise_to(bytes) {
            Ok(())
        } else {
            Err(full())
        }
    }

    /// Handles the end of the body.
    fn end(&self) -> Result<(), Status> {
        if !self.gathered.is_empty() {
            return Err(Status::invalid_argument("the request ends in the middle of a message"));
        }
        if self.messages == 0 && !self.method.streams {
            return Err(Status::invalid_argument("the request holds no message"));
        }
        Ok(())
    }

    /// Whether the server is about to end.
    fn has_drained(&mut self, cx: &mut Context<'_>) -> bool {
        self.draining
            .as_mut()
            .is_some_and(|draining| draining.as_mut().poll(cx).is_ready())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Some(unpacking) = &mut self.unpacking {
                let Poll::Ready(unpacked) = unpacking.as_mut().poll(cx) else {
                    return Poll::Pending;
                };
                self.unpacking = None;
                return Poll::Ready(Some(Ok(self.unpacked(unpacked)?)));
            }
            match self.whole()? {
                Some(Whole::Plain(message)) => return Poll::Ready(Some(Ok(self.checked(message)?))),
                Some(Whole::Packed(encoding, packed)) => {
                    self.unpacking = Some(self.unpack(encoding, packed));
                    continue;
                }
                None => {}
            }
            if self.messages > 0 && self.method.streams {
                // The previous message is with its reader, which bounds how many it holds.
                *self.memory.held() = HeldBytes::default();
                // A stream that always has another request would never end otherwise. One that has begun is not
                // received.
                if self.has_drained(cx) {
                    return Poll::Ready(None);
                }
            }
            match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        self.hold(self.gathered.len() + data.len())?;
                        // Not `reserve(announced)`: memory grows with the bytes received.
                        self.gathered.extend_from_slice(&data);
                    }
                    Err(trailers) => {
                        self.end()?;
                        return Poll::Ready(Some(Ok(trailers)));
                    }
                },
                Poll::Ready(Some(Err(status))) => return Poll::Ready(Some(Err(status))),
                Poll::Ready(None) => {
                    self.end()?;
                    return Poll::Ready(None);
                }
                Poll::Pending => {
                    // Requests received are still answered; the wait for more ends.
                    if self.gathered.is_empty() && self.has_drained(cx) {
                        return Poll::Ready(None);
                    }
                    // There is no time limit between the messages of a stream.
                    let waits = !self.gathered.is_empty() || !self.method.streams;
                    if waits && self.stall.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Some(Err(Status::deadline_exceeded("the request arrived too slowly"))));
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}

fn full() -> Status {
    Status::resource_exhausted("the requests being received fill the memory of this server. Try again later")
}

impl http_body::Body for ReceivedRequest {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let polled = self.poll_next(cx);
        // Nothing follows an end or an error.
        self.ended = matches!(&polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests;
