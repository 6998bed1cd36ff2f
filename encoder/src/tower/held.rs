//! A tensor of a network, whose clones are the same tensor.

use std::ops::Deref;

use tch::Tensor;

/// A clone costs a reference: networks can be cloned for other threads, and weights lie in memory once. (`Tensor` can be sent,
/// and not shared.)
#[derive(Debug)]
pub(crate) struct Held(Tensor);

impl Clone for Held {
    fn clone(&self) -> Self {
        Self(self.0.shallow_clone())
    }
}

impl From<Tensor> for Held {
    fn from(tensor: Tensor) -> Self {
        Self(tensor)
    }
}

impl Deref for Held {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.0
    }
}
