//! The crate from outside: tiny checkpoints against sentence-transformers, broken models, the job, the service,
//! training's parts.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod broken;
mod command;
mod create;
mod cross;
mod cross_encoder;
mod data;
mod dual;
mod encoders;
mod export;
mod families;
mod fingerprint;
mod fixture;
mod from_scratch;
mod http;
mod int8;
mod job;
mod late;
mod late_job;
mod late_service;
mod logit_scale;
mod loss;
mod many;
mod memory;
mod mine;
mod multihop;
mod optim;
mod parity;
mod probe;
mod prompts;
mod reference;
mod service;
mod static_models;
mod tiny;
mod train;
mod wire;
