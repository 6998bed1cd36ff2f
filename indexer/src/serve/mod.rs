//! `dyad.v1.Index`: changes over gRPC, by the same code as the commands.
//!
//! | file | contents |
//! |---|---|
//! | `received.rs` | what open calls have sent: bounded in bytes and in time |
//! | `sent.rs` | documents as clients have sent them |
//! | `worker.rs` | the thread that makes the changes, one after another |
//! | `service.rs` | streams of requests in, one change out |
//! | `status.rs` | errors as gRPC codes |

mod received;
mod sent;
mod service;
mod status;
mod worker;

pub use received::CallLimits;
pub use service::IndexService;
pub use worker::{ChangeWorker, ChangeWorkerConfig};
