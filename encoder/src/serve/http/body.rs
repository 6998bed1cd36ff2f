//! A body within bounds: of one request, of all that are under way, and of time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use dyad_proto::limits::MAX_MESSAGE_BYTES;
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::refusal::Refusal;

/// How long a body may take to arrive.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// For whatever comes.
    first: Duration,
    /// Bytes that add a second each.
    per_second: usize,
    longest: Duration,
}

/// A body that dribbles is not waited for as long as a large one.
const PATIENCE: Patience =
    Patience { first: Duration::from_secs(5), per_second: 64 << 10, longest: Duration::from_mins(1) };

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
    collect(body, room, deadline, PATIENCE).await
}

async fn collect(
    body: Body,
    room: &Arc<Semaphore>,
    deadline: Instant,
    patience: Patience,
) -> Result<Received, Refusal> {
    let began = Instant::now();
    let mut received = Received { bytes: Vec::new(), room: None };
    let mut chunks = body.into_data_stream();
    loop {
        let until = deadline.min(began + patience.of(received.bytes.len()));
        let chunk = tokio::time::timeout_at(until.into(), chunks.next()).await.map_err(|_| {
            let message = "the request's body did not arrive in time. Allow more time, or send fewer texts at once";
            Refusal::invalid(StatusCode::REQUEST_TIMEOUT, "body_timeout", message)
        })?;
        let Some(chunk) = chunk else { return Ok(received) };
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
}

impl Patience {
    /// For a body of which this number of bytes has come.
    fn of(self, bytes: usize) -> Duration {
        let more = Duration::from_millis(bytes as u64 * 1000 / self.per_second.max(1) as u64);
        (self.first + more).min(self.longest)
    }
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

    #[tokio::test]
    async fn a_body_that_dribbles_is_given_up_and_one_that_flows_is_not() {
        let room = Arc::new(Semaphore::new(1 << 20));
        let patience =
            Patience { first: Duration::from_millis(100), per_second: 10_000, longest: Duration::from_mins(1) };
        let pieces = |bytes: usize| {
            Body::from_stream(futures_util::stream::unfold(10_u32, move |left| async move {
                tokio::time::sleep(Duration::from_millis(40)).await;
                (left > 0).then(|| (Ok::<_, std::io::Error>(vec![0; bytes]), left - 1))
            }))
        };
        let far = Instant::now() + Duration::from_mins(1);
        // 10 bytes each 40 ms earn 1 ms; 1,000 earn 100.
        let refused = collect(pieces(10), &room, far, patience).await.unwrap_err();
        assert!(format!("{refused:?}").contains("408"), "{refused:?}");
        assert_eq!(collect(pieces(1000), &room, far, patience).await.unwrap().bytes.len(), 10_000);
        // No body is waited for longer than the longest, nor beyond the caller's time.
        assert_eq!(PATIENCE.of(usize::MAX >> 12), PATIENCE.longest);
        let soon = Instant::now() + Duration::from_millis(60);
        assert!(collect(pieces(1000), &room, soon, patience).await.is_err());
    }
}
