//! The hint of a server that is too busy, by the gRPC protocol's retry design.

/// Trailer that says after how many milliseconds a retry may succeed; a negative number: never.
pub const RETRY_PUSHBACK: &str = "grpc-retry-pushback-ms";
