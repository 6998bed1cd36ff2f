//! Indexes whose shards leaves hold.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::engine::Engine;
use super::super::served::generation::ServedGeneration;
use crate::error::{Error, Result, ShardNumbers};
use crate::leaves::Leaves;

impl Engine {
    /// With the leaves that hold the shards of all indexes; waits for them, at most for a time.
    pub async fn with_leaves(mut self, leaves: Arc<Leaves>, wait: Duration) -> Result<Self> {
        let until = Instant::now() + wait;
        self.leaves = Some(leaves);
        loop {
            if let Some(leaves) = &self.leaves {
                // Each time: a leaf that starts later than its root is not among its addresses before.
                leaves.look_up().await;
            }
            match self.find_on_leaves() {
                Ok(()) => return Ok(self),
                Err(error) if Instant::now() >= until => return Err(error),
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

    fn find_on_leaves(&self) -> Result<()> {
        for index in self.indexes() {
            let served = index.generation();
            if served.on_leaves().is_none() {
                let (path, generation) = (served.snapshot().index(), served.name().generation);
                let opened = self.held.open(path, Some(generation), Some(served.snapshot()))?;
                let found = self.on_leaves(ServedGeneration::new(index.name(), opened)?)?;
                index.served.store(Arc::new(found));
            }
        }
        Ok(())
    }

    /// A generation with the leaves that hold its shards, where this is a root: an error where some shard has not
    /// enough of them.
    pub(in crate::run) fn on_leaves(&self, opened: ServedGeneration) -> Result<ServedGeneration> {
        let Some(leaves) = &self.leaves else { return Ok(opened) };
        let count = opened.snapshot().manifest().shards.len();
        let found = leaves.shards_of(opened.name(), count);
        let on_leaves = found.map_err(|missing| Error::NoLeaves {
            index: opened.name().index.clone(),
            generation: opened.name().generation,
            shards: ShardNumbers(missing),
            reason: None,
        })?;
        Ok(opened.with_leaves(on_leaves))
    }
}
