//! Approximate search measured against its peers: one process per engine, interleaved, at equal recall.
//!
//! | file | contents |
//! |---|---|
//! | `workload.rs` | which data, parameters and engines: TOML |
//! | `data.rs` | vectors made ready, exact neighbours |
//! | `protocol.rs` | what harness and workers say to each other |
//! | `cache.rs` | the work directory: one run at a time, an index is built once |
//! | `run.rs` | the order of a run |
//! | `session.rs` | one engine's part in it |
//! | `recall.rs` | recall without favour from ties |
//! | `curve.rs` | recall against speed, interpolated |
//! | `measured.rs` | what a run measured, and ours over each peer's |
//! | `summary.rs` | `summary.json` |
//! | `report.rs` | `points.csv`, `engines.csv`, the table |
//! | `hdf5.rs` | results in the layout of ann-benchmarks |
//! | `plot.rs` | SVG: recall against speed, build time, memory |
//! | `growth.rs` | how speed and build time grow with n |
//! | `worker/` | our own end of the protocol |

mod cache;
mod curve;
mod data;
mod growth;
mod hdf5;
mod measured;
mod plot;
mod protocol;
mod recall;
mod report;
mod run;
mod session;
mod summary;
#[cfg(test)]
mod tests;
pub(crate) mod worker;
mod workload;

pub use cache::{Record, Reuse, lock_cache};
pub use data::{Ready, prepare};
pub use growth::{Growth, write_growth};
pub use hdf5::write_results;
pub use measured::{EngineRun, Measured, Point};
pub use plot::write_plots;
pub use protocol::{Built, More};
pub use recall::Judge;
pub use report::{write_engines, write_points, write_table};
pub use run::{Job, run};
pub use summary::summary;
pub use workload::{Data, Workload};
