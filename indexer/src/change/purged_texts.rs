//! Texts of purged passages, which stand in the documents of other passages too: in their own shard, and in others that
//! hold some of the same document.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use dyad_index::Snapshot;
use dyad_index::lexical::{PassagePlaces, PlaceInDocument};
use dyad_index::snapshot::Shard;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::Error;

/// Bytes of documents, by their numbers in a shard.
type BytesOfDocuments = HashMap<u32, Vec<Range<usize>>>;

/// The bytes of purged passages, by 128 bits of xxh3 of the documents in which they stand.
#[derive(Debug, Default)]
pub(super) struct PurgedTexts(HashMap<u128, Vec<Range<usize>>>);

/// What is purged of a shard.
#[derive(Debug, Default)]
pub(super) struct PurgedOfShard<'a> {
    /// Keys of purged documents.
    keys: Option<&'a BTreeSet<&'a str>>,
    bytes: BytesOfDocuments,
}

impl PurgedOfShard<'_> {
    /// Whether a node is purged.
    pub(super) fn has(&self, shard: &Shard, node: u32) -> bool {
        self.keys
            .is_some_and(|keys| keys.contains(shard.dense.keys().key(node)))
    }

    /// The bytes of a document that purged passages have, wherever these are.
    pub(super) fn bytes_of(&self, document: u32) -> &[Range<usize>] {
        self.bytes.get(&document).map_or(&[], Vec::as_slice)
    }
}

impl PurgedTexts {
    /// Of the documents with these keys that a generation holds, live or deleted.
    pub(super) fn find(base: &Snapshot, keys: &BTreeSet<&str>) -> Result<Self, Error> {
        let mut found: HashMap<u128, Vec<Range<usize>>> = HashMap::new();
        for shard in base.shards() {
            let Some(places) = &shard.places else { continue };
            for key in keys {
                let Some(node) = shard.dense.find(key)? else { continue };
                let Some(PlaceInDocument {
                    document: Some(document),
                    bytes,
                }) = places.get(node)
                else {
                    continue;
                };
                found.entry(digest(places, document)?).or_default().push(bytes);
            }
        }
        Ok(Self(found))
    }

    /// What is purged of a shard, without the documents of these keys.
    pub(super) fn of_shard<'a>(&self, shard: &Shard, keys: &'a BTreeSet<&'a str>) -> Result<PurgedOfShard<'a>, Error> {
        let keys = (!keys.is_empty()).then_some(keys);
        Ok(PurgedOfShard {
            keys,
            bytes: self.bytes_in(shard)?,
        })
    }

    /// Whether a shard holds a document in which a purged passage stands.
    pub(super) fn are_in(&self, shard: &Shard) -> Result<bool, Error> {
        Ok(!self.bytes_in(shard)?.is_empty())
    }

    fn bytes_in(&self, shard: &Shard) -> Result<BytesOfDocuments, Error> {
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
}

fn digest(places: &PassagePlaces, document: u32) -> Result<u128, Error> {
    Ok(xxh3_128(places.text(document)?.as_bytes()))
}
