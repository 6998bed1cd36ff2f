//! Which shards of a generation a process opens.

use std::path::Path;

use dyad_index::Snapshot;
use dyad_index::manifest::{self, Manifest, ShardEntry};
use dyad_index::snapshot::IndexMemory;

use super::placement::{ShardSize, place};

/// Which shards of a generation a process opens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HeldShards {
    /// All.
    #[default]
    All,
    /// None: leaves hold them.
    None,
    /// Those that are placed on a leaf.
    OfLeaf {
        /// Its name.
        name: String,
        /// The names of all leaves, its own among them.
        leaves: Vec<String>,
        /// Leaves that hold each shard.
        replicas: usize,
    },
}

impl HeldShards {
    /// Their numbers, ascending.
    pub(crate) fn numbers(&self, manifest: &Manifest) -> Vec<usize> {
        match self {
            Self::All => (0..manifest.shards.len()).collect(),
            Self::None => Vec::new(),
            Self::OfLeaf { name, leaves, replicas } => {
                let sizes: Vec<ShardSize> = manifest.shards.iter().map(size).collect();
                let own = leaves.iter().position(|leaf| leaf == name);
                let placed = place(&sizes, leaves, *replicas);
                let is_own = |of_shard: &Vec<usize>| own.is_some_and(|own| of_shard.contains(&own));
                (0..)
                    .zip(&placed)
                    .filter(|(_, of_shard)| is_own(of_shard))
                    .map(|(number, _)| number)
                    .collect()
            }
        }
    }

    /// Opens them of a generation, or of the current one; what is the same in another one is shared.
    pub(crate) fn open(
        &self,
        index: &Path,
        generation: Option<u64>,
        before: Option<&Snapshot>,
    ) -> dyad_index::Result<Snapshot> {
        match (self, generation) {
            (Self::All, None) => Snapshot::open_after(index, before),
            (_, generation) => {
                let wanted = match generation {
                    Some(generation) => manifest::load(index, generation)?,
                    None => manifest::current(index)?,
                };
                let numbers = self.numbers(&wanted);
                Snapshot::open_part(index, wanted, &numbers, before)
            }
        }
    }

    /// What they need of the memory.
    pub(crate) fn memory(&self, index: &Path, manifest: &Manifest) -> dyad_index::Result<IndexMemory> {
        IndexMemory::of_part(index, manifest, &self.numbers(manifest))
    }
}

/// A shard as it is placed: by the bytes of its own files, which stay the same as long as its name does.
fn size(entry: &ShardEntry) -> ShardSize {
    ShardSize {
        id: entry.id.clone(),
        bytes: entry.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes)),
    }
}
