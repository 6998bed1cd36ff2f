//! The time that a caller gives, in the header `X-Request-Timeout`: seconds, with a fraction where wanted; 10 minutes where
//! it is absent. Every wait of a request ends by then: for its body, a tokenizer thread, the model, and the reply.

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use dyad_proto::service::deadline::LONGEST;

use super::refusal::Refusal;

const HEADER: &str = "x-request-timeout";

/// At most [`LONGEST`], which stands in for none.
pub(super) fn timeout(headers: &HeaderMap) -> Result<Duration, Refusal> {
    let Some(value) = headers.get(HEADER) else { return Ok(LONGEST) };
    let seconds = value.to_str().ok().and_then(|text| text.trim().parse::<f64>().ok());
    match seconds {
        Some(seconds) if seconds > 0.0 => Ok(Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)),
        _ => {
            let got = String::from_utf8_lossy(value.as_bytes());
            let message = format!("header `X-Request-Timeout` must be seconds above 0, got: {got}");
            Err(Refusal::invalid(StatusCode::BAD_REQUEST, "invalid_timeout", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_above_zero_are_taken() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, text.parse().unwrap());
            timeout(&headers).ok()
        };
        assert_eq!(timeout(&HeaderMap::new()).ok(), Some(LONGEST));
        assert_eq!(of("2.5"), Some(Duration::from_millis(2500)));
        for long in ["100000", "1e300", "inf"] {
            assert_eq!(of(long), Some(LONGEST), "{long}");
        }
        for wrong in ["", "0", "-1", "NaN", "5s", "soon"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
