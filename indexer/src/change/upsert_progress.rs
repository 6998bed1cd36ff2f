//! What the passes over a batch have come to so far: counts, new shards, and what was relied on.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use dyad_index::manifest::Change;

use super::metadata::Changed;
use super::outcome::KeptRecords;
use super::passages::{Lengths, documents_of};
use super::staged::key_hash;
use crate::draft::{CompleteShard, DraftShard};

/// What the passes over a batch have come to so far.
#[derive(Default)]
pub(super) struct UpsertProgress {
    /// Counts of records.
    pub(super) change: Change,
    /// Passes that have begun.
    pub(super) passes: usize,
    /// Records that the passes have left as they were.
    pub(super) unchanged: u64,
    /// Of each pass that had documents to index: the shard, and the keys of its nodes.
    pub(super) shards: Vec<NewShard>,
    /// Records that the passes have indexed with the vectors that the index has.
    pub(super) moved: u64,
    /// New metadata of documents that keep their vectors.
    pub(super) changed: Changed,
    /// How many passages documents have.
    pub(super) lengths: Lengths,
    /// By [`key_hash`]: records that were left out because of what the index holds.
    pub(super) relied_on: HashSet<u128>,
    /// Keys of documents that could be those of passages, and whether the source has got them.
    pub(super) alike: BTreeMap<String, bool>,
}

/// The documents that one pass has indexed.
pub(super) struct NewShard {
    /// The key of each node.
    pub(super) keys: Vec<String>,
    /// None in a dry run, which builds nothing.
    pub(super) built: Option<Arc<CompleteShard>>,
}

impl UpsertProgress {
    /// The keys of all documents that were indexed.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.shards.iter().flat_map(|shard| &shard.keys).map(String::as_str)
    }

    /// Documents that were indexed, those that keep their vectors where they are not among them.
    pub(super) fn spooled(&self) -> u64 {
        self.shards.iter().map(|shard| shard.keys.len() as u64).sum()
    }

    /// Records whose documents the index had.
    pub(super) fn kept(&self) -> KeptRecords {
        KeptRecords {
            metadata: self.changed.keys().cloned().collect(),
            documents: self.relied_on.clone(),
        }
    }

    pub(super) fn new_shards(&self) -> Vec<DraftShard> {
        self.shards
            .iter()
            .filter_map(|shard| shard.built.as_ref())
            .map(DraftShard::built)
            .collect()
    }

    /// Whether a record was left out because of what the index held of this key, by itself, as passages, or as a whole.
    pub(super) fn relies_on(&self, key: &str) -> bool {
        let relied_on = |key: &str| self.relied_on.contains(&key_hash(key));
        documents_of(key).any(relied_on) || relied_on(&format!("{key}#0"))
    }
}
