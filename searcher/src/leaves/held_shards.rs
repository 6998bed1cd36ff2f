//! Which shards of a generation a process opens.

use std::collections::BTreeSet;
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
        /// The names of all leaves. Where there are several lists, as while the number of leaves changes, what is
        /// placed on the leaf by any of them is held.
        leaves: Vec<Vec<String>>,
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
                let placed = |leaves: &Vec<String>| placed_on(name, leaves, &sizes, *replicas);
                union(leaves.iter().map(placed))
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

/// All of some numbers, ascending.
fn union(all: impl Iterator<Item = Vec<usize>>) -> Vec<usize> {
    let numbers: BTreeSet<usize> = all.flatten().collect();
    numbers.into_iter().collect()
}

/// The numbers of the shards that are placed on one of these leaves; none where it is not among them.
fn placed_on(name: &str, leaves: &[String], shards: &[ShardSize], replicas: usize) -> Vec<usize> {
    let Some(own) = leaves.iter().position(|leaf| leaf == name) else {
        return Vec::new();
    };
    let placed = place(shards, leaves, replicas);
    let numbered = placed.iter().enumerate();
    let on_it = numbered.filter(|(_, of_shard)| of_shard.contains(&own));
    on_it.map(|(number, _)| number).collect()
}

/// A shard as it is placed: by the bytes of its own files, which stay the same as long as its name does.
fn size(entry: &ShardEntry) -> ShardSize {
    ShardSize {
        id: entry.id.clone(),
        bytes: entry.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("leaf-{number}")).collect()
    }

    /// One leaf after another restarts, with the shards of both placements, and then with those of the new one alone.
    #[test]
    fn no_shard_is_without_a_holder_while_the_number_of_leaves_changes() {
        let shard = |number: usize| ShardSize {
            id: format!("shard-{number}"),
            bytes: 1000,
        };
        let shards: Vec<ShardSize> = (0..20).map(shard).collect();
        for (before, after) in [(3, 5), (5, 2), (2, 3)] {
            let held = |number: usize, leaves: &[usize]| {
                let name = format!("leaf-{number}");
                union(leaves.iter().map(|count| placed_on(&name, &names(*count), &shards, 2)))
            };
            let count = before.max(after);
            let mut all: Vec<Vec<usize>> = (0..count).map(|number| held(number, &[before])).collect();
            for next in [&[before, after][..], &[after]] {
                for number in 0..count {
                    // It is away.
                    all[number].clear();
                    let missing = (0..20).find(|shard| !all.iter().any(|of_leaf| of_leaf.contains(shard)));
                    assert_eq!(
                        missing, None,
                        "{before} -> {after}, while leaf {number} restarts with {next:?}"
                    );
                    all[number] = held(number, next);
                }
            }
            let last: Vec<Vec<usize>> = (0..count).map(|number| held(number, &[after])).collect();
            assert_eq!(all, last);
        }
    }
}
