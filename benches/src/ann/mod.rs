//! Approximate search measured against its peers: one process per engine, interleaved, at equal recall.
//!
//! | file | contents |
//! |---|---|
//! | `workload.rs` | which data, parameters and engines: TOML |
//! | `data.rs` | the work directory, vectors made ready, exact neighbours |
//! | `protocol.rs` | what harness and workers say to each other |
//! | `run.rs` | the order of a run |
//! | `session.rs` | one engine's part in it, its index first |
//! | `recall.rs` | recall without favour from ties |
//! | `curve.rs` | recall against speed, interpolated |
//! | `measured.rs` | what a run measured, and ours over each peer's |
//! | `report.rs` | `points.csv`, `engines.csv`, `summary.json`, the table |
//! | `churn.rs` | an index that changes |
//! | `cells.rs` | which filters are searched under |
//! | `filter/` | search under filters |
//! | `hdf5.rs` | results in the layout of ann-benchmarks |
//! | `frameworks.rs` | results of ann-benchmarks and VIBE, next to ours |
//! | `plot.rs` | SVG: recall against speed |
//! | `worker/` | our own end of the protocol |

mod cells;
mod churn;
mod curve;
mod data;
mod filter;
mod frameworks;
mod hdf5;
mod measured;
mod plot;
mod protocol;
mod recall;
mod report;
mod run;
mod session;
#[cfg(test)]
mod tests;
pub(crate) mod worker;
mod workload;

pub use cells::{ConditionShape, FilterCell, FilterCorrelation, FilterSettings};
pub use churn::{ChurnMeasurement, ChurnMoment, ChurnOptions, churn};
pub use data::{ReadyVectors, lock_cache, prepare};
pub use filter::{CellPoint, CellRun, FilterGoal, FilterRun, run_filter};
pub use frameworks::FrameworkResults;
pub use hdf5::write_results;
pub use measured::{AnnEngineRun, AnnMeasurement, IndexRecord, SweepPoint};
pub use plot::write_plots;
pub use protocol::{AnnDetails, BuiltIndex};
pub use recall::RecallJudge;
pub use run::run;
pub use workload::{AnnJob, AnnWorkload, WorkloadVectors};
