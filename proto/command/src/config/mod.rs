//! Configuration of a server in layers: defaults, a TOML file, `DYAD_` variables, flags; later ones win.
//!
//! The long names of the flags of `serve` are the keys of the file. Entries of the file, and variables, whose flag is
//! not on the command line become arguments before clap parses them, so that a new flag is covered without code of its
//! own, and values, required flags and conflicts are checked in one place.
//!
//! | file | contents |
//! |---|---|
//! | `setting.rs` | a flag as a setting: the values that it takes, and how they become arguments |
//! | `file.rs` | the TOML file |
//! | `variables.rs` | the `DYAD_` variables |
//! | `command.rs` | what a server's command line gets: `--config`, `--log`, `config print` |
//! | `layers.rs` | `Configuration`: all layers, read again on demand |
//! | `print.rs` | `config print` |
//! | `follow.rs` | [`Follower`]: follows the file, and SIGHUP |
//! | `run.rs` | [`run_server`]: as [`run`](crate::run), with a configuration |

mod command;
mod file;
mod follow;
mod layers;
mod print;
mod run;
mod setting;
#[cfg(test)]
mod tests;
mod variables;

pub use follow::Follower;
pub use run::run_server;
