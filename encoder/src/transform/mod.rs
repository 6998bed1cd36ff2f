//! Checkpoints made from checkpoints: values, whose tensors are computed when they are written or opened.
//!
//! | file | what |
//! |---|---|
//! | `creation.rs`, `towers.rs`, `origin.rs` | two towers from a pretrained model, and what they share |
//! | `transformer.rs` | the transformer of a new tower: tensors, configuration, files |
//! | `cross_encoder.rs` | a cross encoder from a pretrained encoder |
//! | `new_encoder.rs` | a randomly initialised encoder over pretrained token vectors, or a whole model |
//! | `initialize.rs` | how tensors begin |
//! | `cast.rs` | another number type |
//! | `values.rs` | other values, as training gives them |
//! | `dpr.rs` | DPR's form of BERT |

mod cast;
mod creation;
mod cross_encoder;
mod dpr;
mod initialize;
mod new_encoder;
mod origin;
#[cfg(test)]
mod tests;
mod towers;
mod transformer;
mod values;

pub(crate) use cast::cast;
pub use creation::{Aggregation, Creation};
pub(crate) use cross_encoder::cross_encoder;
pub use new_encoder::NewEncoder;
pub(crate) use new_encoder::{TokenVectors, new_encoder};
pub(crate) use towers::towers;
pub(crate) use values::with_values;
