//! Texts to vectors, measured against peers: the same texts for all engines, in one call.
//!
//! | file | contents |
//! |---|---|
//! | `protocol.rs` | a shape of a workload; what harness and workers say to each other |
//! | `texts.rs` | real texts, read, chosen, cut to passages by the model's tokens |
//! | `model.rs` | the model directory: its sizes, and a view of it that reads longer texts |
//! | `task.rs` | what engines are asked, what is checked, and the figures |
//! | `worker.rs` | a worker that holds our encoder |

mod model;
mod protocol;
mod task;
#[cfg(test)]
mod tests;
mod texts;
#[cfg(feature = "torch")]
mod worker;

use crate::harness;
pub use protocol::{EncodeDetails, EncodeShape, TextSource};
pub use task::{EncodePoint, EncodeTask};
#[cfg(feature = "torch")]
pub(crate) use worker::serve;

/// A run to be done. Vectors are compared with those of the first engine.
pub type EncodeJob<'a> = harness::TaskJob<'a, EncodeShape>;
/// What one run measures.
pub type EncodeWorkload = harness::TaskWorkload<EncodeShape>;
/// A run.
pub type EncodeMeasurement = harness::TaskMeasurement<EncodeTask>;
