//! A cache of the nodes that filters allow, by opened generation and filter: those of all indexes, which share no entry.

use std::sync::{Arc, Weak};

use dyad_index::search::NodeSet;
use dyad_index::snapshot::Snapshot;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// What a filter allows in one generation.
#[derive(Debug)]
pub(super) struct AllowedNodes {
    /// By shard.
    pub(super) shards: Vec<NodeSet>,
    /// What the filter asks for that no document has.
    pub(super) notes: Vec<String>,
}

/// Address of the opened generation, and encoded filter. Numbers of generations are those of one index, and one that is opened again may be another.
type Key = (usize, Vec<u8>);

/// The nodes, and the opened generation that they were found in: no other has its address as long as this is held.
type Entry = (Weak<Snapshot>, Arc<AllowedNodes>);

#[derive(Debug, Clone)]
struct Bytes;

/// Bytes of an entry beyond filter, sets and notes, about.
const OVERHEAD: usize = 256;

impl Weighter<Key, Entry> for Bytes {
    fn weight(&self, (_, filter): &Key, (_, allowed): &Entry) -> u64 {
        let sets: usize = allowed.shards.iter().map(NodeSet::bytes).sum();
        let notes: usize = allowed.notes.iter().map(|note| note.len() + size_of::<String>()).sum();
        (filter.len() + sets + notes + OVERHEAD) as u64
    }
}

/// The filters that were used last and most often, within a number of bytes.
pub(super) struct FilterCache {
    cache: Cache<Key, Entry, Bytes>,
}

impl std::fmt::Debug for FilterCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (bytes, capacity) = (self.cache.weight(), self.cache.capacity());
        f.debug_struct("FilterCache").field("bytes", &bytes).field("capacity", &capacity).finish_non_exhaustive()
    }
}

impl FilterCache {
    /// None where `bytes` is 0.
    pub(super) fn new(bytes: usize) -> Option<Self> {
        let expected = (bytes / (1 << 14)).max(16);
        (bytes > 0).then(|| Self { cache: Cache::with_weighter(expected, bytes as u64, Bytes) })
    }

    /// What an encoded filter allows in a generation, if it is known.
    pub(super) fn get(&self, snapshot: &Arc<Snapshot>, filter: &[u8]) -> Option<Arc<AllowedNodes>> {
        self.cache.get(&(address(snapshot), filter.to_vec())).map(|(_, allowed)| allowed)
    }

    /// Keeps what a filter allows, in place of others.
    pub(super) fn insert(&self, snapshot: &Arc<Snapshot>, filter: &[u8], allowed: &Arc<AllowedNodes>) {
        self.cache.insert((address(snapshot), filter.to_vec()), (Arc::downgrade(snapshot), Arc::clone(allowed)));
    }

    /// Forgets what filters allow in a generation: another one of its index is served.
    pub(super) fn forget(&self, snapshot: &Arc<Snapshot>) {
        self.cache.retain(|(of, _), _| *of != address(snapshot));
    }
}

fn address(snapshot: &Arc<Snapshot>) -> usize {
    Arc::as_ptr(snapshot).addr()
}
