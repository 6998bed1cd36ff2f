//! Errors of a call.

use std::error::Error as _;
use std::time::Duration;

use tonic::{Code, Status};

use crate::limits::MAX_MESSAGE_BYTES;
use crate::pushback::RETRY_PUSHBACK;

/// A server that cannot be reached, or that refused a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Not a URL of a server.
    #[error("`{url}` is not a server's URL: {reason}. Expected http://HOST:PORT or https://HOST:PORT")]
    Url {
        /// As given.
        url: String,
        /// Why not.
        reason: String,
    },
    /// The certificates of the client cannot be used.
    #[error("`{url}`: TLS: {reason}. Check the PEM files of `--ca`, `--client-cert` and `--client-key`")]
    Tls {
        /// As given.
        url: String,
        /// Why not.
        reason: String,
    },
    /// No server answers.
    #[error("no server answers at `{url}` ({attempts} attempts): {reason}. Start it, or check the address{}", ca_hint(.url))]
    Unreachable {
        /// The server.
        url: String,
        /// Attempts made.
        attempts: u32,
        /// The last failure.
        reason: String,
    },
    /// The connection broke under the call, as where the server was killed: it may have run, or not.
    #[error("the connection to `{url}` broke: {reason}. Try again once the server is back; {}", protocol_hint(.url))]
    Broken {
        /// The server.
        url: String,
        /// The transport's message.
        reason: String,
    },
    /// The call took longer than its deadline.
    #[error("`{url}` did not answer within the deadline: {reason}")]
    Deadline {
        /// The server.
        url: String,
        /// The message of the server or the transport.
        reason: String,
    },
    /// The request is larger than any server takes.
    #[error("request to `{url}`: expected at most {limit} bytes, got {bytes}. Send fewer items per call")]
    TooLarge {
        /// The server.
        url: String,
        /// Its size.
        bytes: usize,
        /// The largest that is taken.
        limit: usize,
    },
    /// The server refused.
    #[error("`{url}` refused ({code:?}): {message}{}", hint(*.code, .message))]
    Refused {
        /// The server.
        url: String,
        /// gRPC status code.
        code: Code,
        /// The server's message.
        message: String,
        /// When another try may succeed, where the server says so.
        retry_after: Option<Duration>,
    },
    /// An invalid reply of the server.
    #[error("`{url}` sent an invalid reply: {reason}. Check that client and server are of the same release")]
    Contract {
        /// The server.
        url: String,
        /// What is wrong.
        reason: String,
    },
}

/// What else a server may lack that does not answer.
fn ca_hint(url: &str) -> &'static str {
    if url.starts_with("https://") {
        "; a certificate of an own CA needs `--ca`, and a server without TLS is at http://"
    } else {
        ""
    }
}

/// What the other end may be that answers, and not as gRPC.
fn protocol_hint(url: &str) -> &'static str {
    if url.starts_with("https://") {
        "if it never answers, the address may be that of HTTP (`--http`), where that of gRPC (`--listen`) is expected"
    } else {
        "if it never answers, the address may be that of HTTP (`--http`), where that of gRPC (`--listen`) is expected, or of a \
         server with TLS, which is at https://"
    }
}

/// The message of a status with those of its causes: the transport's own is `transport error`.
fn with_causes(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = status.source();
    while let Some(reason) = cause {
        let told = reason.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = reason.source();
    }
    text
}

fn hint(code: Code, message: &str) -> String {
    if message.contains("message length too large") {
        return format!(". This client accepts up to {MAX_MESSAGE_BYTES} bytes: request fewer items per call");
    }
    match code {
        // Most servers say so in their message.
        Code::ResourceExhausted if !message.contains("Try ") => {
            ". Send fewer requests at a time, or try again later".to_owned()
        }
        Code::Unauthenticated => {
            ". Give the key by the variable DYAD_API_KEY, or a file by `--api-key-file`".to_owned()
        }
        // A server of ours says what it does not do.
        Code::Unimplemented if !message.contains("is not available") => {
            ". Another service listens at this address".to_owned()
        }
        _ => String::new(),
    }
}

impl ClientError {
    /// What a status means that ended the last of `attempts` attempts to call `url`.
    pub fn from_status(url: &str, attempts: u32, status: &Status) -> Self {
        let (url, message) = (url.to_owned(), status.message().to_owned());
        match status.code() {
            // A status without a local cause came over the wire: a server did answer.
            Code::Unavailable if status.source().is_some() => Self::Unreachable {
                url,
                attempts,
                reason: with_causes(status),
            },
            Code::DeadlineExceeded => Self::Deadline { url, reason: message },
            Code::Cancelled if message.to_lowercase().contains("timeout") => Self::Deadline { url, reason: message },
            // What the transport reports of a broken connection has several codes.
            Code::Unknown | Code::Internal | Code::Cancelled if status.source().is_some() => Self::Broken {
                url,
                reason: with_causes(status),
            },
            code => {
                let pushback = pushback(status).and_then(|millis| u64::try_from(millis).ok());
                Self::Refused {
                    url,
                    code,
                    message,
                    retry_after: pushback.map(Duration::from_millis),
                }
            }
        }
    }

    /// Whether a retry may succeed: the server was unreachable or killed, full, or too slow.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } | Self::Deadline { .. } => true,
            Self::Refused { code, .. } => matches!(code, Code::ResourceExhausted | Code::Unavailable),
            Self::Url { .. } | Self::Tls { .. } | Self::TooLarge { .. } | Self::Contract { .. } => false,
        }
    }
}

/// Milliseconds after which the server accepts a retry; negative: never.
pub(super) fn pushback(status: &Status) -> Option<i64> {
    status.metadata().get(RETRY_PUSHBACK)?.to_str().ok()?.parse().ok()
}

/// Refuses a message that no server would accept: the transport would only report a broken stream.
pub(super) fn fits(url: &str, message: &impl prost::Message, limit: usize) -> Result<(), ClientError> {
    fits_in_all(url, [message.encoded_len()], limit)
}

/// The same for the parts of a call.
pub(super) fn fits_in_all(url: &str, parts: impl IntoIterator<Item = usize>, limit: usize) -> Result<(), ClientError> {
    let bytes = parts.into_iter().sum();
    if bytes > limit {
        return Err(ClientError::TooLarge {
            url: url.to_owned(),
            bytes,
            limit,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_fails_says_what_the_other_end_may_be() {
        let mut status = Status::internal("transport error");
        status.set_source(std::sync::Arc::new(std::io::Error::other(
            "http2 error: invalid preface",
        )));
        let plain = ClientError::from_status("http://a:1", 1, &status).to_string();
        assert!(
            plain.contains("transport error: http2 error: invalid preface"),
            "{plain}"
        );
        assert!(
            plain.contains("that of HTTP (`--http`)") && plain.contains("which is at https://"),
            "{plain}"
        );
        let encrypted = ClientError::from_status("https://a:1", 1, &status).to_string();
        assert!(!encrypted.contains("which is at https://"), "{encrypted}");
        let unreachable = ClientError::Unreachable {
            url: "https://a:1".to_owned(),
            attempts: 1,
            reason: "unknown issuer".to_owned(),
        };
        assert!(unreachable.to_string().contains("needs `--ca`"), "{unreachable}");
    }
}
