//! The expected cost of a request: CPU time by stage, from its plan and the size of the index. It decides which threads
//! do the work, and how long what is ahead of another request takes. Only ratios matter: whoever waits multiplies by
//! how long jobs take on this machine.
//!
//! The constants are for one thread of a release build, rounded to one digit: the stage times that
//! `benches/workloads/search-costs.py` prints, over 60,000 documents with vectors of 64 values and texts of 60 words;
//! beams over 384 values are those of `search/planned.rs` of dyad-index (0.55 us for each node). BM25 is that of real
//! text: passages of 100 words, asked for with their own (nq-oracle, 22,600 passages), where nine of ten took less: 0.2
//! ms with 10 words, 2.7 with 80, 31 with 400. Where a stage takes longer for some questions than for others (BM25,
//! filters), they are for one that takes long.

use std::time::Duration;

use dyad_index::lexical::DocumentFilter;
use dyad_index::snapshot::{DenseParams, SearchMode, Snapshot};

use dyad_index::certificate::DEFAULT_EF;
use dyad_proto::v1::Mode;

use super::{DEFAULT_FUSION_DEPTH, SearchPlan, StoredFields};

/// Expanding one node of a beam, in nanoseconds, for each shard.
const EXPANSION_NS: u64 = 1_000;
/// The same for each value of a vector.
const EXPANSION_VALUE_NS: u64 = 2;
/// Comparing one value of a vector exactly, in thousandths of a nanosecond.
const EXACT_VALUE_PS: u64 = 200;
/// Scoring a document for one word of a short question.
const POSTING_NS: u64 = 1;
/// A question of this many words takes twice as long for each of them as a short one: WAND skips fewer documents.
const FEW_WORDS: u64 = 80;
/// A question of more words counts as one of this many.
const MOST_WORDS: u64 = 1_000;
/// A hit of a ranking: its place among the best, its key, and its part of the fusion.
const HIT_NS: u64 = 300;
/// The value of a hit by which it is grouped, from a column.
const VALUE_NS: u64 = 100;
/// Reading a stored document.
const DOCUMENT_NS: u64 = 7_000;
/// Choosing the snippet of one.
const SNIPPET_NS: u64 = 9_000;
/// Looking up one value of a filter in a shard.
const LOOKUP_NS: u64 = 2_000;
/// A document that has the value, or that `not` turns.
const BIT_NS: u64 = 2;
/// A document that a condition on many values reads: each may have a value of its own.
const CONDITION_NS: u64 = 400;

/// Fields of an ordinary document.
const ORDINARY_FIELDS: u64 = 8;
/// Words of an ordinary question.
const ORDINARY_WORDS: u64 = 8;
/// Hits of an ordinary answer.
const ORDINARY_HITS: u64 = 10;
/// A request is costly from this many times the cost of an ordinary one on: one that asks for ten hits in hybrid mode.
const COSTLY: u32 = 4;
/// And from this time on: below it nobody notices.
const LEAST_COSTLY: Duration = Duration::from_millis(2);

/// What the cost of a search depends on, next to its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexSize {
    /// Shards.
    pub shards: u64,
    /// Documents of all shards.
    pub documents: u64,
    /// Values of a vector.
    pub dim: u64,
}

/// The rankings of a search.
#[derive(Debug, Clone, Copy)]
pub struct RankedParts<'a> {
    /// What BM25 ranks by; absent where it does not.
    pub question: Option<&'a str>,
    /// The searches for vectors.
    pub searches: &'a [DenseParams],
    /// Hits of each ranking.
    pub depth: usize,
}

/// Expected CPU time of a search, by stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SearchCost {
    /// The filter.
    pub filter: Duration,
    /// BM25.
    pub text: Duration,
    /// Vectors.
    pub dense: Duration,
    /// Fusion, keys and documents.
    pub answer: Duration,
}

