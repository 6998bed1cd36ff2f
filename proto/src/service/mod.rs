//! The server: listener, health, reflection, limits, graceful shutdown. Every server is built here.
//!
//! | file | contents |
//! |---|---|
//! | `accept.rs` | failures to accept connections |
//! | `bounded.rs` | the layer around every gRPC service |
//! | `budget.rs` | a memory budget shared by requests |
//! | `deadline.rs` | the deadline of a call |
//! | `encoding.rs` | compressed requests, unpacked within the bounds of plain ones |
//! | `follow.rs` | files that are read again when they change |
//! | `http.rs` | HTTP/1.1 next to gRPC |
//! | `http_access.rs` | the check of an HTTP request: its caller, and where it comes from |
//! | `incoming.rs` | gRPC connections: limits on number, silence and unread replies |
//! | `limited.rs` | services with dyad's message limits |
//! | `connection_slots.rs` | bound on HTTP connections; closes idle ones |
//! | `receive.rs` | request bodies: bounded in bytes and time, checked before they are decoded |
//! | `reply.rs` | reply bodies: sent in pieces, tracked per connection |
//! | `reloads.rs` | counts of files that were read again |
//! | `request_id.rs` | the id of a request |
//! | `schema/` | check of a message's bytes against its descriptor |
//! | `security.rs` | TLS, API keys and audit log, by a server's options |
//! | `security_metrics.rs` | their metrics |
//! | `tls.rs` | certificates and keys |
//! | `transport.rs` | a connection, plain or with TLS |
//! | `write_deadline.rs` | HTTP connections whose clients do not read |
//! | `server.rs` | bind and serve: health, reflection, message limits, drain |

mod accept;
mod bounded;
mod budget;
mod connection_slots;
pub mod deadline;
mod encoding;
mod follow;
mod http;
mod http_access;
pub mod http_request;
mod incoming;
mod limited;
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
mod write_deadline;

pub use bounded::CallObserver;
pub use budget::{ByteBudget, HeldBytes};
pub use http::{HttpConfig, serve_http};
pub use http_access::{Checked, HttpAccess};
pub use limited::{admin, encoder, index, searcher};
pub use receive::MAX_REQUESTS_BYTES;
pub use reply::UntilSent;
pub use request_id::REQUEST_ID;
pub use security::{Security, SecurityError, SecurityOptions};
pub use server::{Health, ServeError, ServerConfig, bind, bind_for, serve};
pub use tls::{Tls, TlsError};
