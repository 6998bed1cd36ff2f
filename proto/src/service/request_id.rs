//! The id of a request, in its logs and its reply: the caller's own (`x-request-id`), or one of ours.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue};

/// The header, of requests and replies.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Bytes of the longest id that is taken over.
const LONGEST: usize = 128;

/// The caller's id, where it is 1 to 128 letters, digits and `-_.:/+=@`; else a new one: the process's own random
/// number, and a count.
pub(super) fn request_id(headers: &HeaderMap) -> Arc<str> {
    static PROCESS: OnceLock<u32> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let theirs = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    theirs.filter(|id| is_id(id)).map_or_else(
        || {
            let process = PROCESS.get_or_init(|| RandomState::new().hash_one(std::process::id()) as u32);
            format!("{process:08x}-{:x}", NEXT.fetch_add(1, Ordering::Relaxed)).into()
        },
        Into::into,
    )
}

/// Without quotes, spaces and anything else that could make a log line look like two.
fn is_id(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(&byte);
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(allowed)
}

/// An id as the value of the header.
pub(super) fn header_value(id: &str) -> HeaderValue {
    HeaderValue::from_str(id).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_callers_or_a_new_one() {
        let of = |id: &[u8]| {
            let value = HeaderValue::from_bytes(id).unwrap();
            request_id(&HeaderMap::from_iter([(REQUEST_ID, value)])).to_string()
        };
        assert_eq!(of(b"8f1b:span/1-a_b.c+d=@"), "8f1b:span/1-a_b.c+d=@");
        for wrong in [&b""[..], b"a b", b"a\tb", b"\"", "\u{e9}".as_bytes(), &[b'a'; 129]] {
            let (one, other) = (of(wrong), of(wrong));
            assert!(is_id(&one) && one != other && one.len() >= 10, "{one} {other}");
            assert_eq!(header_value(&one), one.as_str());
        }
    }
}
