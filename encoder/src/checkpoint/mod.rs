//! A model as a value: its configuration, its tensors, and the files that lie in its directory.
//!
//! | file | what |
//! |---|---|
//! | `read.rs` | a [`Checkpoint`], from a directory; the tensors of its modules |
//! | `write.rs` | a checkpoint as a directory |
//! | `tensor.rs`, `safetensors.rs` | tensors whose bytes are read or computed when asked for; their files, and the only writer of such |
//! | `check.rs` | whether the tensors are those that the configuration asks for; their digests |
//! | `fingerprint.rs` | the model's name by content |
//! | `manifest.rs` | `dyad.json`: sharing, tied tensors, golden vectors |

mod check;
mod fingerprint;
mod manifest;
mod read;
mod safetensors;
mod tensor;
mod write;

pub(crate) use fingerprint::{ModuleRecords, fingerprint};
pub(crate) use manifest::{CheckpointManifest, Golden, MANIFEST, PAIR, SharedTensorRecord};
pub(crate) use read::{Checkpoint, Content, ModuleTensors, WEIGHTS, is_settings_file};
pub(crate) use safetensors::WeightFile;
pub(crate) use tensor::TensorData;
