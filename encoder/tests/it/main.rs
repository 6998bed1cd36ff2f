//! The crate from outside: tiny checkpoints against sentence-transformers, broken models, the job, the service.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod broken;
mod command;
mod data;
mod dual;
mod encoders;
mod export;
mod families;
mod fingerprint;
mod fixture;
mod http;
mod job;
mod multihop;
mod parity;
mod probe;
mod service;
mod tiny;
