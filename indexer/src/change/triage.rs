//! Which documents of a batch are new, need another vector, can keep theirs, or are in the index as they are.

use dyad_corpus::{Document, Located};
use dyad_index::Snapshot;

use super::metadata::{Changed, NewMetadata, text_hash};
use super::passages::Lengths;
use crate::control::JobControl;
use crate::error::Error;
use crate::job::{Spool, metadata_json};
use crate::source::Documents;

/// Keys that an error lists.
const TOLD: usize = 20;

/// What becomes of documents whose keys are in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// They are refused, or left as they are.
    Append {
        /// Left as they are.
        skip_existing: bool,
    },
    /// They are replaced. Of several records of one key, the last counts.
    Upsert,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Append { .. } => "append",
            Self::Upsert => "upsert",
        }
    }
}

/// What is to be done with a document.
enum Decision {
    /// It is indexed with the vector of its source.
    Embed,
    /// Its text has not changed, and its vector is kept.
    NewMetadata(NewMetadata),
    /// The index holds it as it is, or it is not to be replaced.
    Skip,
}

/// Passes on those documents of a batch that need a vector.
pub(super) struct Triage<'a, 'd> {
    pub(super) documents: &'a mut Documents<'d>,
    pub(super) base: &'a Snapshot,
    pub(super) operation: Operation,
    /// Whether the source has a vector for every document, changed or not: then all of them are passed on.
    pub(super) all: bool,
    pub(super) spool: &'a mut Spool,
    pub(super) control: JobControl<'a>,
    /// New metadata of documents that keep their vectors.
    pub(super) changed: &'a mut Changed,
    /// How many passages documents have, where the batch is of passages.
    pub(super) lengths: Option<&'a mut Lengths>,
    /// Documents that the index holds as they are.
    pub(super) unchanged: u64,
    pub(super) existing: Existing,
    /// What went wrong here and not in the documents.
    pub(super) failed: Option<Error>,
}

/// Keys of documents to append that are in the index.
#[derive(Debug, Default)]
pub(super) struct Existing {
    total: u64,
    first: Vec<String>,
}

impl Existing {
    pub(super) fn add(&mut self, key: &str) {
        self.total += 1;
        if self.first.len() < TOLD {
            self.first.push(key.to_owned());
        }
    }

    pub(super) fn refuse(self) -> Result<(), Error> {
        if self.total == 0 { Ok(()) } else { Err(Error::KeysExist { total: self.total, first: self.first }) }
    }
}

impl Triage<'_, '_> {
    /// Spools a document with the vector of its source, where it is to be indexed.
    pub(super) fn place(&mut self, document: &Document, row: &[f32]) -> Result<(), Error> {
        if self.all && !matches!(self.decide(document)?, Decision::Embed) {
            return Ok(());
        }
        self.spool.add(document, row)
    }

    fn decide(&mut self, document: &Document) -> Result<Decision, Error> {
        let Some((shard, node)) = self.base.find(&document.key)? else { return Ok(Decision::Embed) };
        match self.operation {
            Operation::Append { skip_existing: true } => {
                self.unchanged += 1;
                return Ok(Decision::Skip);
            }
            Operation::Append { skip_existing: false } => {
                self.existing.add(&document.key);
                return Ok(Decision::Skip);
            }
            Operation::Upsert => {}
        }
        if self.all {
            // Its vector may be another one.
            return Ok(Decision::Embed);
        }
        let stored = self.base.document(shard, node)?;
        if (&stored.title, &stored.text) != (&document.title, &document.text) {
            return Ok(Decision::Embed);
        }
        let json = metadata_json(document)?;
        if stored.metadata_json == json {
            self.unchanged += 1;
            return Ok(Decision::Skip);
        }
        Ok(Decision::NewMetadata(NewMetadata { json, text: Some(text_hash(&stored.title, &stored.text)) }))
    }

    /// The next document that needs a vector.
    fn advance(&mut self) -> Result<Option<Located<Document>>, Error> {
        loop {
            self.control.check()?;
            let Some(document) = self.documents.next().transpose()? else { return Ok(None) };
            if let Some(lengths) = &mut self.lengths {
                lengths.add(&document.value.key);
            }
            if self.all {
                return Ok(Some(document));
            }
            match self.decide(&document.value)? {
                Decision::Embed => return Ok(Some(document)),
                Decision::Skip => {}
                Decision::NewMetadata(new) => drop(self.changed.insert(document.value.key, new)),
            }
        }
    }
}

impl Iterator for Triage<'_, '_> {
    type Item = Result<Located<Document>, dyad_corpus::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed.is_some() {
            return None;
        }
        match self.advance() {
            Ok(document) => document.map(Ok),
            Err(Error::Corpus(error)) => Some(Err(error)),
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }
}
