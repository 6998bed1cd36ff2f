//! The documents of a corpus that examples name by key.
use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::example::Passage;
use crate::error::Error;
use crate::problem::Problem;
use crate::read::{CorpusReader, ReadOptions};

/// Title and text by key.
#[derive(Debug, Default)]
pub(super) struct Judged(HashMap<String, (String, String)>);

impl Judged {
    /// Reads the `wanted` documents of a corpus.
    pub(super) fn read(corpus: &Path, wanted: &HashSet<String>) -> Result<Self, Error> {
        let mut documents = HashMap::with_capacity(wanted.len());
        for document in CorpusReader::open(corpus, &ReadOptions::default())? {
            let document = document?.value;
            if wanted.contains(&document.key) {
                documents.insert(document.key, (document.title, document.text));
            }
        }
        Ok(Self(documents))
    }

    /// One of them.
    pub(super) fn passage(&self, key: &str) -> Result<Passage, Problem> {
        let (title, text) = self.0.get(key).ok_or_else(|| Problem::UnknownDocument { key: key.to_owned() })?;
        Ok(Passage { key: Some(key.to_owned()), title: title.clone(), text: text.clone(), score: None })
    }
}
