//! The documents of a generation's passages, with the metadata of the generation: found when they are first asked for.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use super::{Snapshot, SnapshotColumns};
use crate::error::{Error, Result};
use crate::lexical::{
    ColumnValue, CorpusStatistics, DOCUMENT_FIELD, JointValues, MetadataUpdates, NO_DOCUMENT, PassageDocuments,
    TextShard, Weighed, WeighedDocuments, WholeValue,
};
use dyad_files::Cancel;

/// Passages between two checks for cancellation.
const PASSAGES_BETWEEN_CHECKS: u32 = 1 << 12;

/// Values that stored fields tell, by shard and node; none where a passage has no value.
type StoredDocuments = HashMap<(usize, u32), Option<WholeValue>>;

impl Snapshot {
    /// Which passages are of one document, by their metadata's field `document`. `cancel` is polled between passages.
    fn documents(&self, cancel: &dyn Cancel) -> Result<FoundDocuments> {
        let found = |documents: &Option<Arc<PassageDocuments>>| {
            documents
                .clone()
                .map_or(FoundDocuments::Absent, FoundDocuments::Documents)
        };
        if let Some(known) = self.documents.found.get() {
            return Ok(found(known));
        }
        // Nothing in it waits for another thread of a pool.
        let _alone = self.documents.finding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.documents.found.get() {
            return Ok(found(known));
        }
        let made = if self.has_documents()? {
            let Some(documents) = self.find_documents(cancel)? else {
                return Ok(FoundDocuments::Cancelled);
            };
            Some(Arc::new(documents))
        } else {
            None
        };
        Ok(found(self.documents.found.get_or_init(|| made)))
    }

    /// Whether any passage names its document: a look at the dictionaries.
    pub fn has_documents(&self) -> Result<bool> {
        if let Some(known) = self.documents.found.get() {
            return Ok(known.is_some());
        }
        for text in self.texts() {
            if text.has_field(DOCUMENT_FIELD)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What the documents of passages add to their scores for a question, with the statistics by which it was weighed;
    /// see [`Weighed::document_scores`]. Of a part of a generation, passages in the other shards count nowhere:
    /// documents with passages in several parts have other scores than in the whole.
    pub fn document_scores(
        &self,
        weighed: &Weighed<'_>,
        statistics: &CorpusStatistics,
        weight: f32,
        cancel: &dyn Cancel,
    ) -> Result<WeighedDocuments> {
        match self.documents(cancel)? {
            FoundDocuments::Absent => Ok(WeighedDocuments::Absent),
            FoundDocuments::Cancelled => Ok(WeighedDocuments::Cancelled),
            FoundDocuments::Documents(documents) => weighed.document_scores(statistics, &documents, weight, cancel),
        }
    }

    /// The text index of every shard, and after it that of its changed metadata, where it has any.
    fn texts(&self) -> impl Iterator<Item = &TextShard> {
        self.shards
            .iter()
            .flat_map(|shard| std::iter::once(&*shard.text).chain(shard.updates.as_deref().map(MetadataUpdates::text)))
    }

    fn find_documents(&self, cancel: &dyn Cancel) -> Result<Option<PassageDocuments>> {
        let Some(columns) = self.columns(DOCUMENT_FIELD, cancel)? else {
            return Ok(None);
        };
        let Some(stored) = self.stored_documents(&columns, cancel)? else {
            return Ok(None);
        };
        let texts: Vec<&TextShard> = self.texts().collect();
        let wanted = stored.values().flatten().cloned();
        let Some(joint) = JointValues::read(&texts, DOCUMENT_FIELD, wanted, cancel)? else {
            return Ok(None);
        };
        let (mut of_passages, mut text) = (Vec::with_capacity(self.shards.len()), 0);
        for (number, shard) in self.shards.iter().enumerate() {
            let own_values = columns.own_values(number);
            let value = |node: u32| match columns.value(number, node) {
                ColumnValue::Absent => None,
                ColumnValue::Stored => stored
                    .get(&(number, node))?
                    .as_ref()
                    .and_then(|value| joint.of_wanted(value)),
                ColumnValue::Shared(value) => match value.checked_sub(own_values) {
                    None => joint.of_column(text, value),
                    Some(of_updates) => joint.of_column(text + 1, of_updates),
                },
            };
            let passages = u32::try_from(shard.text.len()).unwrap_or(u32::MAX);
            of_passages.push((0..passages).map(|node| value(node).unwrap_or(NO_DOCUMENT)).collect());
            text += 1 + usize::from(shard.updates.is_some());
        }
        let passages = of_passages.iter().map(Vec::len).sum::<usize>();
        if passages >= NO_DOCUMENT as usize {
            let (expected, got) = (format!("below {NO_DOCUMENT}"), passages.to_string());
            return Err(Error::Mismatch {
                what: "passages of an index with documents",
                expected,
                got,
            });
        }
        Ok(Some(PassageDocuments::new(of_passages, joint.len())))
    }

    /// The documents of passages that only what is stored of them tells, by shard and node: of several the first.
    /// Nothing for passages without one.
    fn stored_documents(&self, columns: &SnapshotColumns, cancel: &dyn Cancel) -> Result<Option<StoredDocuments>> {
        let mut stored = HashMap::new();
        for (number, shard) in self.shards.iter().enumerate() {
            for node in 0..u32::try_from(shard.text.len()).unwrap_or(u32::MAX) {
                if node.is_multiple_of(PASSAGES_BETWEEN_CHECKS) && cancel.is_cancelled() {
                    return Ok(None);
                }
                if columns.value(number, node) == ColumnValue::Stored {
                    let value = shard.document(node)?.value(DOCUMENT_FIELD);
                    stored.insert((number, node), value.as_ref().map(WholeValue::from));
                }
            }
        }
        Ok(Some(stored))
    }
}

/// The documents of a generation.
enum FoundDocuments {
    Documents(Arc<PassageDocuments>),
    /// No passage names one.
    Absent,
    Cancelled,
}
