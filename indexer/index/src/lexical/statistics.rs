//! Document count, lengths and document frequencies over all shards, so that a document's score does not depend on
//! the shard that it landed in.

use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::Field;
use tantivy::{Searcher, Term};

use super::TextShard;

/// Statistics of the whole corpus. Count and frequencies come from the same segments, so that no term can be in
/// more documents than there are (tantivy asserts it).
#[derive(Clone)]
pub struct CorpusStatistics {
    searchers: Vec<Searcher>,
}

impl std::fmt::Debug for CorpusStatistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CorpusStatistics").field("shards", &self.searchers.len()).finish()
    }
}

impl CorpusStatistics {
    /// Over these shards.
    pub fn new<'a>(shards: impl IntoIterator<Item = &'a TextShard>) -> Self {
        Self { searchers: shards.into_iter().map(|shard| shard.searcher.clone()).collect() }
    }

    /// Factor, at most 1, by which a threshold must be lowered so that no block is skipped wrongly.
    ///
    /// tantivy bounds a block by the document that scores best with the average length `a` of the *shard*; the scores
    /// here use the average `c` of the corpus. For any document the two differ by a factor between `min(1, c/a)` and
    /// `max(1, c/a)`, so a bound is too low by at most `max(a, c) / min(a, c)`. The rest covers sums of f32 in another
    /// order.
    pub(super) fn bound_slack(&self, shard: &TextShard) -> tantivy::Result<f32> {
        const ROUNDING: f32 = 1.0 - 1e-5;
        let average = |provider: &dyn Bm25StatisticsProvider| -> tantivy::Result<f32> {
            Ok(provider.total_num_tokens(shard.fields.body)? as f32 / provider.total_num_docs()?.max(1) as f32)
        };
        let (shard_average, corpus_average) = (average(&shard.searcher)?, average(self)?);
        let (low, high) = (shard_average.min(corpus_average), shard_average.max(corpus_average));
        Ok(if high > 0.0 { low / high * ROUNDING } else { 0.0 })
    }

    fn sum(&self, one: impl Fn(&Searcher) -> tantivy::Result<u64>) -> tantivy::Result<u64> {
        self.searchers.iter().map(one).sum()
    }
}

impl Bm25StatisticsProvider for CorpusStatistics {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.sum(|searcher| searcher.total_num_tokens(field))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        self.sum(Bm25StatisticsProvider::total_num_docs)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        self.sum(|searcher| Searcher::doc_freq(searcher, term))
    }
}
