//! A model that runs: the only place where configuration, checkpoint, tokenizer and network meet.
//!
//! | file | what |
//! |---|---|
//! | `open.rs`, `open_for_training.rs` | a [`Model`], from a checkpoint, for inference or for training |
//! | `supported.rs` | what a model cannot be opened for |
//! | `load.rs`, `tensors.rs` | the network's tensors, out of a checkpoint |
//! | `adapters.rs` | low-rank adapters (LoRA), in place of weights that learn |
//! | `cross_encoder.rs` | a [`CrossEncoder`], which scores pairs of texts |
//! | `embed.rs`, `batches.rs` | the forward pass; any number of texts in batches |
//! | `prompted.rs` | a model with other prompts: its tokens and its fingerprint |
//! | `golden.rs` | whether a model reproduces its golden vectors; validation before use |
//! | `contents.rs` | what a model is made of |
//! | `make.rs` | commands that write a model: create, export, export_with, and what training gives |

mod adapters;
mod batches;
mod contents;
mod cross_encoder;
mod embed;
mod golden;
mod load;
mod make;
mod open;
mod open_for_training;
mod prompted;
mod supported;
mod tensors;

pub use crate::config::ScoreActivation;
pub use crate::nn::{LoraSettings, Output, Parameter, VectorLength};
pub(crate) use batches::BatchRunner;
pub use contents::{Contents, ModuleContents};
pub use cross_encoder::CrossEncoder;
pub(crate) use golden::least_cosine;
pub use load::OpenMode;
#[cfg(feature = "train")]
pub(crate) use make::{check_whole, is_sealed};
pub use make::{
    create, create_cross_encoder, create_from_scratch, create_over, create_with, export, export_with, own_projection,
};
#[cfg(feature = "train")]
pub(crate) use open::RUN_RECORD;
pub use open::{Model, ModelInfo, ModelKind};
pub(crate) use prompted::PromptedModel;
#[cfg(feature = "train")]
pub(crate) use tensors::{to_checkpoint, to_torch};
