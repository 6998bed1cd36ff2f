//! What every comparison with peers is made of: engines in processes of their own, asked in turn, and where it all took place.
//!
//! | file | what lives there |
//! |---|---|
//! | `workload.rs` | workloads, and those of named shapes |
//! | `named.rs` | what a workload names: itself, and files wherever they lie |
//! | `inputs.rs` | what engines are given |
//! | `job.rs` | a run that is to be done |
//! | `programs.rs` | which program holds an engine |
//! | `process.rs` | a worker process, asked with a deadline |
//! | `replies.rs` | what workers of several protocols answer |
//! | `serve.rs` | the other end: requests in, replies out |
//! | `scratch.rs` | a folder that goes with the run |
//! | `party.rs` | engines in their seats, one step for each in turn |
//! | `passes.rs` | what the passes of one engine took |
//! | `statistics.rs` | the middle, the tail and the ends of measured values |
//! | `conditions.rs` | what was measured, where and when |
//! | `machine.rs` | where and when |
//! | `status.rs` | what this process holds in memory |
//! | `csv.rs` | fields of comma-separated records |
//! | `table.rs` | the engines in a table for people |
//! | `error.rs` | what can go wrong |
//! | `fixture.rs` | a made-up run, and what every worker answers, for tests |

mod conditions;
mod csv;
mod error;
#[cfg(test)]
mod fixture;
mod inputs;
mod job;
mod machine;
mod named;
mod party;
mod passes;
mod process;
mod programs;
mod replies;
mod scratch;
mod serve;
mod statistics;
mod status;
mod table;
mod workload;

pub use conditions::Conditions;
pub use csv::field;
pub(crate) use error::check;
pub use error::{Error, Result};
#[cfg(test)]
pub(crate) use fixture::{test_conditions, test_machine, test_passes, test_stamp, test_worker};
pub use inputs::{evenly, read_lines, write_lines};
pub use job::Job;
pub use machine::{Machine, Stamp, machine, program_hash, scripts_hash, stamp, threads, unix_time};
pub use named::{find, find_data, plain_name};
pub(crate) use party::Party;
pub use party::Seat;
pub use passes::Passes;
pub use process::{Request, Worker};
pub use programs::{OURS, Programs};
pub use replies::{Memory, Opened};
pub(crate) use scratch::SCRATCH;
pub use scratch::in_scratch;
pub use serve::serve;
pub use statistics::{extremes, median, percentile};
pub use status::own_bytes;
pub use table::write_engines;
pub use workload::{NamedShape, Parts, Shaped, read_toml};
