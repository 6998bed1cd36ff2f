//! An open generation: the vectors and texts of all its shards, searched together.
//!
//! | file | contents |
//! |---|---|
//! | `open.rs` | a generation, or a part of it, is opened |
//! | `shard.rs` | one shard: opened, or shared with another generation; without its deleted documents |
//! | `dense_search.rs` | the nearest vectors of all shards |
//! | `small_shards.rs` | shards that are searched after the others |
//! | `columns.rs` | which documents have the same value of a field |
//! | `documents.rs` | which passages are of one document |
//! | `shared_documents.rs` | what of that generations with the same shards share |
//! | `sample.rs` | documents chosen at random |
//! | `key_order.rs` | documents in the order of their keys |
//! | `fields.rs` | the fields that documents have |
//! | `memory.rs` | what it needs of the memory |

mod columns;
mod dense_search;
mod documents;
mod fields;
mod key_order;
mod memory;
mod open;
mod sample;
mod shard;
mod shared_documents;
mod small_shards;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use shared_documents::SharedDocuments;

use crate::error::{Error, Result};
use crate::fusion::FusionRecord;
use crate::lexical::{
    AnalyzedQuestion, CorpusStatistics, DocumentFilter, DocumentScores, StoredDocument, StoredPlace, Weighed,
};
use crate::manifest::{Manifest, ReaderLock, ShardEntry};
use crate::reranking::RerankRecord;
use crate::search::{Completeness, NodeSet, Scored, SearchHits};
use dyad_files::Cancel;

pub use columns::SnapshotColumns;
pub use fields::FieldListing;
pub use key_order::{KeyPage, KeyedDocument};
pub use memory::IndexMemory;
pub use shard::{DenseParams, SearchMode, Shard};
pub use small_shards::{ShardRound, SmallShards, kth_score};

/// One generation, or some of its shards, which are a part of it. Immutable: readers share it and drop it when they are
/// done. As long as it is open, `dyad-indexer gc` leaves its files where they are.
#[derive(Debug)]
pub struct Snapshot {
    index: PathBuf,
    manifest: Arc<Manifest>,
    /// Positions of the shards in the manifest, ascending.
    numbers: Vec<usize>,
    shards: Vec<Shard>,
    statistics: CorpusStatistics,
    fusion: Option<FusionRecord>,
    reranking: Option<RerankRecord>,
    documents: Arc<SharedDocuments>,
    lock: Arc<ReaderLock>,
}

/// A document and its score. Its key is [`Snapshot::key`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DocumentHit {
    /// Inner product or BM25.
    pub score: f32,
    /// Shard of the snapshot: its position in [`Snapshot::shards`].
    pub shard: usize,
    /// Node of the shard.
    pub node: u32,
}

/// The part of an index that is searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Documents that are not deleted.
    pub documents: u64,
    /// All shards that are opened.
    pub shards: u32,
    /// Shards in which damage was found so far.
    pub damaged_shards: u32,
    /// Documents of the others.
    pub intact_documents: u64,
}

impl Snapshot {
    /// The index's directory.
    pub fn index(&self) -> &Path {
        &self.index
    }

    /// The manifest of the generation, with all of its shards, whether they are opened or not.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The shards that are opened, in the manifest's order.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The number of each opened shard: its position in the manifest.
    pub fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    /// The shards that are opened, each after its entry in the manifest.
    pub fn entries(&self) -> impl Iterator<Item = (&ShardEntry, &Shard)> {
        let entries = self
            .numbers
            .iter()
            .filter_map(|number| self.manifest.shards.get(*number));
        entries.zip(&self.shards)
    }

    /// A question as its BM25 analyses it.
    pub fn question(&self, text: &str) -> AnalyzedQuestion {
        AnalyzedQuestion::new(self.manifest.language, text)
    }

    /// BM25 statistics over the shards that are opened. Of a part, [`CorpusStatistics::term_counts`] are merged with
    /// those of the others, and questions weighed by [`AnalyzedQuestion::weigh_by`].
    pub fn statistics(&self) -> &CorpusStatistics {
        &self.statistics
    }

    /// How its two rankings are fused, where that was learned.
    pub fn fusion(&self) -> Option<&FusionRecord> {
        self.fusion.as_ref()
    }

    /// What the cross encoder with this fingerprint has brought it, where that was measured.
    pub fn reranking(&self, reranker_fingerprint: &str) -> Option<&RerankRecord> {
        self.reranking
            .as_ref()
            .filter(|record| record.is_of(reranker_fingerprint))
    }

    /// Documents that are not deleted.
    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// No documents at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The live nodes that a filter allows, one set per shard in their order; none where the work was cancelled.
    pub fn allowed(&self, filter: &DocumentFilter, cancel: &dyn Cancel) -> Result<Option<Vec<NodeSet>>> {
        self.shards
            .par_iter()
            .map(|shard| shard.allowed(filter, cancel))
            .collect()
    }

    /// Notes on fields and types of a filter that no document has: see [`DocumentFilter::notes`].
    pub fn filter_notes(&self, filter: &DocumentFilter) -> Result<Vec<String>> {
        let updates = self
            .shards
            .iter()
            .filter_map(|shard| shard.updates.as_ref())
            .map(|updates| updates.text());
        filter.notes(
            &self
                .shards
                .iter()
                .map(|shard| &*shard.text)
                .chain(updates)
                .collect::<Vec<_>>(),
        )
    }

    /// The same of stored fields that are asked for by name.
    pub fn field_notes(&self, fields: &[String]) -> Result<Vec<String>> {
        let exists = |field: &String| DocumentFilter::Exists { field: field.clone() };
        self.filter_notes(&DocumentFilter::Any(fields.iter().map(exists).collect()))
    }

