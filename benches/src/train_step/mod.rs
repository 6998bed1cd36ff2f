//! One step of training, measured against peers: the same pairs for all engines.
//!
//! A step is the forward pass of both towers, the in-batch loss, the backward pass, clipping and AdamW. Tokenizing is not part of
//! it.
//!
//! | file | contents |
//! |---|---|
//! | `workload.rs` | which model, pairs and engines: TOML |
//! | `pairs.rs` | real pairs, read and chosen |
//! | `protocol.rs` | what harness and workers say to each other, and what is known of an engine |
//! | `task.rs` | what engines are asked, and what is checked |
//! | `report.rs` | `points.csv`, `summary.json`, the table |
//! | `worker.rs` | a worker that holds our trainer |

mod pairs;
mod protocol;
mod report;
mod task;
#[cfg(test)]
mod tests;
#[cfg(feature = "torch")]
mod worker;
mod workload;

use crate::harness;
pub use protocol::{More, Point, TrainStep};
#[cfg(feature = "torch")]
pub(crate) use worker::serve;
pub use workload::Shape;

/// What one run measures.
pub type Workload = harness::Workload<Shape>;
/// A run.
pub type Measured = harness::Measured<TrainStep>;
