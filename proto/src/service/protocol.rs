//! The protocols that are served.

use std::fmt;

/// What is spoken on the connections of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServedProtocol {
    Grpc,
    Http,
}

impl ServedProtocol {
    /// Bytes that a client sends before anything else.
    pub(super) fn preface(self) -> usize {
        match self {
            Self::Grpc => 24,
            Self::Http => 0,
        }
    }
}

impl fmt::Display for ServedProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grpc => "gRPC",
            Self::Http => "HTTP",
        })
    }
}
