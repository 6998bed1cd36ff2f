//! Texts to vectors, measured against peers: one process per engine and shape, interleaved, the same texts for all.
//!
//! | file | what lives there |
//! |---|---|
//! | `workload.rs` | which model, texts and engines: TOML |
//! | `texts.rs` | real texts, read, chosen, cut to passages |
//! | `tokens.rs` | the model's tokens: counting, cutting |
//! | `model.rs` | the model directory: its sizes, and a view of it that reads longer texts |
//! | `protocol.rs` | what harness and workers say to each other |
//! | `run.rs` | the order of a run |
//! | `seat.rs` | one engine's part in it |
//! | `limit.rs` | what the machine can do: a large matrix product |
//! | `compare.rs` | vectors beside those of the first engine |
//! | `measured.rs` | what a run measured |
//! | `summary.rs` | `summary.json` |
//! | `record.rs` | `points.csv` |
//! | `table.rs` | the figures for people |
//! | `worker/` | our own end of the protocol |

mod compare;
#[cfg(test)]
mod fixture;
mod limit;
mod measured;
mod model;
pub mod protocol;
mod record;
mod run;
mod seat;
mod summary;
mod table;
mod texts;
mod tokens;
pub mod worker;
mod workload;

pub use measured::{EngineAtShape, Measured, ShapeRun};
pub use model::ModelSize;
pub use record::write_points;
pub use run::run;
pub use summary::summary;
pub use table::write_table;
pub use workload::{Job, Shape, TextSource, Workload};
