//! A cache of the nodes that filters allow, by opened generation and filter: those of all indexes, which share no
//! entry.

use std::sync::{Arc, OnceLock, Weak};

use dyad_index::lexical::{CorpusStatistics, DocumentFilter};
use dyad_index::search::NodeSet;
use dyad_index::snapshot::Snapshot;
use dyad_proto::access::Caller;
use dyad_proto::v1;
use prost::Message as _;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::error::Result;
use crate::run::resources::cancellation::SearchCancellation;

/// What a filter allows in one generation.
#[derive(Debug)]
pub(in crate::run) struct AllowedNodes {
    /// The allowed nodes of each shard.
    pub(in crate::run) shards: Arc<[NodeSet]>,
    /// Notes on what the filter asks for that no document has.
    pub(in crate::run) notes: Vec<String>,
    statistics: OnceLock<CorpusStatistics>,
    /// The bytes that the sets take, and the lengths of documents among the statistics.
    bytes: usize,
}

impl AllowedNodes {
    /// What a filter allows, from the cache if it is known; and whether it was. One of a caller who may not see all
    /// documents may come to hold statistics of its documents.
    pub(in crate::run) fn find(
        filter: &DocumentFilter,
        encoded: &[u8],
        is_scoped: bool,
        snapshot: &Arc<Snapshot>,
        cache: Option<&FilterCache>,
        cancel: &SearchCancellation,
    ) -> Result<(Arc<Self>, bool)> {
        if let Some(known) = cache.and_then(|cache| cache.get(snapshot, encoded)) {
            return Ok((known, true));
        }
        let shards = snapshot
            .allowed(filter, cancel)?
            .ok_or_else(|| cancel.deadline_error())?;
        let notes = snapshot.filter_notes(filter)?;
        let sets = snapshot.shards().iter().zip(&shards);
        let of_sets: usize = sets.map(|(shard, set)| set.bytes(shard.dense.rows().dim())).sum();
        let passages = || snapshot.shards().iter().map(|shard| shard.dense.len()).sum::<usize>();
        let of_lengths = if is_scoped && snapshot.has_documents()? {
            passages() * size_of::<u32>()
        } else {
            0
        };
        let bytes = of_sets + of_lengths;
        let allowed = Arc::new(Self {
            shards: shards.into(),
            notes,
            statistics: OnceLock::new(),
            bytes,
        });
        if let Some(cache) = cache {
            cache.insert(snapshot, encoded, &allowed);
        }
        Ok((allowed, false))
    }

    /// BM25 statistics over these documents alone.
    pub(in crate::run) fn statistics(&self, snapshot: &Snapshot) -> Result<&CorpusStatistics> {
        if let Some(known) = self.statistics.get() {
            return Ok(known);
        }
        let counted = snapshot.statistics().within(Arc::clone(&self.shards))?;
        Ok(self.statistics.get_or_init(|| counted))
    }

    /// Documents that are allowed.
    pub(in crate::run) fn len(&self) -> u64 {
        self.shards.iter().map(|nodes| nodes.len() as u64).sum()
    }
}

/// A filter as the cache knows it: equal bytes are equal filters of one API key. Keys share no entry, so that neither
/// the time nor what a reply says of the cache tells what others have asked.
pub(in crate::run) fn cached_as(caller: &Caller, filter: &v1::Filter) -> Vec<u8> {
    encoded_for(caller.key_id(), filter)
}

/// The same for the API key of this id.
pub(in crate::run) fn encoded_for(key_id: &str, filter: &v1::Filter) -> Vec<u8> {
    let mut bytes = key_id.as_bytes().to_vec();
    bytes.push(0);
    filter.encode_raw(&mut bytes);
    bytes
}

/// Address of the opened generation, and encoded filter. Numbers of generations are those of one index, and one that is
/// opened again may be another.
type FilterCacheKey = (usize, Vec<u8>);

/// The nodes, and the opened generation that they were found in: no other has its address as long as this is held.
type CachedNodes = (Weak<Snapshot>, Arc<AllowedNodes>);

#[derive(Debug, Clone)]
struct FilterBytes;

/// Bytes of an entry beyond filter, sets and notes, about.
const OVERHEAD: usize = 256;

impl Weighter<FilterCacheKey, CachedNodes> for FilterBytes {
    fn weight(&self, key: &FilterCacheKey, nodes: &CachedNodes) -> u64 {
        let ((_, filter), (_, allowed)) = (key, nodes);
        let notes: usize = allowed.notes.iter().map(|note| note.len() + size_of::<String>()).sum();
        (filter.len() + allowed.bytes + notes + OVERHEAD) as u64
    }
}

/// The filters that were used last and most often, within a number of bytes.
pub(in crate::run) struct FilterCache {
    cache: Cache<FilterCacheKey, CachedNodes, FilterBytes>,
}

impl std::fmt::Debug for FilterCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (bytes, capacity) = (self.cache.weight(), self.cache.capacity());
        f.debug_struct("FilterCache")
            .field("bytes", &bytes)
            .field("capacity", &capacity)
            .finish_non_exhaustive()
    }
}

impl FilterCache {
    /// Bytes that are taken.
    pub(in crate::run) fn bytes(&self) -> u64 {
        self.cache.weight()
    }

    /// None where `bytes` is 0.
    pub(in crate::run) fn new(bytes: usize) -> Option<Self> {
        // The cache divides its bytes among parts by the number of its entries, and takes none that is larger than a
        // part: that of a filter may have 4 MiB for every shard.
        let expected = (bytes >> 20).max(16);
        (bytes > 0).then(|| Self {
            cache: Cache::with_weighter(expected, bytes as u64, FilterBytes),
        })
    }

    /// What an encoded filter allows in a generation, if it is known.
    fn get(&self, snapshot: &Arc<Snapshot>, filter: &[u8]) -> Option<Arc<AllowedNodes>> {
        self.cache
            .get(&(address(snapshot), filter.to_vec()))
            .map(|(_, allowed)| allowed)
    }

    /// Whether it is known what an encoded filter allows in a generation.
    pub(in crate::run) fn has(&self, snapshot: &Arc<Snapshot>, filter: &[u8]) -> bool {
        self.cache.contains_key(&(address(snapshot), filter.to_vec()))
    }

    /// Keeps what a filter allows, in place of others.
    fn insert(&self, snapshot: &Arc<Snapshot>, filter: &[u8], allowed: &Arc<AllowedNodes>) {
        self.cache.insert(
            (address(snapshot), filter.to_vec()),
            (Arc::downgrade(snapshot), Arc::clone(allowed)),
        );
    }

    /// Forgets what filters allow in a generation, of which its index serves another, and in those that are closed:
    /// requests that were under way may have kept something after the last time.
    pub(in crate::run) fn forget(&self, snapshot: &Arc<Snapshot>) {
        self.cache
            .retain(|(of, _), (opened, _)| *of != address(snapshot) && opened.strong_count() > 0);
    }
}

fn address(snapshot: &Arc<Snapshot>) -> usize {
    Arc::as_ptr(snapshot).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the number of cores is: an entry that is larger than a part of the cache would never be kept.
    #[test]
    fn the_default_cache_has_room_for_a_filter_of_many_documents() {
        let cache = FilterCache::new(64 << 20).unwrap();
        let shards = 4 * NodeSet::bytes_kept(1 << 16, 384) as u64;
        assert!(
            cache.cache.shard_capacity() > shards,
            "{} for {shards}",
            cache.cache.shard_capacity()
        );
    }
}
