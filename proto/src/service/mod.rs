//! The only place where a server is built: listener, health, reflection, limits, graceful shutdown, logs.
//!
//! | file | what lives there |
//! |---|---|
//! | `deadline.rs` | the deadline that a caller sends |
//! | `limited.rs` | services with dyad's message limits |
//! | `server.rs` | bind and serve: health, reflection, message limits, drain |
//! | `shutdown.rs` | signals |
//! | `telemetry.rs` | logs to stderr |

pub mod deadline;
mod limited;
mod server;
mod shutdown;
mod telemetry;

pub use limited::{admin, encoder, searcher};
pub use server::{Health, ServeError, ServerConfig, bind, serve};
pub use shutdown::signal;
pub use telemetry::init_logs;
