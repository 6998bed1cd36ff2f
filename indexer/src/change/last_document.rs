//! Where documents of an index stand in those of which they are passages: the document that was read last is kept, for
//! the next passage is often of the same.

use dyad_corpus::PassagePlace;
use dyad_index::lexical::PlaceInDocument;
use dyad_index::snapshot::Shard;

use super::purged_texts::PurgedOfShard;

/// The document that was read last of those of which a generation holds passages: the next passage is often of the same
/// one.
#[derive(Default)]
pub(super) struct LastDocument {
    /// Shard and number of the document, and all of it.
    last: Option<((usize, u32), PassagePlace)>,
}

impl LastDocument {
    /// As [`Self::place`], where nothing is purged.
    pub(super) fn place_of_live(
        &mut self,
        number: usize,
        shard: &Shard,
        node: u32,
        text: &str,
    ) -> Result<Option<PassagePlace>, dyad_index::Error> {
        self.place(number, shard, node, text, &PurgedOfShard::default())
    }

    /// Where a document of the shard with this number, which has this text, stands in the one of which it is a passage;
    /// none where it is none.
    pub(super) fn place(
        &mut self,
        number: usize,
        shard: &Shard,
        node: u32,
        text: &str,
        purged: &PurgedOfShard<'_>,
    ) -> Result<Option<PassagePlace>, dyad_index::Error> {
        let Some(places) = &shard.places else { return Ok(None) };
        let Some(PlaceInDocument { document, bytes }) = places.get(node) else {
            return Ok(None);
        };
        let Some(document) = document else {
            return Ok(PassagePlace::whole(text).part(bytes));
        };
        if self.last.as_ref().is_none_or(|(last, _)| *last != (number, document)) {
            let is_kept = |node| shard.is_live(node) && !purged.has(shard, node);
            let text = places.text_without(document, &is_kept, purged.bytes_of(document))?;
            self.last = Some(((number, document), PassagePlace::whole(text)));
        }
        let part = self.last.as_ref().and_then(|(_, whole)| whole.part(bytes));
        // What is wrong is told by the reader of the files.
        if part.is_none() {
            places.place(node, &|_| true)?;
        }
        Ok(part)
    }
}