impl IndexSize {
    /// Of an open generation.
    pub fn from_snapshot(snapshot: &Snapshot) -> Self {
        let (shards, dim) = (snapshot.shards().len() as u64, snapshot.manifest().model.dim as u64);
        Self {
            shards: shards.max(1),
            documents: snapshot.len() as u64,
            dim,
        }
    }

    fn beam(self, ef: u64) -> u64 {
        // No beam expands more nodes than there are.
        let per_shard = ef.min(self.documents / self.shards + 1);
        self.shards * per_shard * (EXPANSION_NS + EXPANSION_VALUE_NS * self.dim)
    }

    fn dense(self, mode: SearchMode) -> u64 {
        match mode {
            SearchMode::Exact => self.scan(),
            SearchMode::Beam { ef } | SearchMode::Adaptive { ef } | SearchMode::Certified { ef, .. } => {
                self.beam(ef as u64)
            }
        }
    }

    /// What rankings cost, but for their filter and the documents of their hits.
    pub fn rankings(self, ranked: &RankedParts<'_>) -> SearchCost {
        let rankings = u64::from(!ranked.searches.is_empty()) + u64::from(ranked.question.is_some());
        let dense = ranked.searches.iter().map(|params| self.dense(params.mode)).sum();
        // As many as the analyser may find terms.
        let words = |question: &str| {
            let words = question.split(|letter: char| !letter.is_alphanumeric());
            words.filter(|word| !word.is_empty()).count() as u64
        };
        SearchCost {
            filter: Duration::ZERO,
            text: ranked
                .question
                .map_or(Duration::ZERO, |question| nanos(self.bm25(words(question)))),
            dense: nanos(dense),
            answer: nanos(rankings * ranked.depth as u64 * HIT_NS),
        }
    }

    fn scan(self) -> u64 {
        self.documents * self.dim * EXACT_VALUE_PS / 1_000
    }

    fn bm25(self, words: u64) -> u64 {
        let words = words.clamp(1, MOST_WORDS);
        self.documents * words * POSTING_NS * (FEW_WORDS + words) / FEW_WORDS
    }

    /// What a filter costs where it is not known.
    pub fn filter(self, filter: &DocumentFilter) -> Duration {
        nanos(self.filter_ns(filter))
    }

    fn filter_ns(self, filter: &DocumentFilter) -> u64 {
        let look_up = |values: &usize| *values as u64 * self.shards * LOOKUP_NS;
        match filter {
            DocumentFilter::All(all) | DocumentFilter::Any(all) => all.iter().map(|one| self.filter_ns(one)).sum(),
            DocumentFilter::Not(inner) => self.filter_ns(inner) + self.documents * BIT_NS,
            DocumentFilter::OneOf { values, .. } => look_up(&values.len()) + self.documents * BIT_NS,
            DocumentFilter::Keys(keys) => look_up(&keys.len()),
            DocumentFilter::Range { .. } | DocumentFilter::Exists { .. } | DocumentFilter::Prefix { .. } => {
                look_up(&1) + self.documents * CONDITION_NS
            }
        }
    }

    /// An ordinary request: ten hits in hybrid mode.
    pub fn ordinary(self) -> SearchCost {
        let (ef, depth) = (DEFAULT_EF as u64, DEFAULT_FUSION_DEPTH as u64);
        SearchCost {
            filter: Duration::ZERO,
            text: nanos(self.bm25(ORDINARY_WORDS)),
            dense: nanos(self.beam(ef)),
            answer: nanos(2 * depth * HIT_NS + ORDINARY_HITS * DOCUMENT_NS),
        }
    }

    /// What an explanation costs next to its search: it reads every vector, and every document that has a term of the
    /// question.
    pub fn explanation(self) -> SearchCost {
        SearchCost {
            text: nanos(self.bm25(ORDINARY_WORDS)),
            dense: nanos(self.scan()),
            ..SearchCost::default()
        }
    }

