//! Passages of documents: `KEY#0`, `KEY#1` and so on, as [`dyad_corpus::ReadOptions::split`] makes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dyad_index::snapshot::Shard;
use dyad_index::{Snapshot, manifest};

use crate::error::Error;

/// How many passages each document of a batch has.
#[derive(Debug, Default)]
pub(super) struct Lengths(BTreeMap<String, u64>);

impl Lengths {
    /// Notes a passage by its key; other keys are of documents that were not split.
    pub(super) fn add(&mut self, key: &str) {
        let Some((document, number)) = key.rsplit_once('#') else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        let length = self.0.entry(document.to_owned()).or_default();
        *length = (*length).max(number + 1);
    }

    /// Live passages, by shard and node, after the last one that their documents have now.
    pub(super) fn after_last(&self, base: &Snapshot) -> Result<Vec<(usize, u32)>, Error> {
        let mut found = Vec::new();
        for (document, length) in &self.0 {
            let passages = base.passages(document, *length)?;
            found.extend(passages.into_iter().map(|(shard, node, _)| (shard, node)));
        }
        Ok(found)
    }
}

/// The keys of all passages that an index has of these documents, and the documents' own keys where it holds them unsplit, or holds nothing of
/// them. `all_generations` looks at what is deleted, and at other generations, too.
pub fn passages_of(index: &Path, documents: &[String], all_generations: bool) -> Result<Vec<String>, Error> {
    let mut found: Vec<BTreeSet<String>> = vec![BTreeSet::new(); documents.len()];
    let name = |document: &str, number: u64| format!("{document}#{number}");
    if all_generations {
        let mut shards = BTreeSet::new();
        for generation in manifest::generations(index)? {
            shards.extend(manifest::load(index, generation)?.shards.into_iter().map(|entry| entry.id));
        }
        for id in shards {
            let shard = Shard::open_dir(&index.join(manifest::SHARDS_DIR).join(id))?;
            for (document, found) in documents.iter().zip(&mut found) {
                found.extend(shard.passages(document, 0)?.into_iter().map(|(_, number)| name(document, number)));
                if shard.dense.find(document)?.is_some() {
                    found.insert(document.clone());
                }
            }
        }
    } else {
        let base = Snapshot::open(index)?;
        for (document, found) in documents.iter().zip(&mut found) {
            found.extend(base.passages(document, 0)?.into_iter().map(|(.., number)| name(document, number)));
            if base.find(document)?.is_some() {
                found.insert(document.clone());
            }
        }
    }
    let of = |(document, found): (&String, BTreeSet<String>)| {
        if found.is_empty() { vec![document.clone()] } else { found.into_iter().collect() }
    };
    Ok(documents.iter().zip(found).flat_map(of).collect())
}
