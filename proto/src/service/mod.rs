//! The server: gRPC and HTTP/1.1 on listeners of their own, and one edge for both.
//!
//! A connection lives the same way on either. The protocol, its settings, TLS and the bounds are values of an
//! `EdgeConfig`; the routes are an axum router.
//!
//! 1. **Accept.** One loop takes connections from the system's queue. Each needs a slot: where none is free, one in
//!    sixteen of the connections that may give way is closed, the first to come first, and the new connection waits.
//!    Over HTTP a connection gives way while it has no request; over gRPC, where API keys are needed, when it has shown
//!    none in its first seconds; otherwise never.
//! 2. **Open.** The TLS handshake is a part of the first read. The client's first bytes have a deadline: the preface of
//!    HTTP/2 by the connection's clock, the headers of HTTP/1.1 by hyper.
//! 3. **Receive.** A request is under way from its headers on. Its caller is checked before a byte of its body is read.
//!    Bodies are bounded in bytes, in the memory of all, and in time, and are checked before they are decoded.
//! 4. **Reply.** Replies go out in pieces of 64 KiB. The clock has a deadline for the next piece of each reply, and one
//!    for the system's send buffer; a client that misses one loses its connection. What a reply needs, such as its
//!    share of the memory for replies, is given back when it is sent.
//! 5. **Rest.** Between requests a connection keeps its slot until it has to give way, its client leaves, its pings are
//!    not answered (HTTP/2), no headers come (HTTP/1.1), or it has reached its age.
//! 6. **Drain.** Health says `NOT_SERVING`; after the lame-duck pause the port is closed, streams end after the
//!    requests received so far, and each connection ends after the replies under way. At the drain's deadline the rest
//!    is closed, which is an error only where it cuts off a request.
//!
//! How slowly a client may send or read is a `TransferPace` everywhere.
//!
//! | file | contents |
//! |---|---|
//! | `server.rs` | gRPC: configuration, health, reflection, drain |
//! | `http.rs` | HTTP/1.1: configuration |
//! | `listen.rs` | addresses to listen on, and the errors of servers |
//! | `health.rs` | the standard health service |
//! | `protocol.rs` | gRPC and HTTP |
//! | `edge.rs` | what all connections of a listener share, and their bounds |
//! | `accept.rs` | the accept loop, and the drain |
//! | `connection_slots.rs` | the bound on connections, and who gives way |
//! | `connection.rs` | one connection, and the requests on it |
//! | `transport.rs` | the bytes of a connection, plain or with TLS, as its clock sees them |
//! | `client_stream.rs` | the same in few system calls |
//! | `client_clock.rs` | the deadlines of a connection's client |
//! | `pace.rs` | how slowly a client may send and read |
//! | `reply.rs` | reply bodies: sent in pieces, with deadlines |
//! | `checked.rs` | the check of a request's caller |
//! | `bounded.rs` | the bounds around every gRPC service |
//! | `receive.rs` | request bodies of gRPC: bounded in bytes and time, checked before they are decoded |
//! | `schema/` | check of a message's bytes against its descriptor |
//! | `http_access.rs` | the check of an HTTP request, also of where it comes from |
//! | `http_request.rs` | request bodies of HTTP, and the caller's time |
//! | [`json_api`] | methods of gRPC as routes that take and give JSON |
//! | `budget.rs` | a memory budget shared by requests |
//! | `deadline.rs` | the deadline of a call |
//! | `encoding.rs` | compressed requests, unpacked within the bounds of plain ones |
//! | `limited.rs` | services with dyad's message limits |
//! | `request_id.rs` | the id of a request |
//! | `security.rs` | TLS, API keys and audit log, by a server's options |
//! | `security_metrics.rs` | their metrics |
//! | `tls.rs` | certificates and keys |
//! | `follow.rs`, `reloads.rs` | files that are read again when they change, and counts of that |

mod accept;
mod bounded;
mod budget;
mod checked;
mod client_clock;
mod client_stream;
mod connection;
mod connection_slots;
pub mod deadline;
mod edge;
mod encoding;
mod follow;
mod health;
mod http;
mod http_access;
pub mod http_request;
pub mod json_api;
mod limited;
mod listen;
mod pace;
mod protocol;
mod receive;
mod reloads;
mod reply;
mod request_id;
mod schema;
mod security;
mod security_metrics;
mod server;
mod tls;
mod transport;

pub use bounded::CallObserver;
pub use budget::{ByteBudget, HeldBytes};
pub use checked::Checked;
pub use health::Health;
pub use http::{HttpConfig, serve_http};
pub use http_access::{CorsOrigin, HttpAccess};
pub use limited::{admin, encoder, index, leaf, searcher};
pub use listen::{ServeError, bind, bind_for};
pub use receive::MAX_REQUESTS_BYTES;
pub use reply::UntilSent;
pub use request_id::REQUEST_ID;
pub use security::{Security, SecurityError, SecurityOptions};
pub use server::{ServerConfig, serve};
pub use tls::{Tls, TlsError};
