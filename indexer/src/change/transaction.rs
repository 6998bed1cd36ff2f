//! Every change of an index is a transaction: begun on the current generation, prepared without the lock, and published
//! only where that generation is still current. Otherwise it is prepared again, from the one that is.

use std::path::Path;

use dyad_index::Snapshot;
use dyad_index::manifest::Change;
use dyad_index::storage::WriteLock;
use fail::fail_point;

use super::outcome::{ChangeOutcome, KeptRecords, MissingKeys};
use crate::draft::Draft;
use crate::error::Error;
use crate::publish::publish_locked;

/// Generations that others may publish while a change is prepared for its publication, before it gives up.
const ATTEMPTS: usize = 50;
/// Of these, those after which it holds the index's lock while it is prepared: one that takes longer than small changes
/// would never be published next to a stream of them.
const UNLOCKED_ATTEMPTS: usize = 3;

/// A change of an index that is not published yet.
pub(super) struct Transaction<'a> {
    index: &'a Path,
    /// The generation that was current when the change began. It is held to the end: what is copied of it may be purged
    /// only where it can be purged of the new shards too.
    base: Snapshot,
    /// Generations that others have published since, held as `base` is.
    later: Vec<Snapshot>,
    publication: Publication,
}

/// What becomes of a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Publication {
    /// It is published where it has the model of the current generation.
    SameModel,
    /// It is published, whichever model it has.
    AnyModel,
    /// It is looked at, and nothing is published.
    DryRun,
}

impl Publication {
    /// A change that keeps the model, or a look at what it would be.
    pub(super) fn unless(dry_run: bool) -> Self {
        if dry_run { Self::DryRun } else { Self::SameModel }
    }
}

impl<'a> Transaction<'a> {
    /// Begins a change of the current generation. Shards that it has in common with `known`, a generation that is open,
    /// are not opened again.
    pub(super) fn begin(index: &'a Path, known: Option<&Snapshot>, publication: Publication) -> Result<Self, Error> {
        Ok(Self {
            index,
            base: Snapshot::open_after(index, known)?,
            later: Vec::new(),
            publication,
        })
    }

    /// The generation that was current when the change began.
    pub(super) fn base(&self) -> &Snapshot {
        &self.base
    }

    /// The last generation that was opened.
    fn newest(&self) -> &Snapshot {
        self.later.last().unwrap_or(&self.base)
    }

    /// Publishes the draft that `prepare` makes of the current generation, and of each that becomes current meanwhile.
    ///
    /// The draft of the first generation may rely on what was read of it: that a document was there with the same text,
    /// that a shard had these live documents. `prepare` also gets the generation that the draft before was made of,
    /// where another one has become current since, and looks at what it relies on again: the two may differ in any way,
    /// for instance by a rollback. What it cannot mend ends the change with [`Error::Contended`].
    pub(super) fn publish(
        mut self,
        mut prepare: impl FnMut(Option<&Snapshot>, &Snapshot) -> Result<Option<Draft>, Error>,
    ) -> Result<ChangeOutcome, Error> {
        for attempt in 0..ATTEMPTS {
            let early_lock = if attempt < UNLOCKED_ATTEMPTS {
                None
            } else {
                Some(WriteLock::acquire(self.index)?)
            };
            if attempt > 0 {
                let next = Snapshot::open_after(self.index, Some(self.newest()))?;
                self.later.push(next);
            }
            let mut held = std::iter::once(&self.base).chain(&self.later).rev();
            let current = held.next().unwrap_or(&self.base);
            let before = held.next();
            let documents = current.manifest().documents();
            let Some(draft) = prepare(before, current)? else {
                return Ok(unpublished(Change::default(), documents, documents));
            };
            let outcome = unpublished(draft.change.clone(), documents, draft.documents());
            if self.publication == Publication::DryRun {
                return Ok(outcome);
            }
            fail_point!("publish-begin");
            let lock = match early_lock {
                Some(lock) => lock,
                None => WriteLock::acquire(self.index)?,
            };
            let takes_any_model = self.publication == Publication::AnyModel;
            if let Some(manifest) = publish_locked(self.index, draft, takes_any_model, &lock)? {
                return Ok(ChangeOutcome {
                    manifest: Some(manifest),
                    ..outcome
                });
            }
        }
        Err(Error::Contended)
    }
}

/// What a change comes to that is not published yet.
pub(super) fn unpublished(change: Change, documents_before: u64, documents_after: u64) -> ChangeOutcome {
    ChangeOutcome {
        manifest: None,
        change,
        documents_before,
        documents_after,
        missing: MissingKeys::default(),
        kept: KeptRecords::default(),
    }
}
