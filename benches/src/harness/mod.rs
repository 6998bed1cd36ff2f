//! What every comparison with peers is made of: engines in processes of their own, asked in turn, and where it all took place.
//!
//! | file | contents |
//! |---|---|
//! | `task.rs` | a comparison of engines that open a model, from its run to its record, summary and table |
//! | `workload.rs` | its workloads, of named shapes, and its jobs |
//! | `runner.rs` | the engines of a run, one step for each in turn |
//! | `process.rs` | a worker process, asked with a deadline |
//! | `memory_limit.rs` | a worker with little memory, and files out of the page cache |
//! | `serve.rs` | the other end: requests in, replies out; what all protocols share |
//! | `run_info.rs` | what was measured, where and when |
//! | `output.rs` | records, tables, statistics |
//! | `files.rs` | files that workloads name and engines are given |

mod files;
mod memory_limit;
mod output;
mod process;
mod run_info;
mod runner;
mod serve;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod workload;

pub(crate) use files::{
    SCRATCH, evenly, files_under, find_data, in_scratch, plain_names, read_lines, read_toml, write_lines,
};
pub(crate) use memory_limit::drop_pages;
pub use output::Show;
pub(crate) use output::{Row, extremes, median, per_second, percentile, row, write_csv, write_line};
pub(crate) use process::Worker;
pub use process::{OURS, Programs};
pub(crate) use run_info::threads;
pub use run_info::{Conditions, Machine, RunInfo};
pub(crate) use runner::{EngineSession, Runner};
pub use serve::Described;
pub(crate) use serve::{Memory, Opened, serve};
pub use task::{At, Column, EngineRun, Measured, Session, ShapeRun, Task, run};
pub use workload::{Job, Shape, Workload};
