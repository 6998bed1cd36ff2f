//! The measurements against a served searcher whose answers are known, and against trec_eval.
//!
//! | file | contents |
//! |---|---|
//! | `server.rs` | a searcher with known answers, and ways to misbehave |
//! | `quality.rs` | what is measured there |
//! | `refusals.rs` | what is not, and what is said |
//! | `command.rs` | the binary: output, exit codes |
//! | `ann/` | the approximate-search harness with workers whose answers are known (`fake_worker.py`) |
//! | `ann_command/` | its commands, with our own engines |
//! | `filter.rs` | search under filters: workers whose answers are known, and our own engines |
//! | `encode.rs` | the encoding harness with workers whose answers are known (`fake_encoder.py`) |
//! | `encode_command.rs` | its command, with our own engine |
//! | `load.rs` | load on the searcher with known answers, and on the layers below a served index |
//! | `train_step.rs` | the train-step harness with workers whose answers are known (`fake_trainer.py`), and with our own engine |
//! | `reproduce.rs` | every table of `benches/reproduce` on a tiny model |
//! | `fake.rs` | such a worker, ready to be run |
//! | `trec.rs` | our metrics against trec_eval's |
#![expect(clippy::unwrap_used, reason = "tests")]

mod ann;
mod ann_command;
mod command;
mod encode;
mod encode_command;
mod fake;
mod filter;
mod load;
mod quality;
mod refusals;
#[cfg(feature = "torch")]
mod reproduce;
mod server;
#[cfg(feature = "torch")]
mod train_step;
mod trec;
