//! Passages of documents: `KEY#0`, `KEY#1` and so on, as [`dyad_corpus::ReadOptions::split`] makes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dyad_index::snapshot::Shard;
use dyad_index::{Snapshot, manifest};
use serde_json::{Map, Value};

use crate::error::Error;

/// What makes passages of a batch's documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Passages {
    /// Nothing: they are whole.
    #[default]
    None,
    /// The batch is of passages ([`dyad_corpus::ReadOptions::split`]).
    Batch,
    /// The source splits documents that are longer than the model reads ([`OnLong::Split`](crate::source::OnLong::Split)).
    Source,
}

/// How many passages each document of a batch has; none of a whole one.
#[derive(Debug, Default)]
pub(super) struct Lengths(BTreeMap<String, u64>);

impl Lengths {
    /// Notes a passage by its key; other keys are of documents that were not split.
    pub(super) fn add(&mut self, key: &str) {
        if let Some((document, number)) = numbered(key) {
            self.add_passage(document, number);
        }
    }

    pub(super) fn add_passage(&mut self, document: &str, number: u64) {
        let length = self.0.entry(document.to_owned()).or_default();
        *length = (*length).max(number + 1);
    }

    pub(super) fn add_whole(&mut self, document: &str) {
        self.0.insert(document.to_owned(), 0);
    }

    /// The documents.
    pub(super) fn documents(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Live passages, by shard and node, after the last one that their documents have now, and where `source` says so the documents as they
    /// were before they were split.
    pub(super) fn replaced(&self, base: &Snapshot, source: Passages) -> Result<Vec<(usize, u32)>, Error> {
        let mut found = Vec::new();
        for (document, length) in &self.0 {
            let passages = base.passages(document, *length)?;
            found.extend(passages.into_iter().map(|(shard, node, _)| (shard, node)));
            if source == Passages::Source && *length > 0 {
                found.extend(base.find(document)?);
            }
        }
        Ok(found)
    }
}

/// Document and number of a passage's key.
fn numbered(key: &str) -> Option<(&str, u64)> {
    let (document, number) = key.rsplit_once('#')?;
    Some((document, number.parse().ok()?))
}

/// Document and number of a passage, by its key and its metadata.
pub(super) fn passage<'a>(key: &'a str, metadata: Option<&Map<String, Value>>) -> Option<(&'a str, u64)> {
    let of = metadata?.get("document")?.as_str()?;
    numbered(key).filter(|(document, _)| *document == of)
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
