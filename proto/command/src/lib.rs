//! The frame of every command: what all binaries do alike, whatever they are for.
//!
//! | file | what lives there |
//! |---|---|
//! | `exit.rs` | [`run`]: arguments in, errors told, exit code out |
//! | `logs.rs` | logs to standard error |
//! | `signals.rs` | [`Cancellation`], and the signals that cancel a job or end a server |
//! | `progress.rs` | [`ProgressBar`]: a bar on a terminal, a line of the log elsewhere |
#![forbid(unsafe_code)]

mod exit;
mod logs;
mod progress;
mod signals;

pub use exit::{FAILURE, INTERRUPTED, USAGE, UsageError, chain, run};
pub use logs::init_logs;
pub use progress::{ProgressBar, time_left};
pub use signals::{Cancellation, cancel_on_signal, shutdown_signal};