    /// A page of documents in the order of their keys. Where there is a filter, all others may have to be passed over.
    pub fn page(self, documents: usize, is_filtered: bool) -> SearchCost {
        let passed_over = if is_filtered { self.documents * BIT_NS } else { 0 };
        SearchCost {
            answer: nanos(documents as u64 * DOCUMENT_NS + passed_over),
            ..SearchCost::default()
        }
    }

    /// A list of the fields that documents have.
    pub fn fields(self) -> SearchCost {
        SearchCost {
            answer: nanos(self.documents * ORDINARY_FIELDS * CONDITION_NS),
            ..SearchCost::default()
        }
    }

    /// Whether a request takes much longer than an ordinary one.
    pub fn is_costly(self, cost: Duration) -> bool {
        cost > (self.ordinary().total() * COSTLY).max(LEAST_COSTLY)
    }
}

impl SearchCost {
    /// Of a plan for a question; its filter is known already where `filter_is_known`.
    pub fn estimate(plan: &SearchPlan, query: &str, size: IndexSize, filter_is_known: bool) -> Self {
        let filter = plan.filter.as_ref().filter(|_| !filter_is_known);
        let rankings = size.rankings(&RankedParts {
            question: plan.text_depth.map(|_| query),
            searches: plan.dense_searches(),
            depth: plan.depth(),
        });
        Self {
            filter: filter.map_or(Duration::ZERO, |filter| size.filter(filter)),
            answer: rankings.answer + nanos(documents_ns(plan)),
            ..rankings
        }
    }

    /// Of reading stored documents.
    pub fn of_documents(documents: usize) -> Self {
        Self {
            answer: nanos(documents as u64 * DOCUMENT_NS),
            ..Self::default()
        }
    }

    /// Of work that is one job, whatever its stages are.
    #[must_use]
    pub fn of_one_job(self) -> Self {
        Self {
            answer: self.total(),
            ..Self::default()
        }
    }

    /// Of one of several equal parts.
    #[must_use]
    pub fn part_of(self, parts: usize) -> Self {
        let part = |cost: Duration| cost / u32::try_from(parts.max(1)).unwrap_or(u32::MAX);
        Self {
            filter: part(self.filter),
            text: part(self.text),
            dense: part(self.dense),
            answer: part(self.answer),
        }
    }

    /// Of a job that makes the filter and BM25, and the answer where no dense part does.
    pub fn early(&self) -> Duration {
        self.filter
            + self.text
            + if self.dense.is_zero() {
                self.answer
            } else {
                Duration::ZERO
            }
    }

    /// Of a job that searches vectors and makes the answer.
    pub fn late(&self) -> Duration {
        self.dense + self.answer
    }

    /// Of all stages.
    pub fn total(&self) -> Duration {
        self.filter + self.text + self.dense + self.answer
    }
}

impl std::iter::Sum for SearchCost {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            filter: sum.filter + one.filter,
            text: sum.text + one.text,
            dense: sum.dense + one.dense,
            answer: sum.answer + one.answer,
        })
    }
}

/// Documents that are read: those of the answer, and those that are scored again; and the values of those that are
/// grouped.
fn documents_ns(plan: &SearchPlan) -> u64 {
    let lists = if plan.mode == Mode::Compare { 3 } else { 1 };
    let of_group = plan.group_by.as_ref().map_or(1, |by| by.hits as u64);
    let hits = plan.k as u64 * of_group * lists;
    let fields = if plan.fields == StoredFields::None {
        0
    } else {
        hits * DOCUMENT_NS
    };
    let snippets = if plan.snippet_bytes == 0 {
        0
    } else {
        hits * (DOCUMENT_NS + SNIPPET_NS)
    };
    let values = if plan.group_by.is_some() {
        plan.depth() as u64 * VALUE_NS
    } else {
        0
    };
    let surroundings = if plan.surrounding_bytes == 0 {
        0
    } else {
        2 * hits * DOCUMENT_NS
    };
    fields.max(snippets) + surroundings + plan.rerank_depth as u64 * DOCUMENT_NS + values
}

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests;
