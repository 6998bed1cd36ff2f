//! How good a served system's answers are, and where what is missing got lost.
//!
//! | file | contents |
//! |---|---|
//! | `ask.rs` | what is measured, a ranking mode through the graph or exact; every question to the server, over gRPC; replies checked |
//! | `report.rs` | all systems in turn, their runs and metrics, ANN loss and overlap; as JSON, and for people |
//!
//! A dense ranking loses answers in two places. What exact search misses, the encoder lost; what exact search finds and
//! the graph walk does not, the index lost. So modes with vectors are asked for twice, and the difference is the ANN
//! loss.

mod ask;
mod report;

pub use ask::{AnsweringIndex, QualityJob, RankingMode, RankingSystem, systems};
pub use dyad_corpus::JudgedQuestions;
pub use report::{AnnLoss, METRICS, QualityReport, SystemRow, measure, overlap};
