//! What a change of an index did, or would do.

use dyad_index::manifest::{Change, Manifest};

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
    /// Keys that are named.
    const NAMED: usize = 5;

    /// `total` of `keys`, the first of which are named.
    pub(super) fn find<'k>(
        total: u64,
        keys: impl IntoIterator<Item = &'k str>,
        is_missing: impl Fn(&str) -> Result<bool, Error>,
    ) -> Result<Self, Error> {
        let mut first = Vec::new();
        let most = Self::NAMED.min(usize::try_from(total).unwrap_or(usize::MAX));
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
