//! A body within bounds: of one request, of all that are under way, and of time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use dyad_proto::limits::MAX_MESSAGE_BYTES;
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::refusal::Refusal;

/// Longest time for a body to arrive.
const LONGEST: Duration = Duration::from_mins(1);

/// A body and its share of the room for bodies.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) bytes: Vec<u8>,
    /// Given back when dropped.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

/// Reads a body to its end.
pub(super) async fn read(body: Body, room: &Arc<Semaphore>, deadline: Instant) -> Result<Received, Refusal> {
    if body.size_hint().lower() > MAX_MESSAGE_BYTES as u64 {
        return Err(too_large());
    }
    let deadline = deadline.min(Instant::now() + LONGEST);
    tokio::time::timeout_at(deadline.into(), collect(body, room)).await.unwrap_or_else(|_| {
        let message = "the request's body did not arrive in time. Allow more time, or send fewer texts at once";
        Err(Refusal::invalid(StatusCode::REQUEST_TIMEOUT, "body_timeout", message))
    })
}

async fn collect(body: Body, room: &Arc<Semaphore>) -> Result<Received, Refusal> {
    let mut received = Received { bytes: Vec::new(), room: None };
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| {
            Refusal::invalid(StatusCode::BAD_REQUEST, "body", format!("the request's body broke off: {error}"))
        })?;
        if received.bytes.len() + chunk.len() > MAX_MESSAGE_BYTES {
            return Err(too_large());
        }
        let share = Arc::clone(room).try_acquire_many_owned(chunk.len() as u32).map_err(|_| {
            Refusal::busy("bodies_full", "too many bytes of requests are under way. Try again later with back-off")
        })?;
        match &mut received.room {
            Some(room) => room.merge(share),
            none => *none = Some(share),
        }
        received.bytes.extend_from_slice(&chunk);
    }
    Ok(received)
}

fn too_large() -> Refusal {
    let message = format!("the request's body is larger than {MAX_MESSAGE_BYTES} bytes. Send fewer texts at once");
    Refusal::invalid(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_share_the_room_and_give_it_back() {
        let room = Arc::new(Semaphore::new(10));
        let soon = Instant::now() + Duration::from_mins(1);
        let first = read(Body::from("1234567"), &room, soon).await.unwrap();
        assert_eq!((first.bytes.as_slice(), room.available_permits()), (&b"1234567"[..], 3));
        let refused = read(Body::from("1234567"), &room, soon).await.unwrap_err();
        assert!(format!("{refused:?}").contains("429"), "{refused:?}");
        drop(first);
        assert_eq!(room.available_permits(), 10);
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_has_a_deadline() {
        let room = Arc::new(Semaphore::new(10));
        let body = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let refused = read(body, &room, Instant::now() + Duration::from_millis(20)).await.unwrap_err();
        assert!(format!("{refused:?}").contains("408"), "{refused:?}");
    }
}
