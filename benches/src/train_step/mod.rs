//! One step of training, measured against peers: the same pairs for all engines.
//!
//! A step is the forward pass of both towers, the in-batch loss, the backward pass, clipping and AdamW. Tokenizing is
//! not part of it.
//!
//! | file | contents |
//! |---|---|
//! | `protocol.rs` | a shape of a workload; what harness and workers say to each other |
//! | `task.rs` | real pairs, what engines are asked, what is checked, and the figures |
//! | `worker.rs` | a worker that holds our trainer |

mod protocol;
mod task;
#[cfg(test)]
mod tests;
#[cfg(feature = "torch")]
mod worker;

use crate::harness;
pub use protocol::{SteppedReply, TrainStepShape};
pub use task::TrainStep;
#[cfg(feature = "torch")]
pub(crate) use worker::serve;

/// A run.
pub type TrainStepMeasurement = harness::TaskMeasurement<TrainStep>;
