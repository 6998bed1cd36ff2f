//! The best documents of a question by Okapi BM25 (k1 1.2, b 0.75, Lucene's form), and why.
//!
//! `score(q, d) = sum over terms t of q: idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * |d| / avgdl))`
//! with `idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))`; lengths are stored in one byte, as Lucene does.

use std::cmp::Ordering;

use tantivy::Term;
use tantivy::query::{BooleanQuery, EnableScoring, Occur, Query, TermQuery, Weight};
use tantivy::schema::IndexRecordOption;

use super::schema::schema;
use super::{CorpusStatistics, TextShard, terms, text_error};
use crate::error::Result;
use crate::search::{NodeSet, TopK};

/// Documents scored between two looks at whether to stop.
const BETWEEN_LOOKS: u32 = 1024;

/// A question as terms.
#[derive(Debug)]
pub struct Question {
    terms: Vec<String>,
    query: BooleanQuery,
}

/// The best documents of a shard.
#[derive(Debug, Clone, Default)]
pub struct TextHits<'a> {
    /// Best first.
    pub hits: Vec<TextHit<'a>>,
    /// The search was told to stop before its end.
    pub stopped: bool,
}

/// A document and its BM25 sum. *Greater* means better: higher score, then smaller key.
#[derive(Debug, Clone, Copy)]
pub struct TextHit<'a> {
    /// BM25 sum.
    pub score: f32,
    /// Document key.
    pub key: &'a str,
    /// Document of the segment, which is the node of the vectors.
    pub node: u32,
}

impl Ord for TextHit<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.key.cmp(self.key))
    }
}

impl PartialOrd for TextHit<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for TextHit<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for TextHit<'_> {}

impl Question {
    /// Analyzes a question. A repeated word counts as often as it is asked.
    pub fn new(text: &str) -> Self {
        let (_, fields) = schema();
        let terms = terms(text);
        let clause = |term: &String| {
            let term = Term::from_field_text(fields.body, term);
            let query: Box<dyn Query> = Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs));
            (Occur::Should, query)
        };
        let query = BooleanQuery::new(terms.iter().map(clause).collect());
        Self { terms, query }
    }

    /// Terms after analysis, in order.
    pub fn terms(&self) -> &[String] {
        &self.terms
    }

    fn weight(&self, shard: &TextShard, statistics: &CorpusStatistics) -> Result<Box<dyn Weight>> {
        let scoring = EnableScoring::enabled_from_statistics_provider(statistics, &shard.searcher);
        self.query.weight(scoring).map_err(text_error(shard.path()))
    }

    /// The `k` best documents of a shard, of those that pass; `key` gives the key of a node. Blocks of documents that
    /// cannot get among them are skipped (block-max WAND). `stop` is asked now and then; true ends the search.
    #[expect(clippy::too_many_arguments, reason = "what, where, how many, among which, how long")]
    pub fn best<'a>(
        &self,
        shard: &TextShard,
        statistics: &CorpusStatistics,
        k: usize,
        key: impl Fn(u32) -> &'a str,
        passing: Option<&NodeSet>,
        stop: Option<&(dyn Fn() -> bool + Sync)>,
    ) -> Result<TextHits<'a>> {
        if self.terms.is_empty() || k == 0 {
            return Ok(TextHits::default());
        }
        let weight = self.weight(shard, statistics)?;
        let slack = statistics.bound_slack(shard).map_err(text_error(shard.path()))?;
        let mut best = TopK::new(k);
        let (mut seen, mut stopped) = (0u32, stop.is_some_and(|stop| stop()));
        for segment in shard.searcher.segment_readers() {
            let mut take = |node, score| {
                seen += 1;
                stopped = stopped || seen.is_multiple_of(BETWEEN_LOOKS) && stop.is_some_and(|stop| stop());
                if stopped {
                    // No block's bound is above it.
                    return f32::INFINITY;
                }
                if passing.is_none_or(|passing| passing.contains(node)) {
                    best.offer(TextHit { score, key: key(node), node });
                }
                // Blocks whose bound is at or below the threshold are skipped; one that ties with the last must be seen.
                best.floor().map_or(f32::MIN, |last| last.score * slack)
            };
            weight.for_each_pruning(f32::MIN, segment, &mut take).map_err(text_error(shard.path()))?;
        }
        Ok(TextHits { hits: best.drain_sorted(), stopped })
    }

    /// BM25 sum of one document, if any term matches, and its explanation as JSON.
    pub fn explain(
        &self,
        shard: &TextShard,
        statistics: &CorpusStatistics,
        node: u32,
    ) -> Result<Option<(f32, String)>> {
        let weight = self.weight(shard, statistics)?;
        let Some(segment) = shard.searcher.segment_readers().first().filter(|_| !self.terms.is_empty()) else {
            return Ok(None);
        };
        match weight.explain(segment, node) {
            Ok(explanation) => Ok(Some((explanation.value(), explanation.to_pretty_json()))),
            // tantivy's way to say that the document does not match.
            Err(tantivy::TantivyError::InvalidArgument(_)) => Ok(None),
            Err(error) => Err(text_error(shard.path())(error)),
        }
    }

    /// Every matching document of a shard with its score, in no order.
    pub fn each(&self, shard: &TextShard, statistics: &CorpusStatistics, mut take: impl FnMut(u32, f32)) -> Result<()> {
        if self.terms.is_empty() {
            return Ok(());
        }
        let weight = self.weight(shard, statistics)?;
        for segment in shard.searcher.segment_readers() {
            weight.for_each(segment, &mut take).map_err(text_error(shard.path()))?;
        }
        Ok(())
    }
}
