//! `dyad.v1.Index`: changes over gRPC, by the same code as the commands.
//!
//! | file | contents |
//! |---|---|
//! | `worker.rs` | the thread that makes the changes, one after another |
//! | `service.rs` | streams of requests in, one change out |
//! | `status.rs` | errors as gRPC codes |

mod service;
mod status;
mod worker;

pub use service::IndexService;
pub use worker::{Changes, ChangesConfig};
