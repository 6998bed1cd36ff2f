//! A generation is opened, or some of its shards; what it has in common with another one is shared.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::shared_documents::SharedDocuments;
use super::{Shard, Snapshot};
use crate::error::{Error, Result};
use crate::fusion::FusionRecord;
use crate::lexical::CorpusStatistics;
use crate::manifest;
use crate::manifest::{Manifest, ReaderLock};
use crate::reranking::RerankRecord;

impl Snapshot {
    /// Opens the generation that `CURRENT` names.
    pub fn open(index: &Path) -> Result<Self> {
        Self::open_after(index, None)
    }

    /// Opens the generation that `CURRENT` names; shards that it has in common with `before` are shared and not opened
    /// again.
    pub fn open_after(index: &Path, before: Option<&Self>) -> Result<Self> {
        let mut current = manifest::current(index)?;
        loop {
            match Self::open_manifest(index, current.clone(), before) {
                // `gc` may remove a generation between the two steps where another became current.
                Err(Error::NoGeneration { .. }) => {
                    let next = manifest::current(index)?;
                    if next.generation == current.generation {
                        let present = "others".to_owned();
                        return Err(Error::NoGeneration {
                            path: index.to_owned(),
                            generation: next.generation,
                            present,
                        });
                    }
                    current = next;
                }
                opened => return opened,
            }
        }
    }

    /// Opens a generation: maps every shard that it does not have in common with `before`, and checks that its parts
    /// belong together. Time depends on the number of shards, and of deleted documents.
    pub fn open_manifest(index: &Path, manifest: Manifest, before: Option<&Self>) -> Result<Self> {
        let all: Vec<usize> = (0..manifest.shards.len()).collect();
        Self::open_part(index, manifest, &all, before)
    }

    /// Opens some shards of a generation, as [`Self::open_manifest`] opens all: those with these numbers, which are
    /// positions in `manifest.shards`, ascending and each once; files of others need not be there. `before` may have
    /// other shards. [`Self::manifest`] is that of the whole generation; all else is of the opened shards alone, such
    /// as documents, statistics of BM25 and hits. An error where the numbers are not ascending or there is no such
    /// shard, and as for a whole generation.
    pub fn open_part(index: &Path, manifest: Manifest, numbers: &[usize], before: Option<&Self>) -> Result<Self> {
        let entries = manifest.entries_at(numbers)?;
        let lock = ReaderLock::acquire(index, manifest.generation)?;
        let known = before.into_iter().flat_map(Self::entries);
        let known: HashMap<&str, &Shard> = known.map(|(entry, shard)| (&*entry.id, shard)).collect();
        let shards = entries
            .into_iter()
            .map(|entry| Shard::open(index, &manifest, entry, known.get(&*entry.id).copied()));
        let shards = shards.collect::<Result<Vec<_>>>()?;
        let statistics = statistics(&shards);
        let space = manifest.model.space();
        let fusion = FusionRecord::load(index, &space)?;
        let reranking = RerankRecord::load(index, &space)?;
        let documents = SharedDocuments::new(&shards, before.map(|before| (&*before.shards, &before.documents)));
        Ok(Self {
            index: index.to_owned(),
            manifest: Arc::new(manifest),
            numbers: numbers.to_vec(),
            shards,
            statistics,
            fusion,
            reranking,
            documents,
            lock: Arc::new(lock),
        })
    }

    /// Some of the open shards, by their numbers, which ascend; none where one of them is not open. No file is read.
    pub fn part(&self, numbers: &[usize]) -> Option<Self> {
        let shards = numbers.iter().map(|number| {
            let at = self.numbers.binary_search(number).ok()?;
            self.shards.get(at).cloned()
        });
        let shards = shards.collect::<Option<Vec<Shard>>>()?;
        let documents = SharedDocuments::new(&shards, Some((&*self.shards, &self.documents)));
        Some(Self {
            index: self.index.clone(),
            manifest: Arc::clone(&self.manifest),
            numbers: numbers.to_vec(),
            statistics: statistics(&shards),
            shards,
            fusion: self.fusion.clone(),
            reranking: self.reranking.clone(),
            documents,
            lock: Arc::clone(&self.lock),
        })
    }
}

/// BM25's statistics of the documents of these shards that are not deleted.
fn statistics(shards: &[Shard]) -> CorpusStatistics {
    let all = CorpusStatistics::new(shards.iter().map(|shard| &*shard.text));
    all.without(shards.iter().map(|shard| shard.deletions.clone()))
}
