//! Texts to vectors, measured against peers: the same texts for all engines, in one call.
//!
//! | file | contents |
//! |---|---|
//! | `workload.rs` | which model, texts and engines: TOML |
//! | `texts.rs` | real texts, read, chosen, cut to passages by the model's tokens |
//! | `model.rs` | the model directory: its sizes, and a view of it that reads longer texts |
//! | `protocol.rs` | what harness and workers say to each other |
//! | `task.rs` | what engines are asked, and what is checked |
//! | `measured.rs` | what is known of a shape and of an engine there; what the machine can do: a large matrix product |
//! | `report.rs` | `points.csv`, `summary.json`, the table |
//! | `worker.rs` | a worker that holds our encoder |

mod measured;
mod model;
mod protocol;
mod report;
mod task;
#[cfg(test)]
mod tests;
mod texts;
#[cfg(feature = "torch")]
mod worker;
mod workload;

use crate::harness;
pub use measured::{Encode, Point};
pub use model::ModelSize;
pub use protocol::More;
pub use task::Context;
#[cfg(feature = "torch")]
pub(crate) use worker::serve;
pub use workload::{Shape, TextSource};

/// A run to be done. Vectors are compared with those of the first engine.
pub type Job<'a> = harness::Job<'a, Shape>;
/// What one run measures.
pub type Workload = harness::Workload<Shape>;
/// A run.
pub type Measured = harness::Measured<Encode>;
