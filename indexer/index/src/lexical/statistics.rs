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
