//! A model directory: reading it, checking it, naming it.
//!
//! | file | what |
//! |---|---|
//! | `layout.rs` | which modules, prompts and lengths a directory has, in both forms of sentence-transformers |
//! | `modules.rs` | settings of pooling, multi-hop and dense modules |
//! | `architecture.rs` | `config.json`: sizes of the transformer |
//! | `recurrent.rs` | sizes of an LSTM, GRU or RNN |
//! | `weights.rs` | checked tensors out of safetensors files |
//! | `source.rs` | one module's tensors, read or shared |
//! | `stored.rs` | what a transformer's folder holds, without loading it |
//! | `initial.rs` | the values that a transformer has before any training |
//! | `moved.rs` | a transformer's tensors into another folder, in BERT's form |
//! | `sound.rs` | whether a model is fit to be the source of another one, whether a bundle is whole |
//! | `manifest.rs` | `dyad.json`: ties, golden vectors |
//! | `contents.rs` | what a model is made of |
//! | `golden.rs` | whether a model reproduces its golden vectors |
//! | `export.rs`, `rewrite.rs` | the same model in another number type, tensor by tensor |
//! | `renew.rs` | the same model with the values that training gave it |
//! | `partial.rs` | a new directory that appears whole or not at all, how every model directory is written |
//! | `parts.rs` | the modules, each loaded once |
//! | `load.rs` | all of it together: an [`Encoder`] |
//! | `fingerprint.rs` | the model's name by content |
//! | `json.rs` | JSON files with errors that name file and field |

mod architecture;
mod contents;
mod export;
mod fingerprint;
mod golden;
mod initial;
mod json;
mod layout;
mod load;
mod manifest;
mod modules;
pub(crate) mod moved;
mod partial;
mod parts;
mod recurrent;
mod renew;
mod rewrite;
mod sound;
mod source;
pub(crate) mod stored;
mod weights;

pub(crate) use architecture::{Architecture, BertConfig, BertFamily, HiddenActivation, T5Config};
pub use contents::{Contents, ModuleContents};
pub use export::export;
pub(crate) use export::with_type;
pub(crate) use fingerprint::{Hex, sorted};
pub(crate) use golden::{least_cosine, seal};
pub(crate) use initial::{BERT_RANGE, Draw, Initial, initial, tensors_of};
pub(crate) use json::{JsonFile, read_value};
pub(crate) use layout::{Layout, Module, Placed, Prompts};
pub use load::{Encoder, ModelInfo};
pub(crate) use manifest::{Golden, Manifest, SharedTensor};
pub(crate) use modules::{Activation, DenseConfig, MultiHopConfig, PoolingConfig, PoolingMode};
pub(crate) use partial::Partial;
pub(crate) use parts::Parts;
pub use recurrent::Cell;
pub(crate) use recurrent::RecurrentConfig;
pub(crate) use renew::renew;
pub(crate) use sound::{configured, is_sealed, sound, whole};
