//! What all commands have in common: exit codes, configuration, logs, signals, progress.
//!
//! | file | contents |
//! |---|---|
//! | `release.rs` | [`revision`]: the commit that the program was built of |
//! | `exit.rs` | [`run`]: arguments, errors, exit codes |
//! | `config/` | [`run_server`]: configuration of a server in layers |
//! | `logs.rs` | logs to standard error |
//! | `traces.rs` | traces over OTLP (feature `otlp`) |
//! | `signals.rs` | [`JobCancellation`], and the signals that cancel a job or end a server |
//! | `progress.rs` | [`ProgressBar`]: a bar on a terminal, log lines elsewhere |
#![forbid(unsafe_code)]

mod config;
mod exit;
mod logs;
mod progress;
mod release;
mod signals;
#[cfg(feature = "otlp")]
mod traces;

pub use config::{Follower, run_server};
pub use exit::{FAILURE, INTERRUPTED, USAGE, UsageError, chain, run};
pub use progress::{ProgressBar, time_left};
pub use release::revision;
pub use signals::{JobCancellation, cancel_on_signal, shutdown_signal};
