//! The live documents of a generation, read from its shards as if they were a batch of a corpus.

use dyad_corpus::{Document, Located, Metadata};
use dyad_index::Snapshot;

use super::difference::live_nodes;
use super::last_document::LastDocument;
use crate::source::DocumentBatch;

/// The live documents of a generation, by shard and node.
pub(super) fn live_places(base: &Snapshot) -> impl Iterator<Item = (usize, u32)> + '_ {
    let shards = base.shards().iter().enumerate();
    shards.flat_map(|(at, shard)| live_nodes(shard).map(move |node| (at, node)))
}

/// Documents of a generation as they are stored.
pub(super) struct StoredBatch<'a> {
    base: &'a Snapshot,
    places: Box<dyn Iterator<Item = (usize, u32)> + 'a>,
    /// Of titles and texts so far.
    pub(super) bytes: u64,
    documents: LastDocument,
}

impl<'a> StoredBatch<'a> {
    pub(super) fn from_live(base: &'a Snapshot) -> Self {
        Self {
            base,
            places: Box::new(live_places(base)),
            bytes: 0,
            documents: LastDocument::default(),
        }
    }

    pub(super) fn from_places(base: &'a Snapshot, places: Vec<(usize, u32)>) -> Self {
        Self {
            base,
            places: Box::new(places.into_iter()),
            bytes: 0,
            documents: LastDocument::default(),
        }
    }

    fn document(&mut self, shard: usize, node: u32) -> std::io::Result<Document> {
        let stored = self.base.document(shard, node).map_err(std::io::Error::other)?;
        let of = self.base.shards().get(shard);
        let place = of.map(|of| self.documents.place_of_live(shard, of, node, &stored.text));
        let place = place.transpose().map_err(std::io::Error::other)?.flatten();
        let metadata = Metadata::of_stored(stored.metadata_json);
        Ok(Document {
            key: stored.key,
            title: stored.title,
            text: stored.text,
            metadata,
            place,
        })
    }
}

impl Iterator for StoredBatch<'_> {
    type Item = Result<Located<Document>, dyad_corpus::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (shard, node) = self.places.next()?;
        let document = self.document(shard, node).map_err(dyad_corpus::Error::from);
        Some(document.map(|value| {
            self.bytes += (value.title.len() + value.text.len()) as u64;
            Located {
                value,
                line: u64::from(node) + 1,
            }
        }))
    }
}

impl DocumentBatch for StoredBatch<'_> {
    fn text_bytes(&self) -> Option<u64> {
        None
    }

    fn file_bytes(&self) -> Option<u64> {
        None
    }

    fn bytes_read(&self) -> u64 {
        self.bytes
    }
}
