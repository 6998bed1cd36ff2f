//! The tensors of a network: where they come from, and those that are learned.

use tch::{Kind, Tensor};

use super::low_rank::LowRankMap;
use crate::error::{Error, torch};

/// Form of the weights of affine maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WeightForm {
    /// They do not change, and are packed for the fastest product.
    #[default]
    Fixed,
    /// Not trained, and rounded to int8.
    Int8,
    /// Trained: the network computes from the tensors themselves and keeps no copies that a step would make stale.
    Learned,
    /// Trained in f32, with products in bfloat16 (mixed precision, Micikevicius et al. 2018).
    Mixed,
}

impl WeightForm {
    /// Whether a step may change them.
    pub(crate) fn is_learned(self) -> bool {
        matches!(self, Self::Learned | Self::Mixed)
    }
}

/// Provides the tensors of one network by their names in the architecture.
pub(crate) trait Parameters {
    /// A tensor of exactly this shape, on the model's device and in its number type.
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error>;

    /// What is learned in place of the weight `[output, input]` of the map of this name, where it has an adapter.
    fn low_rank(&mut self, name: &str, output: usize, input: usize) -> Result<Option<LowRankMap>, Error> {
        let _ = (name, output, input);
        Ok(None)
    }

    /// A tensor that is never learned, in a number type of its own.
    fn constant(&mut self, name: &str, shape: &[usize], kind: Kind) -> Result<Tensor, Error> {
        self.take(name, shape)?
            .f_to_kind(kind)
            .map_err(torch("reading weights"))
    }

    /// Form of the weights of maps.
    fn form(&self) -> WeightForm {
        WeightForm::Fixed
    }
}

/// One tensor of a model.
#[derive(Debug)]
pub struct Parameter {
    /// Module and tensor: `shared_2_Dense/linear.weight`; the module is empty where the model's own folder holds it.
    pub name: String,
    /// The very tensor that the towers compute with.
    pub tensor: Tensor,
    /// Training leaves it as it is.
    pub frozen: bool,
}

impl Parameter {
    /// The same tensor, not a copy of it.
    #[must_use]
    pub fn shallow_clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            tensor: self.tensor.shallow_clone(),
            frozen: self.frozen,
        }
    }
}
