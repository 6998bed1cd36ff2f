//! What must hold of the generation that a change is derived from, whichever that is when it is published: the
//! documents that the change replaces are such as its callers may see, and documents are as the callers expect them.

use std::collections::HashMap;

use dyad_index::Snapshot;
use dyad_index::lexical::{DocumentFilter, StoredDocument};
use dyad_index::manifest::RecordedCall;
use rayon::prelude::*;

use super::outcome::ChangeOutcome;
use super::passages::split_passage_key;
use crate::draft::Draft;
use crate::error::Error;

/// Conditions of a change; none by default.
#[derive(Debug, Default)]
pub struct ChangeConditions<'a> {
    /// By the keys of a change: which documents exist for who changes them.
    scopes: HashMap<&'a str, &'a DocumentFilter>,
    expected: Vec<ExpectedContent<'a>>,
}

/// What a caller expects of a document.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedContent<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its [`StoredDocument::etag`](dyad_index::lexical::StoredDocument::etag); none where there is to be no document.
    pub etag: Option<&'a str>,
    /// Which documents exist for the caller; all where absent.
    pub scope: Option<&'a DocumentFilter>,
}

/// Documents that an error names.
const NAMED: usize = 5;

/// What a change begins with.
#[derive(Debug, Default)]
pub struct ChangeStart<'a> {
    /// A generation that is open: shards that the current one has in common with it are not opened again.
    pub known: Option<&'a Snapshot>,
    /// What must hold of each generation from which the change is derived.
    pub conditions: ChangeConditions<'a>,
    /// What is recorded in the generation that the change makes.
    pub recorder: Option<&'a dyn CallRecorder>,
}

/// Says what a change came to for the calls of which it is made.
pub trait CallRecorder: std::fmt::Debug + Sync {
    /// The calls to record; the outcome has no manifest yet.
    fn calls(&self, outcome: &ChangeOutcome) -> Vec<RecordedCall>;
}

impl ChangeStart<'_> {
    /// Records the calls in a draft that has this outcome.
    pub(super) fn record(&self, draft: &mut Draft, outcome: impl FnOnce() -> ChangeOutcome) {
        if let Some(recorder) = self.recorder {
            draft.change.calls = recorder.calls(&ChangeOutcome {
                documents_after: draft.documents(),
                ..outcome()
            });
        }
    }
}

impl<'a> ChangeConditions<'a> {
    /// For who changes the document with this key, only those that pass a filter exist.
    pub fn restrict(&mut self, key: &'a str, filter: &'a DocumentFilter) {
        self.scopes.insert(key, filter);
    }

    /// Adds what is expected of a document.
    pub fn expect(&mut self, expected: ExpectedContent<'a>) {
        self.expected.push(expected);
    }

    /// Refuses a generation in which documents are not as they are expected.
    pub fn check_expected(&self, base: &Snapshot) -> Result<(), Error> {
        let differs = |expected: &ExpectedContent<'a>| -> Result<Option<&'a str>, Error> {
            let found = match base.find(expected.key)? {
                Some((shard, node)) => Some(base.document(shard, node)?),
                None => None,
            };
            let exists = |document: &StoredDocument| expected.scope.is_none_or(|scope| scope.matches(document));
            let etag = found.filter(exists).map(|document| document.etag());
            Ok((etag.as_deref() != expected.etag).then_some(expected.key))
        };
        let found: Vec<Option<&str>> = self.expected.par_iter().map(differs).collect::<Result<_, Error>>()?;
        let mut found: Vec<&str> = found.into_iter().flatten().collect();
        found.sort_unstable();
        found.dedup();
        if found.is_empty() {
            return Ok(());
        }
        Err(Error::NotAsExpected {
            total: found.len(),
            first: found.into_iter().take(NAMED).map(str::to_owned).collect(),
        })
    }

    /// The live document with a key, where it exists for who changes it.
    pub(super) fn find(&self, base: &Snapshot, key: &str) -> Result<Option<(usize, u32)>, Error> {
        let Some((shard, node)) = base.find(key)? else {
            return Ok(None);
        };
        let exists = match self.scopes.get(key) {
            Some(filter) => filter.matches(&base.document(shard, node)?),
            None => true,
        };
        Ok(exists.then_some((shard, node)))
    }

    /// Refuses to replace documents that do not exist for who replaces them: those with the keys of the change,
    /// passages of the documents with these keys, and documents of which a key could be a passage, which could not be
    /// replaced by their owners from then on.
    pub fn check_replaced(&self, base: &Snapshot) -> Result<(), Error> {
        let is_anothers = |(key, filter): (&&str, &&DocumentFilter)| -> Result<bool, Error> {
            let passages = base.passages(key, 0)?.into_iter().map(|(shard, node, _)| (shard, node));
            let whole = match split_passage_key(key) {
                Some((document, _)) => base.find(document)?,
                None => None,
            };
            for (shard, node) in base.find(key)?.into_iter().chain(whole).chain(passages) {
                if !filter.matches(&base.document(shard, node)?) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let check = |(key, filter)| Ok(is_anothers((key, filter))?.then_some(*key));
        let found: Vec<Option<&str>> = self.scopes.par_iter().map(check).collect::<Result<_, Error>>()?;
        match found.into_iter().flatten().min() {
            Some(key) => Err(Error::DocumentOfAnother { key: key.to_owned() }),
            None => Ok(()),
        }
    }
}
