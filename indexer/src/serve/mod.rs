//! `dyad.v1.Index`: changes over gRPC, by the same code as the commands.
//!
//! | file | contents |
//! |---|---|
//! | `received.rs` | what open calls have sent: bounded in bytes and in time |
//! | `pending.rs` | documents or keys of a call that is being received |
//! | `sent.rs` | documents as clients have sent them |
//! | `given.rs` | vectors that clients have sent with them |
//! | `remembered.rs` | calls that have a name of their own, made once |
//! | `recorded.rs` | what a generation records of the calls that made it |
//! | `rules.rs` | what a call may change |
//! | `content.rs` | a hash of what a call brings |
//! | `gathered.rs` | calls that become one change |
//! | `make.rs` | one change, made |
//! | `worker.rs` | the thread that makes the changes, one after another |
//! | `upkeep.rs` | threads that merge shards and remove generations |
//! | `searchable.rs` | searchers that are made to serve a change before its reply |
//! | `service.rs` | streams of requests in, one change out |
//! | `http.rs` | the same as JSON over HTTP, probes and metrics |
//! | `metrics.rs` | what is counted |
//! | `status.rs` | errors as gRPC codes |

mod content;
mod gathered;
mod given;
mod http;
mod make;
mod metrics;
mod pending;
mod received;
mod recorded;
mod remembered;
mod rules;
mod searchable;
mod sent;
mod service;
mod status;
mod upkeep;
mod worker;

pub use http::IndexRoutes;
pub use make::{ChangeWorkerConfig, GatherWindow};
pub use received::CallLimits;
pub use searchable::IndexSearchers;
pub use service::IndexService;
pub use upkeep::UpkeepConfig;
pub use worker::ChangeWorker;
