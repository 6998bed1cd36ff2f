//! A model directory: reading it, checking it, naming it.
//!
//! | file | what |
//! |---|---|
//! | `layout.rs` | which modules, prompts and lengths a directory has, in both forms of sentence-transformers |
//! | `modules.rs` | settings of pooling and dense modules |
//! | `architecture.rs` | `config.json`: sizes of the transformer |
//! | `weights.rs` | checked tensors out of safetensors files |
//! | `load.rs` | all of it together: an [`Encoder`] |
//! | `fingerprint.rs` | the model's name by content |
//! | `json.rs` | JSON files with errors that name file and field |

mod architecture;
mod fingerprint;
mod json;
mod layout;
mod load;
mod modules;
mod weights;

pub(crate) use architecture::{BertConfig, HiddenActivation};
pub(crate) use fingerprint::{Hex, sorted};
pub(crate) use json::{JsonFile, read_value};
pub(crate) use layout::Prompts;
pub use load::{Encoder, ModelInfo};
pub(crate) use modules::{Activation, DenseConfig, PoolingConfig, PoolingMode};
pub(crate) use weights::WeightsFile;
