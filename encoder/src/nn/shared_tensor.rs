//! A tensor of a network, whose clones are the same tensor.

use std::ops::Deref;

use tch::Tensor;

/// A clone costs a reference: networks can be cloned for other threads, and weights lie in memory once. (`Tensor` can
/// be sent, and not shared.)
#[derive(Debug)]
pub(crate) struct SharedTensor(Tensor);

impl Clone for SharedTensor {
    fn clone(&self) -> Self {
        Self(self.0.shallow_clone())
    }
}

impl From<Tensor> for SharedTensor {
    fn from(tensor: Tensor) -> Self {
        Self(tensor)
    }
}

impl Deref for SharedTensor {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.0
    }
}
