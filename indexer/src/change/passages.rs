//! Passages of documents: `KEY#0`, `KEY#1` and so on, as [`dyad_corpus::ReadOptions::split`] makes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dyad_corpus::{Document, Metadata};
use dyad_index::snapshot::Shard;
use dyad_index::{Snapshot, manifest};
use rayon::prelude::*;

use crate::error::Error;
use crate::gc::shards_of_all_generations;

/// What makes passages of a batch's documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Passages {
    /// Nothing: they are whole.
    #[default]
    None,
    /// The batch is of passages ([`dyad_corpus::ReadOptions::split`]).
    Batch,
    /// The source splits documents that are longer than the model reads
    /// ([`OnLong::Split`](crate::source::OnLong::Split)).
    Source,
}

/// How many passages each document of a batch has; none of a whole one.
#[derive(Debug, Default)]
pub(super) struct Lengths(BTreeMap<String, u64>);

impl Lengths {
    /// Notes a passage by its key; other keys are of documents that were not split.
    pub(super) fn add(&mut self, key: &str) {
        if let Some((document, number)) = split_passage_key(key) {
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

    /// Whether this is the key of a passage of one of these documents.
    pub(super) fn is_passage(&self, key: &str) -> bool {
        split_passage_key(key)
            .is_some_and(|(document, number)| self.0.get(document).is_some_and(|length| number < *length))
    }

    /// The documents.
    pub(super) fn documents(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Live passages, by shard and node, after the last one that their documents have now, and documents that were
    /// whole and are passages now.
    pub(super) fn replaced(&self, base: &Snapshot) -> Result<Vec<(usize, u32)>, Error> {
        let of = |(document, length): (&String, &u64)| -> Result<Vec<(usize, u32)>, Error> {
            let passages = base.passages(document, *length)?;
            let mut found: Vec<_> = passages.into_iter().map(|(shard, node, _)| (shard, node)).collect();
            if *length > 0 {
                found.extend(base.find(document)?);
            }
            Ok(found)
        };
        let found: Result<Vec<Vec<_>>, Error> = self.0.par_iter().map(of).collect();
        Ok(found?.concat())
    }
}

/// How an index holds a document of a batch.
pub(super) enum StoredForm {
    /// With the same key.
    AsIs((usize, u32)),
    /// As passages: where they are, and their numbers.
    Passages(Vec<(usize, u32, u64)>),
    /// As a whole document, of which this is a passage.
    Whole,
}

impl StoredForm {
    /// Nothing where it is new.
    pub(super) fn find(base: &Snapshot, passages: Passages, document: &Document) -> Result<Option<Self>, Error> {
        let found = base.find(&document.key)?;
        if passages == Passages::Batch {
            let of = name_passage(&document.key, document.metadata.as_ref());
            return Ok(match (found, of) {
                (Some(place), _) => Some(Self::AsIs(place)),
                (None, Some((of, _))) => base.find(of)?.map(|_| Self::Whole),
                (None, None) => None,
            });
        }
        let passages = base.passages(&document.key, 0)?;
        Ok(if passages.is_empty() {
            found.map(Self::AsIs)
        } else {
            Some(Self::Passages(passages))
        })
    }
}

/// Whether the document of this shard and node is a passage, as its key says.
pub(super) fn is_passage(base: &Snapshot, key: &str, shard: usize, node: u32) -> Result<bool, Error> {
    let Some((of, number)) = split_passage_key(key) else {
        return Ok(false);
    };
    Ok(base.passages(of, number)?.contains(&(shard, node, number)))
}

/// Document and number of a passage's key.
pub(super) fn split_passage_key(key: &str) -> Option<(&str, u64)> {
    let (document, number) = key.rsplit_once('#')?;
    Some((document, number.parse().ok()?))
}

/// A key, and that of the document of which it may be a passage.
pub(crate) fn documents_of(key: &str) -> impl Iterator<Item = &str> {
    std::iter::once(key).chain(split_passage_key(key).map(|(document, _)| document))
}

/// Whether an index holds the document of this key, or the one of which it is a passage.
pub(super) fn is_stored(base: &Snapshot, passages: Passages, key: &str) -> Result<bool, Error> {
    let holds = |document: &str| -> Result<bool, Error> {
        let in_passages = passages == Passages::Source && !base.passages(document, 0)?.is_empty();
        Ok(in_passages || base.find(document)?.is_some())
    };
    match split_passage_key(key).filter(|_| passages != Passages::None) {
        Some((document, _)) => Ok(holds(key)? || holds(document)?),
        None => holds(key),
    }
}

/// Document and number of a passage, by its key and its metadata.
pub(super) fn name_passage<'a>(key: &'a str, metadata: Option<&Metadata>) -> Option<(&'a str, u64)> {
    let (document, number) = split_passage_key(key)?;
    let of = metadata?.text("document")?;
    (document == of).then_some((document, number))
}

/// The keys of all passages that an index has of these documents, and the documents' own keys where it holds them
/// unsplit, or holds nothing of them. `all_generations` looks at what is deleted, and at other generations, too.
pub fn passages_of(index: &Path, documents: &[String], all_generations: bool) -> Result<Vec<String>, Error> {
    if !all_generations {
        return live_passages_of(&Snapshot::open(index)?, documents);
    }
    let mut found: Vec<BTreeSet<String>> = vec![BTreeSet::new(); documents.len()];
    for id in shards_of_all_generations(index)? {
        let dir = index.join(manifest::SHARDS_DIR).join(id);
        let shard = match Shard::open_dir(&dir) {
            // Another job has removed it.
            Err(_) if !dir.exists() => continue,
            // What it holds cannot be told: a purge removes its generation.
            Err(dyad_index::Error::Format { .. }) => continue,
            opened => opened?,
        };
        for (document, found) in documents.iter().zip(&mut found) {
            let passages = shard.passages(document, 0)?;
            found.extend(passages.into_iter().map(|(_, number)| passage_key(document, number)));
            if shard.dense.find(document)?.is_some() {
                found.insert(document.clone());
            }
        }
    }
    Ok(documents
        .iter()
        .zip(found)
        .flat_map(|(document, found)| keys_or_own(document, found))
        .collect())
}

/// The same of the live documents of one generation.
pub(super) fn live_passages_of(base: &Snapshot, documents: &[String]) -> Result<Vec<String>, Error> {
    let mut keys = Vec::with_capacity(documents.len());
    for document in documents {
        let passages = base.passages(document, 0)?;
        let mut found: BTreeSet<String> = passages
            .into_iter()
            .map(|(.., number)| passage_key(document, number))
            .collect();
        if base.find(document)?.is_some() {
            found.insert(document.clone());
        }
        keys.extend(keys_or_own(document, found));
    }
    Ok(keys)
}

fn passage_key(document: &str, number: u64) -> String {
    format!("{document}#{number}")
}

/// What was found of a document, or its own key.
fn keys_or_own(document: &str, found: BTreeSet<String>) -> Vec<String> {
    if found.is_empty() {
        vec![document.to_owned()]
    } else {
        found.into_iter().collect()
    }
}
