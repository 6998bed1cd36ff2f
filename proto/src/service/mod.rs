//! The only place where a server is built: listener, health, reflection, limits, graceful shutdown, logs.
//!
//! | file | what lives there |
//! |---|---|
//! | `deadline.rs` | the deadline that a caller sends |
//! | `http.rs` | HTTP/1.1 beside gRPC: connections bounded, slow headers cut off, drain |
//! | `limited.rs` | services with dyad's message limits |
//! | `places.rs` | places for connections, and who gives way |
//! | `server.rs` | bind and serve: health, reflection, message limits, drain |
//! | `shutdown.rs` | signals |
//! | `telemetry.rs` | logs to stderr |

pub mod deadline;
mod http;
mod limited;
mod places;
mod server;
mod shutdown;
mod telemetry;

pub use http::{HttpConfig, serve_http};
pub use limited::{admin, encoder, searcher};
pub use server::{Health, ServeError, ServerConfig, bind, bind_for, serve};
pub use shutdown::signal;
pub use telemetry::init_logs;
