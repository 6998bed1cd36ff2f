//! A generation that is served: its shards that are open here, and where those are that are not.

use std::sync::{Arc, Mutex, PoisonError};

use dyad_index::snapshot::{Coverage, Shard};
use dyad_index::{Certificate, Snapshot, manifest};
use dyad_proto::v1;

use crate::error::{Error, Result};
use crate::leaves::GenerationShards;
use crate::plan::{IndexSize, SearchCost};
use crate::run::resources::pool::RequestClass;

/// Sets of shards for which a leaf keeps a part of a generation open: those that roots have asked for last.
const PARTS: usize = 512;

/// A part of the shards of a generation, by their numbers.
type OpenedPart = (Vec<usize>, Arc<Snapshot>);

/// A generation.
#[derive(Debug)]
pub struct ServedGeneration {
    name: v1::GenerationName,
    snapshot: Arc<Snapshot>,
    /// Its shards, where leaves hold them.
    on_leaves: Option<Arc<GenerationShards>>,
    /// What roots have asked for together, the last first.
    parts: Mutex<Vec<OpenedPart>>,
}

impl ServedGeneration {
    /// Of an index of this name.
    pub(in crate::run) fn new(index: &str, snapshot: Snapshot) -> Result<Self> {
        let generation = snapshot.manifest().generation;
        let bytes = fs_err::read(snapshot.index().join(manifest::manifest_name(generation)));
        let name = v1::GenerationName {
            index: index.to_owned(),
            generation,
            pointer: manifest::pointer_to(generation, &bytes.map_err(dyad_index::Error::from)?),
        };
        Ok(Self {
            name,
            snapshot: Arc::new(snapshot),
            on_leaves: None,
            parts: Mutex::default(),
        })
    }

    /// With its shards on leaves.
    pub(in crate::run) fn with_leaves(mut self, on_leaves: GenerationShards) -> Self {
        self.on_leaves = Some(Arc::new(on_leaves));
        self
    }

    /// How roots and leaves name it.
    pub fn name(&self) -> &v1::GenerationName {
        &self.name
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.name.generation
    }

    /// Its shards that are open here.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Its shards, where leaves hold them.
    pub(crate) fn on_leaves(&self) -> Option<&Arc<GenerationShards>> {
        self.on_leaves.as_ref()
    }

    /// Certificates of all shards, in the manifest's order.
    pub(crate) fn certificates(&self) -> Vec<&Certificate> {
        match &self.on_leaves {
            Some(on_leaves) => on_leaves.shards.iter().map(|shard| &shard.certificate).collect(),
            None => self.snapshot.shards().iter().map(Shard::certificate).collect(),
        }
    }

    /// What searches are of.
    pub fn coverage(&self) -> Coverage {
        match &self.on_leaves {
            Some(on_leaves) => on_leaves.coverage(),
            None => self.snapshot.coverage(),
        }
    }

    /// Why hits may be missing; none where no damage was found.
    pub fn damage(&self) -> Option<String> {
        match &self.on_leaves {
            Some(on_leaves) => on_leaves.first_damage(),
            None => self.snapshot.damage().map(|error| error.to_string()),
        }
    }

    /// What the cost of a search depends on, wherever the shards are.
    pub(in crate::run) fn size(&self) -> IndexSize {
        let here = IndexSize::from_snapshot(&self.snapshot);
        match &self.on_leaves {
            None => here,
            Some(on_leaves) => IndexSize {
                shards: on_leaves.shards.len().max(1) as u64,
                documents: on_leaves.coverage().documents,
                ..here
            },
        }
    }

    /// The threads and the request slots that a call has which costs this much for an index of a size. Where leaves
    /// hold the shards, little of that is done here, but a call that takes long has a slot as long.
    pub(in crate::run) fn class_of(&self, cost: impl FnOnce(IndexSize) -> SearchCost) -> RequestClass {
        let size = self.size();
        RequestClass::from_cost(cost(size).total(), size)
    }

    /// Refuses what is not answered where leaves hold the shards.
    pub(in crate::run) fn check_is_here(&self, what: &'static str) -> Result<()> {
        if self.on_leaves.is_some() {
            return Err(Error::NotOnLeaves(what));
        }
        Ok(())
    }

    /// Some of its shards, by their numbers in the manifest, which ascend. An error where one is not open here.
    pub(in crate::run) fn part(&self, numbers: &[usize]) -> Result<Arc<Snapshot>> {
        let held = self.snapshot.numbers();
        if numbers == held {
            return Ok(Arc::clone(&self.snapshot));
        }
        if let Some(absent) = numbers.iter().find(|number| held.binary_search(number).is_err()) {
            return Err(Error::NotHeld {
                index: self.name.index.clone(),
                generation: self.name.generation,
                shard: Some(*absent as u32),
            });
        }
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = parts.iter().position(|(known, _)| known == numbers) {
            let known = parts.remove(at);
            let part = Arc::clone(&known.1);
            parts.insert(0, known);
            return Ok(part);
        }
        let part = Arc::new(self.snapshot.part(numbers).ok_or(Error::Internal)?);
        parts.truncate(PARTS - 1);
        parts.insert(0, (numbers.to_vec(), Arc::clone(&part)));
        Ok(part)
    }
}
