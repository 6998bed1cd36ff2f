//! The only place where a server is built: listener, health, reflection, limits, graceful shutdown.
//!
//! | file | what lives there |
//! |---|---|
//! | `accept.rs` | connections that cannot be taken |
//! | `bounded.rs` | the layer around every gRPC service |
//! | `budget.rs` | memory that many requests share |
//! | `deadline.rs` | the deadline that a caller sends |
//! | `http.rs` | HTTP/1.1 next to gRPC: connections bounded, slow headers cut off, drain |
//! | `incoming.rs` | gRPC connections: bounded in number, silence and unread replies |
//! | `limited.rs` | services with dyad's message limits |
//! | `places.rs` | places for HTTP connections, and who gives way |
//! | `receive.rs` | request bodies: bounded in bytes and time, checked before they are decoded |
//! | `reply.rs` | reply bodies: handed over in pieces, known to their connection |
//! | `schema/` | a message's bytes against its descriptor |
//! | `server.rs` | bind and serve: health, reflection, message limits, drain |

mod accept;
mod bounded;
mod budget;
pub mod deadline;
mod http;
mod incoming;
mod limited;
mod places;
mod receive;
mod reply;
mod schema;
mod server;

pub use budget::{ByteBudget, HeldBytes};
pub use http::{HttpConfig, serve_http};
pub use limited::{admin, encoder, searcher};
pub use reply::UntilSent;
pub use server::{Health, ServeError, ServerConfig, bind, bind_for, serve};
