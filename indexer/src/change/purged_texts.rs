//! Texts of purged passages, which stand in the documents of other passages too: in their own shard, and in others that hold some of the same document.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use dyad_index::Snapshot;
use dyad_index::lexical::{GoneText, PlaceInDocument, Places};
use dyad_index::snapshot::Shard;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::Error;

/// The bytes of purged passages, by 128 bits of xxh3 of the documents in which they stand.
#[derive(Debug, Default)]
pub(super) struct PurgedTexts(HashMap<u128, Vec<Range<usize>>>);

impl PurgedTexts {
    /// Of the documents with these keys that a generation holds, live or deleted.
    pub(super) fn of(base: &Snapshot, keys: &BTreeSet<&str>) -> Result<Self, Error> {
        let mut found: HashMap<u128, Vec<Range<usize>>> = HashMap::new();
        for shard in base.shards() {
            let Some(places) = &shard.places else { continue };
            for key in keys {
                let Some(node) = shard.dense.find(key)? else { continue };
                let Some(PlaceInDocument { document: Some(document), bytes }) = places.of(node) else { continue };
                found.entry(digest(places, document)?).or_default().push(bytes);
            }
        }
        Ok(Self(found))
    }

    /// The documents of a shard in which purged passages stand, and their bytes.
    fn in_shard(&self, shard: &Shard) -> Result<HashMap<u32, Vec<Range<usize>>>, Error> {
        let mut found = HashMap::new();
        let places = shard.places.as_ref().filter(|_| !self.0.is_empty());
        let Some(places) = places else { return Ok(found) };
        for document in 0..places.documents() as u32 {
            if let Some(bytes) = self.0.get(&digest(places, document)?) {
                found.insert(document, bytes.clone());
            }
        }
        Ok(found)
    }

    /// Whether a shard holds a document in which a purged passage stands.
    pub(super) fn are_in(&self, shard: &Shard) -> Result<bool, Error> {
        Ok(!self.in_shard(shard)?.is_empty())
    }

    /// What is not read any more of a shard's documents, without the documents of these keys.
    pub(super) fn gone_of(&self, shard: &Shard, without: &BTreeSet<&str>) -> Result<GoneText, Error> {
        let Some(places) = &shard.places else { return Ok(GoneText::default()) };
        let keys = shard.dense.keys();
        let is_gone = |node| !shard.is_live(node) || without.contains(keys.key(node));
        Ok(places.gone(shard.dense.len() as u32, is_gone, self.in_shard(shard)?))
    }
}

fn digest(places: &Places, document: u32) -> Result<u128, Error> {
    Ok(xxh3_128(places.text(document)?.as_bytes()))
}
