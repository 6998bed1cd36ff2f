//! What BM25 counts of a question's terms. Counts of parts of a corpus add up to those of the whole, wherever its
//! shards are, and weigh a question as the whole does.

use std::collections::HashMap;

use tantivy::Term;
use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::Field;

use super::{AnalyzedQuestion, TextShard, text_error};
use crate::error::{Error, Result};

/// Counts of one question's terms over some shards, or over some of their documents. Those of other shards are merged
/// into them; only then are the deleted documents subtracted, so that it does not matter how the shards are divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TermCounts {
    /// Documents, deleted ones among them.
    pub documents: u64,
    /// Of these, the deleted ones.
    pub deleted_documents: u64,
    /// Terms of all documents, each as often as it occurs.
    pub tokens: u64,
    /// Of these, those of deleted documents.
    pub deleted_tokens: u64,
    /// Documents that hold each term of the question, deleted ones among them. In the order of
    /// [`AnalyzedQuestion::terms`], a repeated term again; then, where the analyzer of earlier releases makes others of
    /// the question, in the order of those.
    pub frequencies: Vec<u64>,
    /// Of these, the deleted ones.
    pub deleted_frequencies: Vec<u64>,
    /// Whether the terms of any of the shards were made by the analyzer of earlier releases.
    pub has_first_analyzer: bool,
}

impl TermCounts {
    /// Of no documents.
    pub fn new(question: &AnalyzedQuestion) -> Self {
        let terms = question.terms_of_both().count();
        Self {
            documents: 0,
            deleted_documents: 0,
            tokens: 0,
            deleted_tokens: 0,
            frequencies: vec![0; terms],
            deleted_frequencies: vec![0; terms],
            has_first_analyzer: false,
        }
    }

    /// Adds the counts of other shards for the same question. An error where the numbers of terms differ: these are
    /// counts of another question, or of another release. The counts are then as they were.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        other.check_terms(self.frequencies.len())?;
        self.check_terms(self.frequencies.len())?;
        // Those of a corpus cannot overflow; what comes from elsewhere may be anything.
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.documents, other.documents);
        add(&mut self.deleted_documents, other.deleted_documents);
        add(&mut self.tokens, other.tokens);
        add(&mut self.deleted_tokens, other.deleted_tokens);
        let frequencies = self.frequencies.iter_mut().zip(&other.frequencies);
        let deleted = self.deleted_frequencies.iter_mut().zip(&other.deleted_frequencies);
        frequencies.chain(deleted).for_each(|(sum, more)| add(sum, *more));
        self.has_first_analyzer |= other.has_first_analyzer;
        Ok(())
    }

    /// An error where these are not the counts of so many terms.
    fn check_terms(&self, terms: usize) -> Result<()> {
        let (all, deleted) = (self.frequencies.len(), self.deleted_frequencies.len());
        if (all, deleted) == (terms, terms) {
            return Ok(());
        }
        Err(Error::Mismatch {
            what: "frequencies of a question's terms",
            expected: format!("{terms}, as many as it has terms, and as many of deleted documents"),
            got: format!("{all} and {deleted}"),
        })
    }
}

/// Statistics of the corpus for the terms of one question, without deleted documents. Other terms count as absent.
#[derive(Debug, Clone)]
pub(super) struct TermStatistics {
    documents: u64,
    tokens: u64,
    frequencies: HashMap<Term, u64>,
}

impl TermStatistics {
    /// What was counted in all shards of the corpus for the terms of this question; an error where it was counted for
    /// another one.
    pub(super) fn new(question: &AnalyzedQuestion, counts: &TermCounts) -> Result<Self> {
        counts.check_terms(question.terms_of_both().count())?;
        let documents = counts.documents.saturating_sub(counts.deleted_documents);
        let counted = counts.frequencies.iter().zip(&counts.deleted_frequencies);
        let frequencies = question.terms_of_both().zip(counted).map(|(term, (all, deleted))| {
            // Deletions of another shard could otherwise make more of them than there are documents.
            (term.clone(), all.saturating_sub(*deleted).min(documents))
        });
        Ok(Self {
            documents,
            tokens: counts.tokens.saturating_sub(counts.deleted_tokens),
            frequencies: frequencies.collect(),
        })
    }

    /// Documents of all shards that hold a term.
    pub(super) fn frequency(&self, term: &Term) -> u64 {
        self.frequencies.get(term).copied().unwrap_or(0)
    }

    /// Inverse document frequency, as BM25 has it: `ln(1 + (N - df + 0.5) / (df + 0.5))`.
    pub(super) fn inverse_frequency(&self, term: &Term) -> f32 {
        let (documents, frequency) = (self.documents as f64, self.frequency(term) as f64);
        ((documents - frequency + 0.5) / (frequency + 0.5)).ln_1p() as f32
    }

    /// Factor, at most 1, by which a threshold must be lowered so that no block is skipped wrongly.
    ///
    /// tantivy bounds a block by the document that scores best with the average length `a` of the *shard*; the scores
    /// here use the average `c` of the corpus. For any document the two differ by a factor between `min(1, c/a)` and
    /// `max(1, c/a)`, so a bound is too low by at most `max(a, c) / min(a, c)`. The rest covers sums of f32 in another
    /// order.
    pub(super) fn bound_slack(&self, shard: &TextShard) -> Result<f32> {
        const ROUNDING: f32 = 1.0 - 1e-5;
        let average = |provider: &dyn Bm25StatisticsProvider| -> tantivy::Result<f32> {
            Ok(provider.total_num_tokens(shard.fields.body)? as f32 / provider.total_num_docs()?.max(1) as f32)
        };
        let both = average(&shard.searcher).and_then(|shard| Ok((shard, average(self)?)));
        let (shard_average, corpus_average) = both.map_err(text_error(shard.path()))?;
        let (low, high) = (shard_average.min(corpus_average), shard_average.max(corpus_average));
        Ok(if high > 0.0 { low / high * ROUNDING } else { 0.0 })
    }
}

impl Bm25StatisticsProvider for TermStatistics {
    fn total_num_tokens(&self, _field: Field) -> tantivy::Result<u64> {
        Ok(self.tokens)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.documents)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        Ok(self.frequency(term))
    }
}
