//! The measurements against a served searcher whose answers are known, and against trec_eval.
//!
//! | file | what lives there |
//! |---|---|
//! | `server.rs` | a searcher with known answers, and ways to misbehave |
//! | `quality.rs` | what is measured there |
//! | `refusals.rs` | what is not, and what is said |
//! | `command.rs` | the binary: output, exit codes |
//! | `trec.rs` | our metrics against trec_eval's |
#![expect(clippy::unwrap_used, reason = "tests")]

mod command;
mod quality;
mod refusals;
mod server;
mod trec;
