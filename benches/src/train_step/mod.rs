//! One step of training, measured against peers: one process per engine and shape, interleaved, the same pairs for all.
//!
//! A step is the forward pass of both towers, the in-batch loss, the way back, clipping and AdamW. Tokenizing is not part of it.
//!
//! | file | what lives there |
//! |---|---|
//! | `workload.rs` | which model, pairs and engines: TOML |
//! | `pairs.rs` | real pairs, read and chosen |
//! | `protocol.rs` | what harness and workers say to each other |
//! | `run.rs` | the order of a run |
//! | `seat.rs` | one engine's part in it |
//! | `measured.rs` | what a run measured |
//! | `summary.rs` | `summary.json` |
//! | `record.rs` | `points.csv` |
//! | `table.rs` | the figures for people |
//! | `worker/` | our own end of the protocol |

#[cfg(test)]
mod fixture;
mod measured;
mod pairs;
pub mod protocol;
mod record;
mod run;
mod seat;
mod summary;
mod table;
pub mod worker;
mod workload;

pub use measured::{EngineAtShape, Measured, ShapeRun};
pub use record::write_points;
pub use run::run;
pub use summary::summary;
pub use table::write_table;
pub use workload::{Job, Shape, Workload};
