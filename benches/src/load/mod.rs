//! Load on a served index, and on the layers below it: an open loop of arrivals, whatever the server does, or clients
//! that wait.
//!
//! | file | contents |
//! |---|---|
//! | `workload.rs` | what is asked, in which mix, of which server |
//! | `arrivals.rs` | when requests are meant to be sent, and which |
//! | `questions.rs` | the questions and the requests that they become |
//! | `drive.rs` | one pass, open or closed |
//! | `tally.rs` | what became of its requests |
//! | `truth.rs` | quality next to latency: recall against exact answers, nDCG@10 |
//! | `targets.rs` | our engines in this process: library, engine |
//! | `grpc.rs` | a server over gRPC |
//! | `server.rs` | the server, started and ended |
//! | `peer.rs` | a peer from text to hits |
//! | `engines.rs` | the engines of a run, open |
//! | `rate_search.rs` | the highest rate that passes |
//! | `overload.rs` | more than an engine can answer |
//! | `passes.rs` | one engine under one load, and its figures |
//! | `run.rs` | a run: all engines in turn |
//! | `report.rs` | summary and table |
//!
//! Latency is counted from the moment a request was meant to be sent, so that a server that stalls is charged for all
//! that would have been asked meanwhile ("coordinated omission", Tene 2013); the time from the real start is kept next
//! to it.

mod arrivals;
mod drive;
mod engines;
mod grpc;
mod overload;
mod passes;
mod peer;
mod questions;
mod rate_search;
mod report;
mod run;
mod server;
mod tally;
mod targets;
#[cfg(test)]
mod tests;
mod truth;
mod workload;

pub use engines::ServerPlace;
pub use passes::{LoadJob, LoadPlan};
pub use run::{LoadMeasurement, run};
pub use workload::LoadWorkload;
