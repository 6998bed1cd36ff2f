//! Indexes whose shards leaves hold.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::engine::Engine;
use super::super::served::generation::ServedGeneration;
use crate::error::{Error, Result, ShardNumbers};
use crate::leaves::{Leaves, TooFewHolders};

impl Engine {
    /// With the leaves that hold the shards of all indexes; waits for them, at most for a time. After it one holder of
    /// each shard is enough.
    pub async fn with_leaves(mut self, leaves: Arc<Leaves>, wait: Duration) -> Result<Self> {
        let until = Instant::now() + wait;
        self.leaves = Some(leaves);
        loop {
            if let Some(leaves) = &self.leaves {
                // Each time: a leaf that starts later than its root is not among its addresses before.
                leaves.look_up().await;
            }
            let waits = Instant::now() < until;
            match self.find_on_leaves(waits) {
                Ok(()) => return Ok(self),
                Err(error) if !waits => return Err(error),
                Err(error) => tracing::debug!(%error, "waiting for leaves"),
            }
            if let Some(leaves) = &self.leaves {
                let left = until.saturating_duration_since(Instant::now());
                leaves.wait(left.min(Duration::from_secs(1))).await;
            }
        }
    }

    /// The leaves, where this is a root.
    pub fn leaves(&self) -> Option<&Arc<Leaves>> {
        self.leaves.as_ref()
    }

    fn find_on_leaves(&self, waits: bool) -> Result<()> {
        for index in self.indexes() {
            let served = index.generation();
            if served.on_leaves().is_none() {
                let (path, generation) = (served.snapshot().index(), served.name().generation);
                let opened = self.held.open(path, Some(generation), Some(served.snapshot()))?;
                let found = self.on_leaves(ServedGeneration::new(index.name(), opened)?, waits)?;
                index.served.store(Arc::new(found));
            }
        }
        Ok(())
    }

    /// A generation with the leaves that hold its shards, where this is a root: an error where some shard has none, or
    /// not enough of them where it `waits` for others.
    pub(in crate::run) fn on_leaves(&self, opened: ServedGeneration, waits: bool) -> Result<ServedGeneration> {
        let Some(leaves) = &self.leaves else { return Ok(opened) };
        let (count, name) = (opened.snapshot().manifest().shards.len(), opened.name());
        match leaves.shards_of(name, count, waits) {
            Ok(on_leaves) => Ok(opened.with_leaves(on_leaves)),
            Err(TooFewHolders::None(shards)) => Err(Error::NoLeaves {
                index: name.index.clone(),
                generation: name.generation,
                shards: ShardNumbers(shards),
                reason: None,
            }),
            Err(TooFewHolders::Few { shards, wanted }) => Err(Error::FewLeaves {
                index: name.index.clone(),
                generation: name.generation,
                shards: ShardNumbers(shards),
                wanted,
            }),
        }
    }
}
