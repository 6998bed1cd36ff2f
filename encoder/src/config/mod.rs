//! The configuration files of a model directory as plain data: no tensor, no network.
//!
//! | file | what |
//! |---|---|
//! | `tower.rs`, `sharing.rs` | the two towers, and what they have in common |
//! | `layout.rs`, `modules_json.rs` | the modules of a directory, their order in each tower, prompts |
//! | `cross_encoder.rs`, `head.rs` | whether it scores pairs of texts instead; the maps of the pooled vector that do |
//! | `modules.rs`, `transformer.rs`, `dense.rs` | settings of each kind of module |
//! | `architecture.rs` | which transformer: its sizes, and the names and shapes of its tensors |
//! | `bert.rs`, `t5.rs`, `rotary/`, `recurrent.rs`, `activation.rs` | the same of each architecture |
//! | `static_model.rs`, `static_files.rs` | a table of token vectors alone: sentence-transformers' `StaticEmbedding`, Model2Vec, WordLlama |
//! | `weights_header.rs` | names and shapes of the tensors of a safetensors file |
//! | `inventory/` | every setting of every file, and what is done with it |
//! | `prompts.rs` | what stands before the texts of each tower |
//! | `json.rs` | JSON files with errors that name file and field |
//! | `digest.rs` | SHA-256 in hexadecimal |

mod activation;
mod architecture;
mod bert;
mod cross_encoder;
mod dense;
mod digest;
mod head;
mod inventory;
mod json;
mod layout;
mod modules;
mod modules_json;
mod prompts;
mod recurrent;
mod rotary;
mod sharing;
mod static_files;
mod static_model;
mod t5;
mod tower;
mod transformer;
mod weights_header;

pub(crate) use activation::HiddenActivation;
pub(crate) use architecture::Architecture;
pub(crate) use bert::BertConfig;
#[cfg(test)]
pub(crate) use bert::BertFamily;
pub use cross_encoder::ScoreActivation;
pub(crate) use dense::{Activation, DenseConfig};
#[cfg(feature = "train")]
pub(crate) use digest::hexadecimal;
pub(crate) use digest::{sha256, sorted};
pub(crate) use head::HeadMapConfig;
pub(crate) use inventory::markdown as settings_table;
pub(crate) use json::{JsonFile, read_value};
pub(crate) use layout::{Layout, ModuleStep, Route, SETTINGS};
pub(crate) use modules::{Module, MultiHopConfig, Placed, PoolingConfig, PoolingMode};
pub(crate) use prompts::Prompts;
pub use prompts::{NamedPrompts, PromptOptions, PromptReading, UnknownPrompt};
pub use recurrent::RecurrentCell;
pub(crate) use recurrent::RecurrentConfig;
pub(crate) use rotary::{AttentionReach, FeedForwardGate, NormOrder, RopeFrequencies, RotaryConfig};
pub use sharing::{Sharing, Tie, TowerPart};
pub(crate) use static_model::{StaticConfig, StaticTokenizer};
pub(crate) use t5::T5Config;
pub use tower::Tower;
pub(crate) use transformer::{TokenizerSource, TransformerConfig, registered_class};
pub(crate) use weights_header::weights_header;

/// Name and shape of a tensor.
pub(crate) type TensorSpec = (String, Vec<usize>);
