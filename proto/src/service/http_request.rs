//! What a route reads of an HTTP request, within bounds: its body, of which the bytes of one, of all that are under
//! way, and the time are bounded; and the time that the caller gives.

use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::CONTENT_ENCODING;
use futures_util::StreamExt;
use hyper::HeaderMap;

use super::deadline::LONGEST;
use super::encoding::{ACCEPTED, Encoding, UnpackError, when_there_is_room};
use super::pace::TransferPace;
use crate::admission::{AdmissionLimit, Admitted};

/// The header of [`timeout`].
const TIMEOUT: &str = "x-request-timeout";

/// A body and its share of the room for bodies.
#[derive(Debug)]
pub struct ReceivedBody {
    /// All of it.
    pub bytes: Vec<u8>,
    /// Given back when dropped.
    pub room: Admitted,
}

/// Why a body was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The client sends too slowly.
    #[error("the request's body did not arrive in time. Allow more time, or send less at once")]
    Late,
    /// The connection failed.
    #[error("the request's body broke off: {0}")]
    Broken(String),
    /// Above the limit.
    #[error("the request's body is larger than {limit} bytes. Send less at once")]
    TooLarge {
        /// Bytes.
        limit: usize,
    },
    /// It is encoded in a way that is not known, or several times.
    #[error("header `Content-Encoding`: expected one of {ACCEPTED}, got `{0}`")]
    Encoded(String),
    /// It is not what `Content-Encoding` says.
    #[error("the request's body is {0}")]
    Damaged(String),
    /// No room for it now.
    #[error("too many bytes of requests are under way. Try again later with back-off")]
    Full,
}

/// Reads a request's body of at most `limit` bytes to its end. `room`: bytes of all bodies that are under way.
pub async fn read_body(
    request: Request,
    limit: usize,
    room: &AdmissionLimit,
    deadline: Instant,
) -> Result<ReceivedBody, BodyError> {
    let encoding = encoding(request.headers())?;
    let received = read(request.into_body(), limit, room, deadline).await?;
    match encoding {
        None => Ok(received),
        Some(encoding) => {
            let room = room.clone();
            let unpacked = when_there_is_room(move || unpack(encoding, &received, limit, &room));
            let unpacked = tokio::time::timeout_at(deadline.into(), unpacked)
                .await
                .map_err(|_| BodyError::Late)?;
            unpacked.map_err(|error| BodyError::Broken(format!("{error:?}")))?
        }
    }
}

/// How a body is compressed; refused where that is not known, or was done several times.
fn encoding(headers: &HeaderMap) -> Result<Option<Encoding>, BodyError> {
    let mut found = None;
    for value in headers.get_all(CONTENT_ENCODING) {
        let text = String::from_utf8_lossy(value.as_bytes());
        let refused = || BodyError::Encoded(text.escape_debug().to_string());
        for name in text.split(',') {
            match (Encoding::named(name).map_err(|()| refused())?, found) {
                (None, _) => {}
                (Some(encoding), None) => found = Some(encoding),
                (Some(_), Some(_)) => return Err(refused()),
            }
        }
    }
    Ok(found)
}

/// Unpacks a body, and holds room for what it is then.
fn unpack(
    encoding: Encoding,
    packed: &ReceivedBody,
    limit: usize,
    room: &AdmissionLimit,
) -> Result<ReceivedBody, BodyError> {
    let mut held = Admitted::default();
    let reserve = |bytes: usize| held.raise_to(bytes, room).is_ok();
    let bytes = encoding
        .unpack(&packed.bytes, Vec::new(), limit, reserve)
        .map_err(|error| match error {
            UnpackError::TooLarge => BodyError::TooLarge { limit },
            UnpackError::Full => BodyError::Full,
            UnpackError::Damaged(reason) => BodyError::Damaged(reason),
        })?;
    Ok(ReceivedBody { bytes, room: held })
}

