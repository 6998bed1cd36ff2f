//! The documents of a corpus that examples name by key.
use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::example::Passage;
use crate::error::Error;
use crate::problem::CorpusProblem;
use crate::read::{CorpusReader, ReadOptions};

/// Passages by key.
#[derive(Debug, Default)]
pub(super) struct PassagesByKey(HashMap<String, Passage>);

impl PassagesByKey {
    /// Reads the `wanted` documents of a corpus.
    pub(super) fn read(corpus: &Path, wanted: &HashSet<String>) -> Result<Self, Error> {
        let mut documents = HashMap::with_capacity(wanted.len());
        for document in CorpusReader::open(corpus, &ReadOptions::default())? {
            let document = document?.value;
            if wanted.contains(&document.key) {
                documents.insert(document.key.clone(), Passage::of_document(document));
            }
        }
        Ok(Self(documents))
    }

    /// One of them.
    pub(super) fn passage(&self, key: &str) -> Result<Passage, CorpusProblem> {
        self.0
            .get(key)
            .cloned()
            .ok_or_else(|| CorpusProblem::UnknownDocument { key: key.to_owned() })
    }
}
