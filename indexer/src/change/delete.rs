//! Deletes documents by key.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use dyad_index::manifest::Change;

use super::conditions::ChangeStart;
use super::deletions::{draft_without, locate_by};
use super::outcome::{ChangeOutcome, MissingKeys};
use super::passages::live_passages_of;
use super::transaction::{Publication, Transaction, unpublished};
use crate::control::JobControl;
use crate::draft::Draft;
use crate::error::Error;

/// How documents are deleted.
#[derive(Debug, Clone, Copy)]
pub struct DeleteConfig<'a> {
    /// The index's directory.
    pub index: &'a Path,
    /// What it begins with.
    pub start: &'a ChangeStart<'a>,
    /// The keys are of documents that were split: all of their passages are deleted.
    pub passages: bool,
    /// Most keys without a document that the outcome names.
    pub named_missing: usize,
    /// Nothing is published; the outcome says what would be.
    pub dry_run: bool,
}

/// Deletes the documents with these keys, in one new generation. Keys that no document has are counted as rejected.
pub fn delete(index: &Path, keys: &[String], dry_run: bool, control: JobControl<'_>) -> Result<ChangeOutcome, Error> {
    delete_documents(
        &DeleteConfig {
            index,
            start: &ChangeStart::default(),
            passages: false,
            named_missing: MissingKeys::NAMED,
            dry_run,
        },
        keys,
        control,
    )
}

/// Deletes documents as configured, in one new generation. Keys that no document has, or none that exists for who
/// deletes it, are counted as rejected.
pub fn delete_documents(
    config: &DeleteConfig<'_>,
    keys: &[String],
    control: JobControl<'_>,
) -> Result<ChangeOutcome, Error> {
    let transaction = Transaction::begin(config.index, config.start.known, Publication::unless(config.dry_run))?;
    let mut counts = Change {
        operation: "delete".to_owned(),
        ..Change::default()
    };
    let mut missing = MissingKeys::default();
    let outcome = transaction.publish(|_, base| {
        config.start.conditions.check_expected(base)?;
        // Others may have added passages meanwhile.
        let keys = if config.passages {
            Cow::Owned(live_passages_of(base, keys)?)
        } else {
            Cow::Borrowed(keys)
        };
        let distinct: HashSet<&str> = keys.iter().map(String::as_str).collect();
        let mut distinct: Vec<&str> = distinct.into_iter().collect();
        distinct.sort_unstable();
        let nodes = locate_by(base, &distinct, |key| config.start.conditions.find(base, key))?;
        let found = nodes.iter().map(Vec::len).sum::<usize>() as u64;
        counts.read = keys.len() as u64;
        counts.superseded = (keys.len() - distinct.len()) as u64;
        counts.indexed = found;
        counts.deleted = found;
        counts.rejected = distinct.len() as u64 - found;
        missing = MissingKeys::find(counts.rejected, config.named_missing, distinct, |key| {
            Ok(config.start.conditions.find(base, key)?.is_none())
        })?;
        if found == 0 {
            return Ok(None);
        }
        let shards = draft_without(base, &nodes, control)?;
        let mut draft = Draft::after(base.manifest(), &counts, shards);
        let documents = base.manifest().documents();
        config.start.record(&mut draft, || ChangeOutcome {
            missing: missing.clone(),
            ..unpublished(counts.clone(), documents, documents)
        });
        Ok(Some(draft))
    })?;
    Ok(ChangeOutcome {
        change: counts,
        missing,
        ..outcome
    })
}
