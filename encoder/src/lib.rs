//! Towers, model directories, the embedding job and the embedding service; the only crate with libtorch.
//!
//! | module | what lives there |
//! |---|---|
//! | [`bundle`] | a model directory: layout, weights, fingerprint |
//! | [`cli`] | the commands of the binary |
//! | [`data`] | what training reads: tokenized examples, batches, their order |
//! | [`device`] | cpu or cuda, number type, threads |
//! | [`tokenize`] | text to tokens to batches |
//! | [`tower`] | the network |
//! | [`dual`] | two towers, what they share, and how they learn |
//! | [`loss`] | what training makes small |
//! | [`cross`] | the cross side of ENDX, for training only |
//! | [`optim`] | optimizers whose state can be saved, schedules, clipping |
//! | [`train`] | the training loop: one TOML, stages, checkpoints, evaluation |
//! | [`probe`] | how the two towers lie in their common space |
//! | [`job`] | the embedding job: a corpus to an embeddings directory |
//! | [`serve`] | one model for many callers: in process, over gRPC and over HTTP |
//! | [`error`] | why a model cannot be opened or run |

pub mod bundle;
pub mod cli;
pub mod cross;
pub mod data;
pub mod device;
pub mod dual;
pub mod error;
pub mod job;
pub mod loss;
pub mod optim;
pub mod probe;
pub mod serve;
pub mod tokenize;
pub mod tower;
pub mod train;

pub use bundle::{Encoder, ModelInfo};
pub use device::{Compute, Device, Dtype};
pub use error::Error;
pub use tower::Tower;