    /// Checks that there is one set per shard.
    fn check_allowed(&self, allowed: Option<&[NodeSet]>) -> Result<()> {
        if let Some(allowed) = allowed.filter(|allowed| allowed.len() != self.shards.len()) {
            let (expected, got) = (self.shards.len().to_string(), allowed.len().to_string());
            return Err(Error::Mismatch {
                what: "filter's sets, one per shard",
                expected,
                got,
            });
        }
        Ok(())
    }

    /// The `k` best of all shards by BM25, with [`Self::statistics`] of the whole corpus, whatever part of it is
    /// allowed, or with those of a part. `allowed` as in [`Self::search_dense`].
    pub fn search_text(
        &self,
        question: &AnalyzedQuestion,
        k: usize,
        allowed: Option<&[NodeSet]>,
        statistics: &CorpusStatistics,
        cancel: &dyn Cancel,
    ) -> Result<SearchHits<DocumentHit>> {
        match question.weigh(statistics, cancel)? {
            Some(weighed) => self.search_weighed(&weighed, None, k, allowed, cancel),
            None => Ok(SearchHits::cancelled()),
        }
    }

    /// The same for a question whose terms have been looked up, with what the documents of passages add to their
    /// scores, where they do.
    pub fn search_weighed(
        &self,
        weighed: &Weighed<'_>,
        documents: Option<&DocumentScores>,
        k: usize,
        allowed: Option<&[NodeSet]>,
        cancel: &dyn Cancel,
    ) -> Result<SearchHits<DocumentHit>> {
        self.check_allowed(allowed)?;
        let one = |(at, shard): (usize, &Shard)| {
            let (keys, allowed) = (shard.dense.keys(), allowed.and_then(|all| all.get(at)).or(shard.live()));
            let key = |node| keys.key(node);
            match documents.map(|documents| documents.of_shard(at, &shard.text)) {
                Some(scores) => weighed.best_in_documents(scores, k, &key, allowed, cancel),
                None => weighed.best(&shard.text, k, &key, allowed, cancel),
            }
        };
        let found: Vec<_> = self.shards.par_iter().enumerate().map(one).collect::<Result<_>>()?;
        Ok(self.merge(found.into_iter().enumerate(), k))
    }

    /// The hits of shards, by their positions, as one ranking: score descending, then key ascending.
    fn merge(&self, shards: impl Iterator<Item = (usize, SearchHits<Scored>)>, k: usize) -> SearchHits<DocumentHit> {
        let mut all = SearchHits::default();
        for (shard, found) in shards {
            all.append(found, |Scored { node, score }| DocumentHit { score, shard, node });
        }
        if self.shards.iter().any(|shard| shard.dense.is_damaged()) {
            all.worsen(Completeness::Damaged);
        }
        self.keep_top_k(&mut all, k);
        all
    }

    /// Keeps the best `k`, ties broken by key.
    fn keep_top_k(&self, hits: &mut SearchHits<DocumentHit>, k: usize) {
        let key = |hit: &DocumentHit| self.key(hit.shard, hit.node).unwrap_or_default();
        hits.keep_top_k(k, |hit| hit.score, key);
    }

    /// The key of a document; none where the keys are damaged, which is recorded as [`Self::damage`].
    pub fn key(&self, shard: usize, node: u32) -> Option<&str> {
        self.shards.get(shard)?.dense.key(node)
    }

    /// Shard and node of a document that is not deleted. An error where it is not found, and the keys of a shard are
    /// damaged.
    pub fn find(&self, key: &str) -> Result<Option<(usize, u32)>> {
        let mut unknown = None;
        for (at, shard) in self.shards.iter().enumerate() {
            match shard.dense.find(key) {
                Ok(Some(node)) if shard.is_live(node) => return Ok(Some((at, node))),
                Ok(_) => {}
                Err(error) => unknown = Some(error),
            }
        }
        unknown.map_or(Ok(None), Err)
    }

    /// The live passages of a document from a number on, see [`Shard::passages`]: shard, node and number.
    pub fn passages(&self, document: &str, from: u64) -> Result<Vec<(usize, u32, u64)>> {
        let mut found = Vec::new();
        for (at, shard) in self.shards.iter().enumerate() {
            let passages = shard
                .passages(document, from)?
                .into_iter()
                .filter(|(node, _)| shard.is_live(*node));
            found.extend(passages.map(|(node, number)| (at, node, number)));
        }
        Ok(found)
    }

    /// What a search is of.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = Coverage {
            shards: self.shards.len() as u32,
            ..Coverage::default()
        };
        for shard in &self.shards {
            let (documents, damaged) = (shard.len() as u64, shard.dense.is_damaged());
            coverage.documents += documents;
            coverage.damaged_shards += u32::from(damaged);
            coverage.intact_documents += if damaged { 0 } else { documents };
        }
        coverage
    }

    /// The first damage found so far: see [`DenseShard::damage`](crate::shard::DenseShard::damage).
    pub fn damage(&self) -> Option<Error> {
        self.shards.iter().find_map(|shard| shard.dense.damage())
    }

    /// Stored fields of a document.
    pub fn document(&self, shard: usize, node: u32) -> Result<StoredDocument> {
        let found = self.shards.get(shard).map(|shard| shard.document(node));
        let (expected, got) = (format!("below {}", self.shards.len()), shard.to_string());
        found.unwrap_or(Err(Error::Mismatch {
            what: "shard of a document",
            expected,
            got,
        }))
    }

    /// Where a document stands in the one of which it is a passage: see [`Shard::place`].
    pub fn place(&self, shard: usize, node: u32) -> Result<Option<StoredPlace>> {
        self.shards.get(shard).map_or(Ok(None), |shard| shard.place(node))
    }
}

#[cfg(test)]
mod tests;
