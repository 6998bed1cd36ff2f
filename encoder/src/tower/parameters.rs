//! Where a network's tensors come from: a file, or the tensors of another tower that it is tied to.

use tch::Tensor;

use crate::error::Error;

/// Hands out the tensors of one network by the names of its architecture.
pub(crate) trait Parameters {
    /// A tensor of exactly this shape, on the model's device and in its number type.
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error>;

    /// Whether the tensors are to be learned: the network then computes from them as they are, and keeps no copies that a
    /// step would leave behind.
    fn trainable(&self) -> bool {
        false
    }

    /// Whether tensors are f32 and products of them are to be in bfloat16.
    fn mixed(&self) -> bool {
        false
    }

    /// Whether the maps of transformers are to be rounded to int8.
    fn int8(&self) -> bool {
        false
    }
}
