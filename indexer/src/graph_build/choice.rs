//! The builders by name.

use super::GraphBuilder;
use super::hnsw_rs::{HnswRsBuilder, HnswRsInt8};
use super::native::Native;

/// One of the builders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BuilderKind {
    /// Our own: faster, and better at equal parameters.
    #[default]
    Native,
    /// The `hnsw_rs` crate over vectors.
    HnswRs,
    /// The `hnsw_rs` crate over int8 codes.
    HnswRsInt8,
}

impl BuilderKind {
    /// The builder with the name that a shard records; none where this release has none of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Native, Self::HnswRs, Self::HnswRsInt8]
            .into_iter()
            .find(|builder| builder.get().name() == name)
    }

    /// The builder.
    pub fn get(self) -> &'static dyn GraphBuilder {
        match self {
            Self::Native => &Native,
            Self::HnswRs => &HnswRsBuilder,
            Self::HnswRsInt8 => &HnswRsInt8,
        }
    }
}