async fn read(body: Body, limit: usize, room: &AdmissionLimit, deadline: Instant) -> Result<ReceivedBody, BodyError> {
    if body.size_hint().lower() > limit as u64 {
        return Err(BodyError::TooLarge { limit });
    }
    collect(body, limit, room, deadline, TransferPace::BODY).await
}

async fn collect(
    body: Body,
    limit: usize,
    room: &AdmissionLimit,
    deadline: Instant,
    pace: TransferPace,
) -> Result<ReceivedBody, BodyError> {
    let began = Instant::now();
    let mut received = ReceivedBody {
        bytes: Vec::new(),
        room: Admitted::default(),
    };
    let mut chunks = body.into_data_stream();
    loop {
        let until = deadline.min(began + pace.time_for(received.bytes.len()));
        let chunk = tokio::time::timeout_at(until.into(), chunks.next())
            .await
            .map_err(|_| BodyError::Late)?;
        let Some(chunk) = chunk else { return Ok(received) };
        let chunk = chunk.map_err(|error| BodyError::Broken(error.to_string()))?;
        if received.bytes.len() + chunk.len() > limit {
            return Err(BodyError::TooLarge { limit });
        }
        let all = received.bytes.len() + chunk.len();
        received.room.raise_to(all, room).map_err(|_| BodyError::Full)?;
        received.bytes.extend_from_slice(&chunk);
    }
}

