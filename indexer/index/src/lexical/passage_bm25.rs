//! The best passages of a question by their own BM25 and that of their documents. Every passage of a matching document
//! is scored: no block of postings can be skipped by what it holds itself.

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::query::Bm25Weight;
use tantivy::schema::IndexRecordOption;

use super::bm25_candidates::Bm25Candidates;
use super::document_bm25::ShardDocumentScores;
use super::text_error;
use super::weighed::Weighed;
use crate::error::Result;
use crate::search::{Completeness, NodeSet, Scored, SearchHits};
use dyad_files::Cancel;

/// Nodes that are scored together: their scores stay in a core's cache.
const NODES_TOGETHER: usize = 1 << 15;
/// Documents of a whole block.
const BLOCK: usize = 128;

/// A term's postings, read up to some node.
struct PostingsCursor<'a> {
    postings: BlockSegmentPostings,
    at: usize,
    weight: &'a Bm25Weight,
}

impl PostingsCursor<'_> {
    /// Adds the term's part to the scores of the nodes from `start` on, as many as there are scores.
    fn add_to(&mut self, scores: &mut [f32], start: u32, norms: &FieldNormReader) {
        loop {
            let block = self.postings.docs().iter().zip(self.postings.freqs()).skip(self.at);
            for (node, frequency) in block {
                let Some(score) = scores.get_mut((node - start) as usize) else {
                    return;
                };
                *score += self.weight.score(norms.fieldnorm_id(*node), *frequency);
                self.at += 1;
            }
            if self.postings.block_len() < BLOCK {
                return;
            }
            self.postings.advance();
            self.at = 0;
        }
    }
}

impl Weighed<'_> {
    /// As [`Self::best`], by the sum of the passage's score and what its document adds. Passages without a term of the
    /// question have what their document adds.
    pub fn best_in_documents<'k>(
        &self,
        of_documents: ShardDocumentScores<'_>,
        k: usize,
        key: &'k dyn Fn(u32) -> &'k str,
        allowed: Option<&NodeSet>,
        cancel: &dyn Cancel,
    ) -> Result<SearchHits<Scored>> {
        if k == 0 {
            return Ok(SearchHits::default());
        }
        let mut candidates = Bm25Candidates::new(k);
        let take = |node, score| {
            if score >= candidates.least() && allowed.is_none_or(|allowed| allowed.contains(node)) {
                candidates.offer(Scored { node, score });
            }
        };
        let is_whole = self.each_in_documents(of_documents, take, cancel)?;
        let completeness = if is_whole {
            Completeness::Complete
        } else {
            Completeness::Cancelled
        };
        let mut hits = SearchHits {
            hits: candidates.into_close(),
            completeness,
            ..SearchHits::default()
        };
        hits.keep_top_k(k, |hit| hit.score, |hit| key(hit.node));
        Ok(hits)
    }

    /// Every passage of a shard that matches, or whose document does, with the score that [`Self::best_in_documents`]
    /// gives it, ascending. False where `cancel`, which is polled between terms and nodes, ended the work.
    pub fn each_in_documents(
        &self,
        of_documents: ShardDocumentScores<'_>,
        mut take: impl FnMut(u32, f32),
        cancel: &dyn Cancel,
    ) -> Result<bool> {
        let shard = of_documents.shard;
        let Some(segment) = shard.searcher.segment_readers().first() else {
            return Ok(true);
        };
        let (field, failed) = (shard.fields.body, text_error(shard.path()));
        let index = segment.inverted_index(field).map_err(&failed)?;
        let norms = segment.get_fieldnorms_reader(field).map_err(&failed)?;
        let mut cursors = Vec::new();
        for (term, weight) in self.weighed_terms(shard) {
            if cancel.is_cancelled() {
                return Ok(false);
            }
            if let Some(info) = index.get_term_info(term)? {
                let postings = index.read_block_postings_from_terminfo(&info, IndexRecordOption::WithFreqs)?;
                cursors.push(PostingsCursor {
                    postings,
                    at: 0,
                    weight,
                });
            }
        }
        let mut own = vec![0.0; NODES_TOGETHER.min(of_documents.documents.len())];
        for (number, documents) in of_documents.documents.chunks(NODES_TOGETHER).enumerate() {
            let start = (number * NODES_TOGETHER) as u32;
            let Some(own) = own.get_mut(..documents.len()) else {
                break;
            };
            own.fill(0.0);
            for cursor in &mut cursors {
                if cancel.is_cancelled() {
                    return Ok(false);
                }
                cursor.add_to(own, start, &norms);
            }
            for ((node, document), own) in (start..).zip(documents).zip(own) {
                let added = of_documents.of_document(*document);
                // A passage that counts and matches is in a document that does.
                if added > 0.0 {
                    take(node, *own + added);
                }
            }
        }
        Ok(true)
    }
}
