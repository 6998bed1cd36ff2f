//! Deletes the documents that match a filter.

use dyad_index::lexical::DocumentFilter;
use dyad_index::manifest::Change;

use super::delete::DeleteConfig;
use super::deletions::draft_without;
use super::outcome::ChangeOutcome;
use super::transaction::{Publication, Transaction, unpublished};
use crate::control::JobControl;
use crate::draft::Draft;
use crate::error::Error;

/// Deletes the documents that match a filter in the generation from which the change is derived, in one new generation.
/// They are told apart by one bit for each document of the index, and four bytes for each that is deleted.
pub fn delete_matching(
    config: &DeleteConfig<'_>,
    filter: &DocumentFilter,
    control: JobControl<'_>,
) -> Result<ChangeOutcome, Error> {
    let transaction = Transaction::begin(config.index, config.start.known, Publication::unless(config.dry_run))?;
    let mut counts = Change {
        operation: "delete".to_owned(),
        ..Change::default()
    };
    let outcome = transaction.publish(|_, base| {
        config.start.conditions.check_expected(base)?;
        let matching = base.allowed(filter, control.cancel)?.ok_or(Error::Cancelled)?;
        let nodes: Vec<Vec<u32>> = matching.iter().map(|nodes| nodes.iter().collect()).collect();
        let found = nodes.iter().map(Vec::len).sum::<usize>() as u64;
        counts.read = found;
        counts.indexed = found;
        counts.deleted = found;
        for note in base.filter_notes(filter)? {
            control.progress.warn(&note);
        }
        if found == 0 {
            return Ok(None);
        }
        let shards = draft_without(base, &nodes, control)?;
        let mut draft = Draft::after(base.manifest(), &counts, shards);
        let documents = base.manifest().documents();
        config
            .start
            .record(&mut draft, || unpublished(counts.clone(), documents, documents));
        Ok(Some(draft))
    })?;
    Ok(ChangeOutcome {
        change: counts,
        ..outcome
    })
}