/// The time that a caller gives, in the header `X-Request-Timeout`: seconds, with a fraction where wanted, at most
/// [`LONGEST`]; none where it is absent. The error says what is wrong.
pub fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, String> {
    let Some(value) = headers.get(TIMEOUT) else {
        return Ok(None);
    };
    let seconds = value.to_str().ok().and_then(|text| text.trim().parse::<f64>().ok());
    match seconds {
        Some(seconds) if seconds > 0.0 => Ok(Some(
            Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST),
        )),
        _ => {
            let got = String::from_utf8_lossy(value.as_bytes());
            Err(format!(
                "header `X-Request-Timeout` must be seconds above 0, got: {got}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    #[tokio::test]
    async fn bodies_share_the_room_and_give_it_back() {
        let room = AdmissionLimit::new(10);
        let soon = Instant::now() + Duration::from_mins(1);
        let first = read(Body::from("1234567"), LIMIT, &room, soon).await.unwrap();
        assert_eq!((first.bytes.as_slice(), room.taken()), (&b"1234567"[..], 7));
        assert_eq!(
            read(Body::from("1234567"), LIMIT, &room, soon).await.unwrap_err(),
            BodyError::Full
        );
        drop(first);
        assert_eq!(room.taken(), 0);
        let streamed = Body::from_stream(futures_util::stream::iter([
            Ok::<_, std::io::Error>("1234"),
            Ok("5678"),
        ]));
        let refused = read(streamed, 7, &room, soon).await.unwrap_err();
        assert_eq!((refused, room.taken()), (BodyError::TooLarge { limit: 7 }, 0));
        let refused = read(Body::from("12345678"), 7, &room, soon).await.unwrap_err();
        assert_eq!(refused, BodyError::TooLarge { limit: 7 });
    }

    #[tokio::test]
    async fn a_body_is_taken_as_it_is_or_not_at_all() {
        let room = AdmissionLimit::new(10);
        let soon = Instant::now() + Duration::from_mins(1);
        let request = |encodings: &[&str]| {
            let mut request = Request::new(Body::from("1234567"));
            for encoding in encodings {
                request
                    .headers_mut()
                    .append(CONTENT_ENCODING, encoding.parse().unwrap());
            }
            request
        };
        for fine in [&[][..], &["identity"], &["Identity"]] {
            assert_eq!(
                read_body(request(fine), LIMIT, &room, soon).await.unwrap().bytes,
                b"1234567"
            );
        }
        for (encodings, told) in [
            (&["deflate"][..], "deflate"),
            (&["identity", "br"], "br"),
            (&["gzip, zstd"], "gzip, zstd"),
            (&["gzip", "gzip"], "gzip"),
        ] {
            let refused = read_body(request(encodings), LIMIT, &room, soon).await.unwrap_err();
            assert_eq!(refused, BodyError::Encoded(told.to_owned()));
        }
        assert_eq!(room.taken(), 0);
        let room = AdmissionLimit::new(1 << 20);
        let refused = read_body(request(&["gzip"]), LIMIT, &room, soon).await.unwrap_err();
        assert!(
            matches!(&refused, BodyError::Damaged(reason) if reason.contains("no gzip")),
            "{refused}"
        );
        assert_eq!(room.taken(), 0);
    }

    #[tokio::test]
    async fn a_compressed_body_is_unpacked_within_the_limit_and_the_room() {
        let soon = Instant::now() + Duration::from_mins(1);
        let packed = zstd::encode_all(&vec![b'x'; 1 << 16][..], 1).unwrap();
        let request = || {
            let mut request = Request::new(Body::from(packed.clone()));
            request
                .headers_mut()
                .insert(CONTENT_ENCODING, "ZSTD, identity".parse().unwrap());
            request
        };
        let room = AdmissionLimit::new(1 << 18);
        let received = read_body(request(), 1 << 16, &room, soon).await.unwrap();
        assert_eq!(received.bytes, vec![b'x'; 1 << 16]);
        assert!(room.taken() >= 1 << 16);
        drop(received);
        assert_eq!(room.taken(), 0);
        let refused = read_body(request(), (1 << 16) - 1, &room, soon).await.unwrap_err();
        assert_eq!(refused, BodyError::TooLarge { limit: (1 << 16) - 1 });
        let small = AdmissionLimit::new(1 << 12);
        assert_eq!(
            read_body(request(), LIMIT, &small, soon).await.unwrap_err(),
            BodyError::Full
        );
        assert_eq!(small.taken(), 0);
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_has_a_deadline() {
        let room = AdmissionLimit::new(10);
        let body = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let refused = read(body, LIMIT, &room, Instant::now() + Duration::from_millis(20))
            .await
            .unwrap_err();
        assert_eq!(refused, BodyError::Late);
    }

    #[tokio::test]
    async fn a_body_that_dribbles_is_given_up_and_one_that_flows_is_not() {
        let room = AdmissionLimit::new(1 << 20);
        let pace = TransferPace {
            pause: Duration::from_millis(100),
            bytes_per_second: 10_000,
            longest: Duration::from_mins(1),
        };
        let pieces = |bytes: usize| {
            Body::from_stream(futures_util::stream::unfold(10_u32, move |left| async move {
                tokio::time::sleep(Duration::from_millis(40)).await;
                (left > 0).then(|| (Ok::<_, std::io::Error>(vec![0; bytes]), left - 1))
            }))
        };
        let far = Instant::now() + Duration::from_mins(1);
        // 10 bytes each 40 ms add 1 ms; 1,000 add 100.
        let refused = collect(pieces(10), LIMIT, &room, far, pace).await.unwrap_err();
        assert_eq!(refused, BodyError::Late);
        assert_eq!(
            collect(pieces(1000), LIMIT, &room, far, pace)
                .await
                .unwrap()
                .bytes
                .len(),
            10_000
        );
        // No body is waited for longer than the longest, nor beyond the caller's time.
        assert_eq!(
            TransferPace::BODY.time_for(usize::MAX >> 12),
            TransferPace::BODY.longest
        );
        let soon = Instant::now() + Duration::from_millis(60);
        assert!(collect(pieces(1000), LIMIT, &room, soon, pace).await.is_err());
    }

    #[test]
    fn seconds_above_zero_are_taken() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(TIMEOUT, text.parse().unwrap());
            timeout(&headers).ok().flatten()
        };
        assert_eq!(timeout(&HeaderMap::new()), Ok(None));
        assert_eq!(of("2.5"), Some(Duration::from_millis(2500)));
        for long in ["100000", "1e300", "inf"] {
            assert_eq!(of(long), Some(LONGEST), "{long}");
        }
        for wrong in ["", "0", "-1", "NaN", "5s", "soon"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
