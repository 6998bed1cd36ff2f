//! The leaves that a batch is asked of.

use super::super::resources::cancellation::SearchCancellation;
use crate::error::{Error, Result, ShardNumbers};
use crate::leaves::{BusyLeaf, GenerationShards, LeafFailure, LeafRequest, Leaves};

/// The leaves that a batch is asked of.
#[derive(Clone, Copy)]
pub(super) struct LeavesOfBatch<'a> {
    pub(super) leaves: &'a Leaves,
    pub(super) generation: &'a GenerationShards,
    pub(super) cancel: &'a SearchCancellation,
}

impl LeavesOfBatch<'_> {
    /// Asks for all of these shards.
    pub(super) async fn ask<Q: LeafRequest>(&self, shards: &[u32], request: &Q) -> Result<Vec<Q::Reply>> {
        let name = &self.generation.name;
        let asked = self
            .leaves
            .ask(name, shards, self.cancel.deadline().into(), request)
            .await;
        asked.map_err(|failure| self.error_of(failure))
    }

    /// The failure as an error.
    pub(super) fn error_of(&self, failure: LeafFailure) -> Error {
        let name = &self.generation.name;
        match failure {
            LeafFailure::Late => self.cancel.deadline_error(),
            LeafFailure::Busy(BusyLeaf {
                leaf,
                reason,
                retry_after,
            }) => Error::LeafBusy {
                leaf,
                reason,
                retry_after,
            },
            LeafFailure::Refused { leaf, error } => Error::Leaf {
                leaf,
                reason: error.to_string(),
            },
            LeafFailure::Missing { shards, error } => Error::NoLeaves {
                index: name.index.clone(),
                generation: name.generation,
                shards: ShardNumbers(shards),
                reason: error,
            },
        }
    }
}
