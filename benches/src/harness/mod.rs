//! What every comparison with peers is made of: engines in processes of their own, asked in turn, and where it all took
//! place.
//!
//! | file | contents |
//! |---|---|
//! | `task.rs` | a comparison of engines that open a model, from its run to its record, summary and table |
//! | `workload.rs` | its workloads, of named shapes, and its jobs |
//! | `runner.rs` | the engines of a run, one step for each in turn |
//! | `measurement.rs` | what every command writes about its run |
//! | `process.rs` | a worker process, asked with a deadline |
//! | `memory_limit.rs` | a worker with little memory, and files out of the page cache |
//! | `serve.rs` | the other end: requests in, replies out; what all protocols share |
//! | `run_info.rs` | what was measured, where and when |
//! | `table.rs` | rows of records, and tables for people |
//! | `statistics.rs` | medians and other figures of several values |
//! | `files.rs` | files that workloads name and engines are given |

mod files;
mod measurement;
mod memory_limit;
mod process;
mod run_info;
mod runner;
mod serve;
mod statistics;
mod table;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod workload;

pub(crate) use files::{
    SCRATCH, WorkloadFile, evenly, files_under, in_scratch, plain_names, read_lines, read_toml, require_some,
    write_lines,
};
pub use measurement::Measurement;
pub(crate) use memory_limit::drop_pages;
pub(crate) use process::WorkerProcess;
pub use process::{OURS, WorkerPrograms};
pub(crate) use run_info::threads;
pub use run_info::{MachineInfo, RunConditions, RunInfo};
pub(crate) use runner::EngineRunner;
pub use runner::{EngineSession, EngineSettings};
pub use serve::EngineDescription;
pub(crate) use serve::{OpenedReply, WorkerMemory, serve, status_bytes};
pub(crate) use statistics::{extremes, median, per_second, percentile};
pub use table::{FigureFormat, ShownColumn};
pub(crate) use table::{FigureRow, TextTable, by_name, join_figures, texts_by_name, write_csv};
pub use task::{BenchTask, EngineRun, ShapeRun, TaskMeasurement, TaskSession, run};
pub use workload::{TaskJob, TaskShape, TaskWorkload};
