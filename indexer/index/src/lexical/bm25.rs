//! The best documents of a question by Okapi BM25 (k1 1.2, b 0.75, Lucene's form), and explanations.
//!
//! `score(q, d) = sum over terms t of q: idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * |d| / avgdl))`
//! with `idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))`; lengths are stored in one byte, as Lucene does.

use tantivy::postings::Postings as _;
use tantivy::query::{BooleanQuery, EnableScoring, Explanation, Occur, Query, TermQuery, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet as _, Score, Term};

use super::bm25_candidates::Bm25Candidates;
use super::wand::{TermCursor, block_max_wand};
use super::weighed::{Weighed, WeighedTerms};
use super::{TextShard, text_error};
use crate::error::Result;
use crate::search::{Completeness, NodeSet, Scored, SearchHits};
use dyad_files::Cancel;

impl Weighed<'_> {
    /// The `k` best of the allowed documents of a shard, score descending, then key ascending; `key` returns the key of
    /// a node. Scores depend on the document and the statistics alone: terms are added up in the question's order.
    /// Blocks whose documents cannot be among them are skipped (block-max WAND). `cancel` is polled between terms and
    /// between blocks.
    pub fn best<'k>(
        &self,
        shard: &TextShard,
        k: usize,
        key: &'k dyn Fn(u32) -> &'k str,
        allowed: Option<&NodeSet>,
        cancel: &dyn Cancel,
    ) -> Result<SearchHits<Scored>> {
        let terms = &self.terms_for(shard).question.terms;
        if terms.is_empty() || k == 0 {
            return Ok(SearchHits::default());
        }
        let slack = self.statistics.bound_slack(shard)?;
        let mut candidates = Bm25Candidates::new(k);
        let mut take = |node, score| {
            if allowed.is_none_or(|allowed| allowed.contains(node)) {
                candidates.offer(Scored { node, score });
            }
            // Blocks whose bound is at or below the threshold are skipped; one that ties with the k-th best must be
            // scored.
            candidates.best.threshold().map_or(f32::MIN, |last| last.score * slack)
        };
        if cancel.is_cancelled() {
            return Ok(SearchHits::cancelled());
        }
        let quick = self.is_quick(self.terms_for(shard).postings, terms.len())
            || self.is_quick(self.postings(shard)?, terms.len());
        let whole = if quick {
            if let Some(segment) = shard.searcher.segment_readers().first() {
                let result = self.by_tantivy(shard)?.for_each_pruning(f32::MIN, segment, &mut take);
                result.map_err(text_error(shard.path()))?;
            }
            true
        } else {
            self.score_matches(shard, cancel, &mut take)?
        };
        let mut hits = candidates.into_close();
        // The sum of two does not depend on their order.
        if quick && terms.len() > 2 {
            hits.sort_unstable_by_key(|hit| hit.node);
            if !self.score(shard, &mut hits, cancel)? {
                return Ok(SearchHits::cancelled());
            }
        }
        let completeness = if whole {
            Completeness::Complete
        } else {
            Completeness::Cancelled
        };
        let mut hits = SearchHits {
            hits,
            completeness,
            ..SearchHits::default()
        };
        hits.keep_top_k(k, |hit| hit.score, |hit| key(hit.node));
        Ok(hits)
    }

    /// Sets the scores of documents, ascending by node, to those that [`Self::best`] gives them; 0 where no term
    /// matches. Returns whether it was not cancelled: `cancel` is polled between terms.
    pub fn score(&self, shard: &TextShard, hits: &mut [Scored], cancel: &dyn Cancel) -> Result<bool> {
        let Some(segment) = shard.searcher.segment_readers().first() else {
            return Ok(true);
        };
        let (field, failed) = (shard.fields.body, text_error(shard.path()));
        let index = segment.inverted_index(field).map_err(&failed)?;
        let norms = segment.get_fieldnorms_reader(field).map_err(&failed)?;
        for hit in &mut *hits {
            hit.score = 0.0;
        }
        let WeighedTerms { question, weights, .. } = self.terms_for(shard);
        for (term, weight) in question.terms.iter().zip(weights) {
            if cancel.is_cancelled() {
                return Ok(false);
            }
            let Some(info) = index.get_term_info(term)? else {
                continue;
            };
            let mut postings = index.read_postings_from_terminfo(&info, IndexRecordOption::WithFreqs)?;
            for hit in &mut *hits {
                if postings.doc() < hit.node {
                    postings.seek(hit.node);
                }
                if postings.doc() == hit.node {
                    hit.score += weight.score(norms.fieldnorm_id(hit.node), postings.term_freq());
                }
            }
        }
        Ok(true)
    }

    /// How exactly documents of a shard, ascending by node, have the words of the question, from 0 to 1: `c² / n`, with
    /// the share `c` of the question's idf that falls to the terms that the document holds, and the number `n` of
    /// documents that hold the rarest of these. 1 for the only document that holds the only word. None where `cancel`,
    /// which is polled between terms, cancelled it.
    pub fn exactness(&self, shard: &TextShard, nodes: &[u32], cancel: &dyn Cancel) -> Result<Option<Vec<f32>>> {
        let mut covered = vec![(0.0f32, u64::MAX); nodes.len()];
        let WeighedTerms {
            question,
            total_idf: total,
            ..
        } = self.terms_for(shard);
        let Some(segment) = shard.searcher.segment_readers().first().filter(|_| *total > 0.0) else {
            return Ok(Some(vec![0.0; nodes.len()]));
        };
        let index = segment
            .inverted_index(shard.fields.body)
            .map_err(text_error(shard.path()))?;
        for term in &question.terms {
            if cancel.is_cancelled() {
                return Ok(None);
            }
            let Some(info) = index.get_term_info(term)? else {
                continue;
            };
            let mut postings = index.read_postings_from_terminfo(&info, IndexRecordOption::Basic)?;
            let (idf, documents) = (self.statistics.inverse_frequency(term), self.statistics.frequency(term));
            for (node, (idf_held, fewest)) in nodes.iter().zip(&mut covered) {
                if postings.doc() < *node {
                    postings.seek(*node);
                }
                if postings.doc() == *node {
                    *idf_held += idf;
                    *fewest = documents.min(*fewest);
                }
            }
        }
        let exactness = |(idf_held, fewest): (f32, u64)| (idf_held / total).powi(2) / fewest.max(1) as f32;
        Ok(Some(covered.into_iter().map(exactness).collect()))
    }

    /// BM25 sum of one document, if any term matches, and its explanation as JSON.
    pub fn explain(&self, shard: &TextShard, node: u32) -> Result<Option<(f32, String)>> {
        let explained = self.explanation(shard, node)?;
        Ok(explained.map(|explanation| (explanation.value(), explanation.to_pretty_json())))
    }

    /// The same, to be read on.
    pub(super) fn explanation(&self, shard: &TextShard, node: u32) -> Result<Option<Explanation>> {
        let weight = self.by_tantivy(shard)?;
        let terms = &self.terms_for(shard).question.terms;
        let Some(segment) = shard.searcher.segment_readers().first().filter(|_| !terms.is_empty()) else {
            return Ok(None);
        };
        match weight.explain(segment, node) {
            Ok(explanation) => Ok(Some(explanation)),
            // tantivy's way to say that the document does not match.
            Err(tantivy::TantivyError::InvalidArgument(_)) => Ok(None),
            Err(error) => Err(text_error(shard.path())(error)),
        }
    }

    /// Every matching document of a shard with the score that [`Self::best`] gives it, ascending. False where `cancel`,
    /// which is polled between terms and between blocks, cancelled it.
    pub fn each(&self, shard: &TextShard, mut take: impl FnMut(u32, f32), cancel: &dyn Cancel) -> Result<bool> {
        self.score_matches(shard, cancel, &mut |node, score| {
            take(node, score);
            f32::MIN
        })
    }

    /// Calls `take` for matching documents, ascending, and skips blocks below the threshold that it returns. False
    /// where the work was cancelled.
    fn score_matches(
        &self,
        shard: &TextShard,
        cancel: &dyn Cancel,
        take: &mut dyn FnMut(DocId, Score) -> Score,
    ) -> Result<bool> {
        if cancel.is_cancelled() {
            return Ok(false);
        }
        // One segment, or none in a shard without documents.
        let Some(segment) = shard.searcher.segment_readers().first() else {
            return Ok(true);
        };
        let failed = text_error(shard.path());
        let field = shard.fields.body;
        let index = segment.inverted_index(field).map_err(&failed)?;
        let norms = segment.get_fieldnorms_reader(field).map_err(&failed)?;
        let WeighedTerms { question, weights, .. } = self.terms_for(shard);
        let mut cursors = Vec::with_capacity(weights.len());
        for (number, (term, weight)) in question.terms.iter().zip(weights).enumerate() {
            if cancel.is_cancelled() {
                return Ok(false);
            }
            if let Some(info) = index.get_term_info(term)? {
                let block = index.read_block_postings_from_terminfo(&info, IndexRecordOption::WithFreqs)?;
                cursors.push(TermCursor::new(number, block, weight));
            }
        }
        Ok(block_max_wand(cursors, &norms, cancel, take))
    }

    /// The same sum as computed by tantivy, up to the order of additions.
    pub(super) fn by_tantivy(&self, shard: &TextShard) -> Result<Box<dyn Weight>> {
        let clause = |term: &Term| {
            let query: Box<dyn Query> = Box::new(TermQuery::new(term.clone(), IndexRecordOption::WithFreqs));
            (Occur::Should, query)
        };
        let query = BooleanQuery::new(self.terms_for(shard).question.terms.iter().map(clause).collect());
        let scoring = EnableScoring::enabled_from_statistics_provider(&self.statistics, &shard.searcher);
        query.weight(scoring).map_err(text_error(shard.path()))
    }
}
