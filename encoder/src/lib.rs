//! Towers, model directories, the embedding job and the embedding service; the only crate with libtorch.
//!
//! Layers, lowest first; no module imports upward:
//!
//! | module | contents |
//! |---|---|
//! | [`error`], [`device`] | why a model cannot be opened or run; cpu or cuda, number type, threads |
//! | [`environment`] | settings of libtorch that it reads from the environment alone |
//! | `random` | random numbers that are the same on every machine |
//! | [`config`] | what a model directory says about itself, as plain data |
//! | `checkpoint` | a model as a value: configuration, tensors, files; its fingerprint |
//! | [`transform`] | checkpoints from checkpoints: two towers, random values, another number type |
//! | [`tokenize`] | text to tokens to batches |
//! | `nn` | the network |
//! | [`model`] | where all of these meet: a model that runs |
//! | [`embed`] | the embedding job: a corpus to an embeddings directory |
//! | [`serve`] | one model for many callers: in process, over gRPC and over HTTP |
//! | [`data`] | what training reads: tokenized examples, batches, their order |
//! | [`loss`] | what training makes small |
//! | [`optim`] | optimizers whose state can be saved, schedules, clipping |
//! | [`cross`] | the cross-encoder branch of ENDX, for training only |
//! | [`train`] | the training loop: one TOML, stages, checkpoints, evaluation |
//! | [`probe`] | how the two towers lie in their common space |
//! | [`cli`] | the commands of the binary |
//!
//! All after [`serve`] but [`cli`] need the feature `train`, which is on by default.

mod checkpoint;
pub mod cli;
pub mod config;
#[cfg(feature = "train")]
pub mod cross;
#[cfg(feature = "train")]
pub mod data;
pub mod device;
pub mod embed;
pub mod environment;
pub mod error;
#[cfg(feature = "train")]
pub mod loss;
pub mod model;
mod nn;
#[cfg(feature = "train")]
pub mod optim;
#[cfg(feature = "train")]
pub mod probe;
mod random;
pub mod serve;
pub mod tokenize;
#[cfg(feature = "train")]
pub mod train;
pub mod transform;

pub use config::{NamedPrompts, PromptOptions, PromptReading, Sharing, Tower, UnknownPrompt};
pub use device::{Compute, Device, Dtype};
pub use error::Error;
pub use model::{CrossEncoder, Model, ModelInfo, ModelKind};
