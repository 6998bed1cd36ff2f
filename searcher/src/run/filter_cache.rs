//! A cache of the nodes that filters allow, by generation and filter.

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

/// Generation and encoded filter.
type Key = (u64, Vec<u8>);

/// The nodes, and the opened generation that they were found in: the number alone may be given to another index at the same path.
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
        let (of, allowed) = self.cache.get(&(snapshot.manifest().generation, filter.to_vec()))?;
        std::ptr::eq(of.as_ptr(), Arc::as_ptr(snapshot)).then_some(allowed)
    }

    /// Keeps what a filter allows, in place of others.
    pub(super) fn insert(&self, snapshot: &Arc<Snapshot>, filter: &[u8], allowed: &Arc<AllowedNodes>) {
        let key = (snapshot.manifest().generation, filter.to_vec());
        self.cache.insert(key, (Arc::downgrade(snapshot), Arc::clone(allowed)));
    }

    /// Forgets all filters: another generation is served.
    pub(super) fn clear(&self) {
        self.cache.clear();
    }
}
