//! What every comparison with peers is made of: engines in processes of their own, asked in turn, and where it all took place.
//!
//! | file | what lives there |
//! |---|---|
//! | `programs.rs` | which program holds an engine |
//! | `process.rs` | a worker process, asked with a deadline |
//! | `serve.rs` | the other end: requests in, replies out |
//! | `turns.rs` | one step for every engine in turn |
//! | `statistics.rs` | the middle and the tail of measured values |
//! | `machine.rs` | where and when |
//! | `named.rs` | what a workload names: itself, and files wherever they lie |
//! | `status.rs` | what this process holds in memory |
//! | `csv.rs` | fields of comma-separated records |
//! | `error.rs` | what can go wrong |
//! | `fixture.rs` | a made-up machine, for tests |

mod csv;
mod error;
#[cfg(test)]
mod fixture;
mod machine;
mod named;
mod process;
mod programs;
mod serve;
mod statistics;
mod status;
mod turns;

pub use csv::field;
pub use error::{Error, Result};
#[cfg(test)]
pub(crate) use fixture::{test_machine, test_stamp};
pub use machine::{Machine, Stamp, machine, program_hash, scripts_hash, stamp, unix_time};
pub use named::{find, plain_name};
pub use process::{Request, Worker};
pub use programs::Programs;
pub use serve::serve;
pub use statistics::{median, percentile};
pub use status::own_bytes;
pub use turns::{Failures, in_turn};
