//! Statistics of whole documents for BM25: each is its passages together, of all shards.

use super::statistics::CorpusStatistics;
use super::{PassageDocuments, text_error};
use crate::cancel::Cancel;
use crate::error::Result;

/// Passages between two checks for cancellation.
const PASSAGES_BETWEEN_CHECKS: u32 = 1 << 16;

/// Number and lengths of the documents that have passages which count: those that are not deleted, or a part of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DocumentStatistics {
    documents: u64,
    tokens: u64,
    /// In terms, by number: the sums over the passages that count.
    lengths: Vec<u32>,
}

impl DocumentStatistics {
    /// Inverse document frequency of a term, as that of passages: `ln(1 + (N - df + 0.5) / (df + 0.5))`.
    pub(super) fn inverse_frequency(&self, holding: usize) -> f32 {
        let (documents, holding) = (self.documents as f64, holding as f64);
        ((documents - holding + 0.5) / (holding + 0.5)).ln_1p() as f32
    }

    /// Documents that count.
    pub(super) fn documents(&self) -> u64 {
        self.documents
    }

    /// Mean length in terms.
    pub(super) fn average_length(&self) -> f32 {
        self.tokens as f32 / self.documents.max(1) as f32
    }

    /// Length of a document in terms.
    pub(super) fn length(&self, document: u32) -> u32 {
        self.lengths.get(document as usize).copied().unwrap_or_default()
    }
}

impl CorpusStatistics {
    /// Adds the lengths of all passages that count; nothing where `cancel`, which is polled between passages, ended the work.
    pub(super) fn count_documents(
        &self,
        passages: &PassageDocuments,
        cancel: &dyn Cancel,
    ) -> Result<Option<DocumentStatistics>> {
        // With the document's length: whether it counts. A length alone may be 0.
        let mut lengths: Vec<Option<u32>> = vec![None; passages.len()];
        for (number, shard) in self.shards().iter().enumerate() {
            let Some(segment) = shard.searcher.segment_readers().first() else { continue };
            let norms = segment.get_fieldnorms_reader(shard.body).map_err(text_error(&shard.path))?;
            let length =
                |node| shard.lengths.as_ref().map_or_else(|| u64::from(norms.fieldnorm(node)), |all| all.of(node));
            let counted = self.counted(number);
            for (node, document) in (0_u32..).zip(passages.of_shard(number)) {
                if node.is_multiple_of(PASSAGES_BETWEEN_CHECKS) && cancel.is_cancelled() {
                    return Ok(None);
                }
                if counted.is_some_and(|counted| !counted.contains(node)) {
                    continue;
                }
                if let Some(sum) = lengths.get_mut(*document as usize) {
                    let own = u32::try_from(length(node)).unwrap_or(u32::MAX);
                    *sum = Some(sum.unwrap_or_default().saturating_add(own));
                }
            }
        }
        let counted = || lengths.iter().flatten();
        let (documents, tokens) = (counted().count() as u64, counted().map(|length| u64::from(*length)).sum());
        let lengths = lengths.iter().map(|length| length.unwrap_or_default()).collect();
        Ok(Some(DocumentStatistics { documents, tokens, lengths }))
    }
}
