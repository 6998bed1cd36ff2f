//! A question whose terms have their weights: their statistics in the corpus have been counted once, for all shards.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tantivy::Term;
use tantivy::query::Bm25Weight;

use super::analyzer::Analyzer;
use super::question::QuestionTerms;
use super::term_counts::{TermCounts, TermStatistics};
use super::{AnalyzedQuestion, CorpusStatistics, TextShard, text_error};
use crate::error::Result;
use crate::language::TextLanguage;
use dyad_files::Cancel;

/// tantivy's k1.
pub(super) const K1: f32 = 1.2;
/// tantivy's b.
pub(super) const B: f32 = 0.75;

/// Postings that are scored without a check for cancellation: some milliseconds. tantivy's own scorer, which never
/// checks, is up to a third faster on a question of few words, since it moves to a block without decoding it.
const QUICK_POSTINGS: u64 = 1 << 19;
/// Most postings times terms that are scored so: of thousands of terms tantivy sorts all after each document.
const QUICK_STEPS: u64 = 1 << 24;

/// A question whose terms have their weights: their statistics in the corpus have been counted once, for all shards.
pub struct Weighed<'a> {
    language: TextLanguage,
    current: WeighedTerms<'a>,
    /// For shards of earlier releases, where there are any and their terms are others.
    first: Option<WeighedTerms<'a>>,
    pub(super) statistics: TermStatistics,
    /// Most postings of the terms for which tantivy's own scorer is used.
    pub(super) quick: u64,
}

/// The terms of a question that shards of one analyzer are searched by.
pub(super) struct WeighedTerms<'a> {
    pub(super) question: &'a QuestionTerms,
    /// The weight of each term, in the order of the question's terms.
    pub(super) weights: Vec<Bm25Weight>,
    /// Documents of all shards that hold each term, added up.
    pub(super) postings: u64,
    /// The inverse document frequencies of the terms, added up.
    pub(super) total_idf: f32,
}

impl std::fmt::Debug for Weighed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Weighed")
            .field("terms", &self.current.question.words)
            .finish_non_exhaustive()
    }
}

impl AnalyzedQuestion {
    /// Looks the terms up in every shard. `cancel` is polled between terms; none where the work was cancelled.
    pub fn weigh(&self, corpus: &CorpusStatistics, cancel: &dyn Cancel) -> Result<Option<Weighed<'_>>> {
        match corpus.term_counts(self, cancel)? {
            Some(counts) => self.weigh_by(&counts, cancel),
            None => Ok(None),
        }
    }

    /// Weighs the terms by what was counted of them in all shards of a corpus, wherever these are. `cancel` is polled
    /// between terms; none where the work was cancelled. An error where the counts are of another number of terms.
    pub fn weigh_by(&self, counts: &TermCounts, cancel: &dyn Cancel) -> Result<Option<Weighed<'_>>> {
        let statistics = TermStatistics::new(self, counts)?;
        let first = self.first().filter(|_| counts.has_first_analyzer);
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
        let frequencies = question.terms.iter().map(|term| statistics.frequency(term));
        let postings = frequencies.fold(0, u64::saturating_add);
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
    pub(super) fn terms_for(&self, shard: &TextShard) -> &WeighedTerms<'_> {
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
        let QuestionTerms { words, terms } = self.terms_for(shard).question;
        words.iter().map(String::as_str).zip(terms)
    }

    /// The terms that a shard is searched by, with their weights.
    pub(super) fn weighed_terms(&self, shard: &TextShard) -> impl Iterator<Item = (&Term, &Bm25Weight)> {
        let WeighedTerms { question, weights, .. } = self.terms_for(shard);
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

    /// What no document's score reaches: the sum of `idf (k1 + 1)` over the question's terms.
    pub fn bound(&self) -> f32 {
        let of_first = self.first.as_ref().map_or(0.0, |first| first.total_idf);
        self.current.total_idf.max(of_first) * (K1 + 1.0)
    }

    /// Whether tantivy's own scorer is used for `terms` terms with this many postings.
    pub(super) fn is_quick(&self, postings: u64, terms: usize) -> bool {
        postings <= self.quick && postings.saturating_mul(terms as u64) <= QUICK_STEPS
    }

    /// Documents of a shard that hold each term, added up.
    pub(super) fn postings(&self, shard: &TextShard) -> Result<u64> {
        let Some(segment) = shard.searcher.segment_readers().first() else {
            return Ok(0);
        };
        let index = segment
            .inverted_index(shard.fields.body)
            .map_err(text_error(shard.path()))?;
        self.terms_for(shard)
            .question
            .terms
            .iter()
            .try_fold(0, |sum, term| Ok(sum + u64::from(index.doc_freq(term)?)))
    }
}
