//! The best documents of a question by Okapi BM25 (k1 1.2, b 0.75, Lucene's form), and explanations.
//!
//! `score(q, d) = sum over terms t of q: idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * |d| / avgdl))`
//! with `idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))`; lengths are stored in one byte, as Lucene does.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tantivy::Term;
use tantivy::postings::Postings as _;
use tantivy::query::{Bm25Weight, BooleanQuery, EnableScoring, Explanation, Occur, Query, TermQuery, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet as _, Score};

use super::analyzer::Analyzer;
use super::question::QuestionTerms;
use super::schema::schema;
use super::statistics::TermStatistics;
use super::wand::{TermCursor, block_max_wand};
use super::{AnalyzedQuestion, CorpusStatistics, TextShard, text_error};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::language::TextLanguage;
use crate::search::{Completeness, NodeSet, Scored, SearchHits, TopK};

/// Postings that are scored without a check for cancellation: some milliseconds. tantivy's own scorer, which never
/// checks, is up to a third faster on a question of few words, since it moves to a block without decoding it.
const QUICK_POSTINGS: u64 = 1 << 19;
/// And most postings times terms: of thousands of terms it sorts all after each document.
const QUICK_STEPS: u64 = 1 << 24;

/// A question whose terms have their weights: their statistics in the corpus have been looked up once, for all shards.
pub struct Weighed<'a> {
    language: TextLanguage,
    current: WeighedTerms<'a>,
    /// For shards of earlier releases, where there are any and their terms are others.
    first: Option<WeighedTerms<'a>>,
    statistics: TermStatistics,
    /// Most postings of the terms for which tantivy's own scorer is used.
    pub(super) quick: u64,
}

/// The terms of a question that shards of one analyzer are searched by.
struct WeighedTerms<'a> {
    question: &'a QuestionTerms,
    /// By term.
    weights: Vec<Bm25Weight>,
    /// Documents of all shards that hold each term, added up.
    postings: u64,
    /// The inverse document frequencies of the terms, added up.
    total_idf: f32,
}

impl std::fmt::Debug for Weighed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Weighed")
            .field("terms", &self.current.question.words)
            .finish_non_exhaustive()
    }
}

/// tantivy's k1.
pub(super) const K1: f32 = 1.2;
/// tantivy's b.
pub(super) const B: f32 = 0.75;

/// Share of the k-th best score that a document must reach to be scored once more. tantivy adds up the terms of a
/// document in an order that depends on the documents around it, and sums of f32 in another order differ by less than
/// this.
const CLOSE: f32 = 1.0 - 1e-5;
/// Documents kept before those that are not close are dropped.
const KEPT: usize = 1024;

/// The documents that may be among the `k` best.
pub(super) struct Bm25Candidates {
    best: TopK<Scored>,
    close: Vec<Scored>,
    compact_at: usize,
}

impl Bm25Candidates {
    pub(super) fn new(k: usize) -> Self {
        Self {
            best: TopK::new(k),
            close: Vec::new(),
            compact_at: 2 * k.min(KEPT) + KEPT,
        }
    }

    /// The least score that may be among the best.
    pub(super) fn least(&self) -> f32 {
        self.best.threshold().map_or(f32::MIN, |last| last.score * CLOSE)
    }

    pub(super) fn offer(&mut self, hit: Scored) {
        if hit.score < self.least() {
            return;
        }
        self.best.offer(hit);
        self.close.push(hit);
        if self.close.len() >= self.compact_at {
            self.compact();
            // Many may tie with the k-th best, and ties are kept.
            self.compact_at = 2 * self.close.len() + KEPT;
        }
    }

    fn compact(&mut self) {
        let least = self.least();
        self.close.retain(|hit| hit.score >= least);
    }

    /// Those that are close to the best.
    pub(super) fn into_close(mut self) -> Vec<Scored> {
        self.compact();
        self.close
    }
}

impl AnalyzedQuestion {
    /// Looks the terms up in every shard. `cancel` is polled between terms; none where the work was cancelled.
    pub fn weigh(&self, corpus: &CorpusStatistics, cancel: &dyn Cancel) -> Result<Option<Weighed<'_>>> {
        let (_, fields) = schema();
        let first = self.first().filter(|_| corpus.has_shards_of(Analyzer::First));
        let of_first = first.iter().flat_map(|first| &first.terms);
        let terms: Vec<Term> = self.current().terms.iter().chain(of_first).cloned().collect();
        let Some(statistics) = corpus.of(fields.body, &terms, cancel)? else {
            return Ok(None);
        };
        let Some(current) = WeighedTerms::new(self.current(), &statistics, cancel)? else {
            return Ok(None);
        };
        let first = match first {
            None => None,
            Some(first) => match WeighedTerms::new(first, &statistics, cancel)? {
                None => return Ok(None),
                weighed => weighed,
            },
        };
        Ok(Some(Weighed {
            language: self.language(),
            current,
            first,
            statistics,
            quick: QUICK_POSTINGS,
        }))
    }
}

