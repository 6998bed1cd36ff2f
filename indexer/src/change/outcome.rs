//! What a change of an index did, or would do.

use std::collections::HashSet;

use dyad_index::manifest::{Change, Manifest};

use super::staged::key_hash;
use crate::error::Error;

/// What a change did, or would do.
#[derive(Debug, Clone)]
pub struct ChangeOutcome {
    /// The new generation; none where there was nothing to change, or nothing was to be changed.
    pub manifest: Option<Manifest>,
    /// What was read, and what became of it.
    pub change: Change,
    /// Documents before.
    pub documents_before: u64,
    /// Documents after.
    pub documents_after: u64,
    /// Keys of no document, where documents are named by their keys.
    pub missing: MissingKeys,
    /// What became of the records that were not indexed, of an `append` or `upsert`.
    pub kept: KeptRecords,
}

/// Records of a batch whose documents the index had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptRecords {
    /// By [`key_hash`]: records whose documents the index had as they are, or with other metadata.
    pub(super) documents: HashSet<u128>,
    /// Keys of those with other metadata.
    pub(super) metadata: HashSet<String>,
}

/// What became of a record of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordFate {
    /// It was indexed.
    Indexed,
    /// The document has its metadata, and keeps its vector.
    NewMetadata,
    /// The index had the document as it is.
    Unchanged,
}

impl KeptRecords {
    /// What became of the last record with a key.
    pub fn fate(&self, key: &str) -> RecordFate {
        if self.metadata.contains(key) {
            RecordFate::NewMetadata
        } else if self.documents.contains(&key_hash(key)) {
            RecordFate::Unchanged
        } else {
            RecordFate::Indexed
        }
    }
}

/// Keys that were given, and that no document has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingKeys {
    /// How many.
    pub total: u64,
    /// Some of them.
    pub first: Vec<String>,
}

impl MissingKeys {
    /// Keys that are named to people.
    pub const NAMED: usize = 5;

    /// `total` of `keys`, at most `named` of which are named.
    pub(super) fn find<'k>(
        total: u64,
        named: usize,
        keys: impl IntoIterator<Item = &'k str>,
        is_missing: impl Fn(&str) -> Result<bool, Error>,
    ) -> Result<Self, Error> {
        let mut first = Vec::new();
        let most = named.min(usize::try_from(total).unwrap_or(usize::MAX));
        for key in keys {
            if first.len() == most {
                break;
            }
            if is_missing(key)? {
                first.push(key.to_owned());
            }
        }
        Ok(Self { total, first })
    }
}
