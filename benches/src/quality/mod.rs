//! How good a served system's answers are, and where what is missing got lost.
//!
//! | file | contents |
//! |---|---|
//! | `system.rs` | what is measured: a ranking mode, through the graph or exact |
//! | `ask.rs` | every question to the server, over gRPC; replies checked |
//! | `measure.rs` | all systems in turn: ask, write the run, compute the metrics |
//! | `report.rs` | the figures, ANN loss and overlap, as JSON |
//! | `table.rs` | the figures for people |
//! | `error.rs` | what can go wrong |
//!
//! A dense ranking loses answers in two places. What exact search misses, the encoder lost; what exact search finds and the
//! graph walk does not, the index lost. So modes with vectors are asked for twice, and the difference is the ANN loss.

mod ask;
mod error;
mod measure;
mod report;
mod system;
mod table;

pub use ask::{Answers, Job, Served, ask};
pub use dyad_corpus::Judged;
pub use error::Error;
pub use measure::{METRICS, measure};
pub use report::{Loss, Report, Row, overlap};
pub use system::{Mode, System, systems};
pub use table::write_table;
