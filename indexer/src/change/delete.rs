//! Deletes documents by key.

use std::collections::HashSet;
use std::path::Path;

use dyad_index::Snapshot;
use dyad_index::manifest::Change;

use super::deletions::{locate, without};
use super::{Outcome, commit};
use crate::control::JobControl;
use crate::error::Error;
use crate::publish::Draft;

/// Deletes the documents with these keys, in one new generation. Keys that no document has are counted as rejected.
pub fn delete(index: &Path, keys: &[String], dry_run: bool, control: JobControl<'_>) -> Result<Outcome, Error> {
    let base = Snapshot::open(index)?;
    let model = base.manifest().model.clone();
    let distinct: HashSet<&str> = keys.iter().map(String::as_str).collect();
    let read = keys.len() as u64;
    let superseded = read - distinct.len() as u64;
    let distinct: Vec<&str> = distinct.into_iter().collect();
    let mut counts = Change { operation: "delete".to_owned(), read, superseded, ..Change::default() };
    let outcome = commit(index, dry_run, base, |base| {
        let nodes = locate(base, &distinct)?;
        let found = nodes.iter().map(Vec::len).sum::<usize>() as u64;
        counts.indexed = found;
        counts.deleted = found;
        counts.rejected = distinct.len() as u64 - found;
        if found == 0 {
            return Ok(None);
        }
        let manifest = base.manifest();
        Ok(Some(Draft {
            parent: Some(manifest.generation),
            model: &model,
            min_recall: manifest.min_recall,
            change: counts.clone(),
            shards: without(base, &nodes, control)?,
        }))
    })?;
    Ok(Outcome { change: counts, ..outcome })
}