impl<'a> WeighedTerms<'a> {
    fn new(question: &'a QuestionTerms, statistics: &TermStatistics, cancel: &dyn Cancel) -> Result<Option<Self>> {
        let mut made: HashMap<&Term, Bm25Weight> = HashMap::new();
        let mut weights = Vec::with_capacity(question.terms.len());
        for term in &question.terms {
            if cancel.is_cancelled() {
                return Ok(None);
            }
            let weight = match made.entry(term) {
                Entry::Occupied(made) => made.into_mut(),
                Entry::Vacant(free) => {
                    let weight = Bm25Weight::for_terms(statistics, std::slice::from_ref(term));
                    free.insert(weight.map_err(std::io::Error::other)?)
                }
            };
            weights.push(weight.clone());
        }
        let postings = question.terms.iter().map(|term| statistics.frequency(term)).sum();
        let inverse_frequency = |term| statistics.inverse_frequency(term);
        let total_idf = question.terms.iter().map(inverse_frequency).sum();
        Ok(Some(Self {
            question,
            weights,
            postings,
            total_idf,
        }))
    }
}

impl Weighed<'_> {
    /// The analyzer of its terms.
    pub(super) fn analyzer(&self) -> Analyzer {
        Analyzer::Of(self.language)
    }

    /// The terms that a shard is searched by.
    fn of(&self, shard: &TextShard) -> &WeighedTerms<'_> {
        match (&self.first, shard.analyzer) {
            (Some(first), Analyzer::First) => first,
            _ => &self.current,
        }
    }

    /// The terms of the question; and those for shards of earlier releases, where there are any and their terms are
    /// others.
    pub(super) fn terms(&self) -> (&[Term], Option<&[Term]>) {
        (
            &self.current.question.terms,
            self.first.as_ref().map(|first| first.question.terms.as_slice()),
        )
    }

    /// The terms that a shard is searched by, with their words.
    pub(super) fn words_of(&self, shard: &TextShard) -> impl Iterator<Item = (&str, &Term)> {
        let QuestionTerms { words, terms } = self.of(shard).question;
        words.iter().map(String::as_str).zip(terms)
    }

    /// The terms that a shard is searched by, with their weights.
    pub(super) fn weighed_terms(&self, shard: &TextShard) -> impl Iterator<Item = (&Term, &Bm25Weight)> {
        let WeighedTerms { question, weights, .. } = self.of(shard);
        question.terms.iter().zip(weights)
    }

    /// The terms and their inverse document frequencies.
    pub(super) fn inverse_frequencies(&self) -> impl Iterator<Item = (&str, f32)> {
        let QuestionTerms { words, terms } = self.current.question;
        words
            .iter()
            .zip(terms)
            .map(|(word, term)| (word.as_str(), self.statistics.inverse_frequency(term)))
    }

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
        let terms = &self.of(shard).question.terms;
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
        let is_quick =
            |postings: u64| postings <= self.quick && postings.saturating_mul(terms.len() as u64) <= QUICK_STEPS;
        let quick = is_quick(self.of(shard).postings) || is_quick(self.postings(shard)?);
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

    /// What no document's score reaches: the sum of `idf (k1 + 1)` over the question's terms.
    pub fn bound(&self) -> f32 {
        let of_first = self.first.as_ref().map_or(0.0, |first| first.total_idf);
        self.current.total_idf.max(of_first) * (K1 + 1.0)
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
        let WeighedTerms { question, weights, .. } = self.of(shard);
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
        } = self.of(shard);
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
        let terms = &self.of(shard).question.terms;
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

    /// Documents of a shard that hold each term, added up.
    fn postings(&self, shard: &TextShard) -> Result<u64> {
        let Some(segment) = shard.searcher.segment_readers().first() else {
            return Ok(0);
        };
        let index = segment
            .inverted_index(shard.fields.body)
            .map_err(text_error(shard.path()))?;
        self.of(shard)
            .question
            .terms
            .iter()
            .try_fold(0, |sum, term| Ok(sum + u64::from(index.doc_freq(term)?)))
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
        let WeighedTerms { question, weights, .. } = self.of(shard);
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
        let query = BooleanQuery::new(self.of(shard).question.terms.iter().map(clause).collect());
        let scoring = EnableScoring::enabled_from_statistics_provider(&self.statistics, &shard.searcher);
        query.weight(scoring).map_err(text_error(shard.path()))
    }
}
