//! Approximate search measured against its peers: one process per engine, interleaved, at equal recall.
//!
//! | file | what lives there |
//! |---|---|
//! | `workload.rs` | which data, parameters and engines: TOML |
//! | `data.rs` | vectors made ready, exact neighbours |
//! | `protocol.rs` | what harness and workers say to each other |
//! | `engines.rs` | engines by name |
//! | `index_cache.rs` | an index is built once |
//! | `cache_lock.rs` | one run at a time in a work directory |
//! | `run.rs` | the order of a run |
//! | `seat.rs` | one engine's part in it |
//! | `recall.rs` | recall without favour from ties |
//! | `curve.rs` | recall against speed, interpolated |
//! | `measured.rs` | what a run measured |
//! | `ratios.rs` | ours over each peer's |
//! | `summary.rs` | `summary.json` |
//! | `record.rs` | `points.csv`, `engines.csv` |
//! | `hdf5.rs` | results in the layout of ann-benchmarks |
//! | `plot/` | SVG: recall against speed, build time, memory |
//! | `growth.rs` | how speed and build time grow with n |
//! | `table.rs` | the figures for people |
//! | `worker/` | our own end of the protocol |

mod cache_lock;
mod curve;
mod data;
mod engines;
#[cfg(test)]
mod fixture;
mod growth;
mod hdf5;
mod index_cache;
mod measured;
mod plot;
pub mod protocol;
mod ratios;
mod recall;
mod record;
mod run;
mod seat;
mod summary;
mod table;
pub mod worker;
mod workload;

pub use crate::harness::OURS;
pub use cache_lock::lock_cache;
pub use curve::{Curve, CurvePoint, Outside};
pub use data::{Ready, prepare};
pub use growth::{Growth, Series, write_growth};
pub use hdf5::write_results;
pub use index_cache::Reuse;
pub use measured::{Asked, EngineRun, Measured, Point, Speed};
pub use plot::write_plots;
pub use ratios::{Family, Ratios};
pub use recall::Judge;
pub use record::{write_engines, write_points};
pub use run::{Deadlines, Job, run};
pub use summary::summary;
pub use table::write_table;
pub use workload::{Data, Workload};
