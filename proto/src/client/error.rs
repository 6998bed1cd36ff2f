//! Why a call failed.

use std::error::Error as _;

use tonic::{Code, Status};

use crate::limits::MAX_MESSAGE_BYTES;

/// A server that cannot be reached, or that refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Not a URL of a server.
    #[error("`{url}` is not a server's URL: {reason}. Expected http://HOST:PORT")]
    Url {
        /// As given.
        url: String,
        /// Why not.
        reason: String,
    },
    /// What is asked for would go over the network in the clear.
    #[error(
        "`{url}`: TLS is not supported yet. Use http://, through a local TLS proxy where the network is not trusted"
    )]
    Tls {
        /// As given.
        url: String,
    },
    /// Nobody answers.
    #[error("no server answers at `{url}` ({attempts} tries): {reason}. Start it, or check the address")]
    Unreachable {
        /// The server.
        url: String,
        /// Tries made.
        attempts: u32,
        /// The last failure.
        reason: String,
    },
    /// The call took longer than its deadline.
    #[error("`{url}` did not answer within the deadline: {reason}")]
    Deadline {
        /// The server.
        url: String,
        /// The server's or the transport's words.
        reason: String,
    },
    /// The request is larger than any server takes.
    #[error("request to `{url}`: expected at most {limit} bytes, got {bytes}. Send fewer items per call")]
    TooLarge {
        /// The server.
        url: String,
        /// Size of the message.
        bytes: usize,
        /// Largest message.
        limit: usize,
    },
    /// The server refused.
    #[error("`{url}` refused ({code:?}): {message}{}", hint(*.code, .message))]
    Refused {
        /// The server.
        url: String,
        /// gRPC status code.
        code: Code,
        /// The server's words.
        message: String,
    },
    /// The server's answer breaks the contract.
    #[error("`{url}` answered against the contract: {reason}. Check that client and server are of the same release")]
    Contract {
        /// The server.
        url: String,
        /// What is wrong.
        reason: String,
    },
}

fn hint(code: Code, message: &str) -> String {
    if message.contains("message length too large") {
        return format!(". This client takes up to {MAX_MESSAGE_BYTES} bytes: ask for fewer items per call");
    }
    match code {
        // Most servers say so themselves.
        Code::ResourceExhausted if !message.contains("Try ") => {
            ". Send fewer requests at a time, or try later".to_owned()
        }
        Code::Unimplemented => ". Another service listens there".to_owned(),
        _ => String::new(),
    }
}

impl ClientError {
    pub(super) fn from_status(url: &str, attempts: u32, status: &Status) -> Self {
        let (url, message) = (url.to_owned(), status.message().to_owned());
        match status.code() {
            // A status without a cause on this side came over the wire: somebody did answer.
            Code::Unavailable if status.source().is_some() => Self::Unreachable { url, attempts, reason: message },
            Code::DeadlineExceeded => Self::Deadline { url, reason: message },
            Code::Cancelled if message.to_lowercase().contains("timeout") => Self::Deadline { url, reason: message },
            code => Self::Refused { url, code, message },
        }
    }

    /// Another try may succeed: the server was away, full, or too slow.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Deadline { .. } => true,
            Self::Refused { code, .. } => matches!(code, Code::ResourceExhausted | Code::Unavailable),
            Self::Url { .. } | Self::Tls { .. } | Self::TooLarge { .. } | Self::Contract { .. } => false,
        }
    }
}

/// Refuses a message that no server would take: the transport would only say that the stream broke.
pub(super) fn fits(url: &str, message: &impl prost::Message, limit: usize) -> Result<(), ClientError> {
    let bytes = message.encoded_len();
    if bytes > limit {
        return Err(ClientError::TooLarge { url: url.to_owned(), bytes, limit });
    }
    Ok(())
}
