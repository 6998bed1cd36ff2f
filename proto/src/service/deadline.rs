//! The deadline of a call, from the header `grpc-timeout`.

use std::time::Duration;

use axum::http::HeaderMap;
use tonic::metadata::MetadataMap;

/// The longest deadline that is accepted, and the deadline of bulk work that has none.
pub const LONGEST: Duration = Duration::from_mins(10);

/// The timeout that a caller sets, at most [`LONGEST`]; `None` where it sends no deadline.
pub fn timeout(metadata: &MetadataMap) -> Option<Duration> {
    Some(of_headers(metadata.as_ref())?.min(LONGEST))
}

/// The timeout that a caller sets, however long.
pub(super) fn of_headers(headers: &HeaderMap) -> Option<Duration> {
    parse(headers.get("grpc-timeout")?.to_str().ok()?)
}

/// A little less than the timeout, so that a late call ends with our status: the transport cancels late calls without
/// one.
pub fn within_deadline(timeout: Duration) -> Duration {
    timeout.saturating_sub((timeout / 20).min(Duration::from_millis(50)))
}

/// At most eight digits and a unit, as the gRPC protocol has it.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_parsed_as_the_protocol_defines_them() {
        assert_eq!(parse("5S"), Some(Duration::from_secs(5)));
        assert_eq!(parse("99999999m"), Some(Duration::from_millis(99_999_999)));
        assert_eq!(parse("2H"), Some(Duration::from_hours(2)));
        assert_eq!(parse("7u"), Some(Duration::from_micros(7)));
        for wrong in ["", "S", "5", "-5S", "+5S", "5s", "123456789m", "5\u{e9}"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_reply_comes_before_the_transport_cancels() {
        let mut metadata = MetadataMap::new();
        assert_eq!(timeout(&metadata), None);
        metadata.insert("grpc-timeout", "100m".parse().unwrap());
        assert_eq!(timeout(&metadata).map(within_deadline), Some(Duration::from_millis(95)));
        metadata.insert("grpc-timeout", "9000S".parse().unwrap());
        assert_eq!(timeout(&metadata), Some(LONGEST));
        assert_eq!(
            LONGEST.saturating_sub(within_deadline(LONGEST)),
            Duration::from_millis(50)
        );
    }
}
