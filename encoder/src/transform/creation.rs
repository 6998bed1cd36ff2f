//! Options of a new model of two towers.

use crate::config::{Module, MultiHopConfig, PoolingConfig, Sharing};

/// Two towers that are to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Creation {
    /// Sharing of the towers.
    pub sharing: Sharing,
    /// Values per vector. Where each tower of the source brings a projection of that many (DPR's `encode_proj`) and the
    /// pooling is kept, that projection is taken, and no new one is made.
    pub dim: usize,
    /// Seed of all random values: projections (those of two towers differ), multi-hop attention, encoder, token
    /// vectors.
    pub seed: u64,
}

/// Pooling of the new towers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aggregation {
    /// That of the pretrained model.
    #[default]
    Kept,
    /// The mean over all tokens.
    Mean,
    /// Multi-hop self-attention (Lin et al. 2017), randomly initialised and part of the transformer where towers share:
    /// as many means as `hops`, weighted through `inner` values. sentence-transformers cannot read a model that has it.
    MultiHop {
        /// Values between the two maps.
        inner: usize,
        /// Weighted means, side by side.
        hops: usize,
    },
}

impl Aggregation {
    /// A new encoder in place of the model's own; the size of its token vectors is not known yet.
    pub(crate) fn module(self) -> Option<Module> {
        match self {
            Self::Kept => None,
            Self::Mean => Some(Module::Pooling(PoolingConfig::mean())),
            Self::MultiHop { inner, hops } => Some(Module::MultiHop(MultiHopConfig {
                in_features: 0,
                inner,
                hops,
                include_prompt: true,
            })),
        }
    }
}
