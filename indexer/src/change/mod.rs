//! Changes of an index: documents added, replaced and deleted, shards merged. Each is one generation.
//!
//! A change is prepared from the current generation without the lock, and published only where that one is still
//! current; otherwise it is prepared again, from the one that is. What takes long (vectors, graphs) is done once.
//!
//! | file | contents |
//! |---|---|
//! | `difference.rs` | which documents set one generation apart from another |
//! | `deletions.rs` | shards of a generation without some of their documents |
//! | `upsert.rs` | `append` and `upsert`: documents in, shards out |
//! | `upsert_config.rs` | its parameters |
//! | `upsert_job.rs` | passes over a batch, and again over what others have changed meanwhile |
//! | `upsert_progress.rs` | what these have come to |
//! | `triage.rs` | which documents of a batch are new, need another vector, or are in the index as they are |
//! | `staged.rs` | a batch on disk, of which the last record of each key counts |
//! | `passages.rs` | passages of documents: those that an index has, and those that a document no longer has |
//! | `delete.rs` | `delete` |
//! | `calibrate.rs` | `calibrate`: recall measured again, by other questions |
//! | `question_sample.rs` | such questions from a log |
//! | `metadata.rs` | `upsert --metadata-only` |
//! | `merge.rs` | `merge`: shards written again as one |
//! | `merge_policy.rs` | which shards should be merged |
//! | `reembed.rs` | `reembed`: the vectors of another model, from the stored texts |
//! | `last_document.rs` | where documents stand in those of which they are passages |
//! | `context.rs` | what of their documents vectors have, one for an index |
//! | `stored.rs` | the live documents of a generation as a batch of a corpus |
//! | `purge.rs` | `purge`: documents removed from every generation |
//! | `purged_texts.rs` | the texts of purged passages in the documents of others |

mod calibrate;
mod context;
mod delete;
mod deletions;
mod difference;
mod last_document;
mod merge;
mod merge_policy;
mod metadata;
mod passages;
mod purge;
mod purged_texts;
mod question_sample;
mod reembed;
mod staged;
mod stored;
mod triage;
mod upsert;
mod upsert_config;
mod upsert_job;
mod upsert_progress;

use std::path::Path;

use dyad_index::Snapshot;
use dyad_index::manifest::{Change, Manifest, ShardEntry};

pub use calibrate::{CalibrateConfig, calibrate};
pub use delete::{DeleteConfig, delete, delete_documents};
pub use merge::{MergeConfig, merge};
pub use merge_policy::select_mergeable;
pub use metadata::{MetadataConfig, update_metadata};
pub use passages::{Passages, passages_of};
pub use purge::{PurgeConfig, Purged, purge};
pub use question_sample::embed_questions;
pub use reembed::{ReembedConfig, ReembedEstimate, estimate, reembed};
pub use triage::Operation;
pub use upsert::{upsert, upsert_after};
pub use upsert_config::UpsertConfig;

use crate::draft::Draft;
use crate::error::Error;
use crate::publish::publish;

/// Generations that others may publish while a change is prepared for its publication, before it gives up.
const ATTEMPTS: usize = 50;

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
    fn of<'k>(
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

/// Publishes the draft that `prepare` makes of the current generation, and of each that becomes current meanwhile. With
/// `dry_run`, nothing is published.
///
/// The draft of the first generation may rely on what was read of it: that a document was there with the same text,
/// that a shard had these live documents. `prepare` also gets the generation that the draft before was made of, where
/// another one has become current since, and looks at what it relies on again: the two may differ in any way, for
/// instance by a rollback. What it cannot mend ends the change with [`Error::Contended`].
fn commit(
    index: &Path,
    dry_run: bool,
    base: Snapshot,
    mut prepare: impl FnMut(Option<&Snapshot>, &Snapshot) -> Result<Option<Draft>, Error>,
) -> Result<ChangeOutcome, Error> {
    // The first one is held to the end: what was copied of it may be purged only where it can be purged of the new
    // shards too.
    let first = base;
    let (mut before, mut later): (Option<Snapshot>, Option<Snapshot>) = (None, None);
    for attempt in 0..ATTEMPTS {
        let base = later.as_ref().unwrap_or(&first);
        let documents_before = base.manifest().documents();
        let last = if attempt == 0 {
            None
        } else {
            Some(before.as_ref().unwrap_or(&first))
        };
        let Some(draft) = prepare(last, base)? else {
            let change = Change::default();
            let (documents_after, missing) = (documents_before, MissingKeys::default());
            return Ok(ChangeOutcome {
                manifest: None,
                change,
                documents_before,
                documents_after,
                missing,
            });
        };
        let (change, documents_after) = (draft.change.clone(), draft.documents());
        let missing = MissingKeys::default();
        if dry_run {
            return Ok(ChangeOutcome {
                manifest: None,
                change,
                documents_before,
                documents_after,
                missing,
            });
        }
        if let Some(manifest) = publish(index, draft, false)? {
            return Ok(ChangeOutcome {
                manifest: Some(manifest),
                change,
                documents_before,
                documents_after,
                missing,
            });
        }
        let next = Snapshot::open_after(index, Some(base))?;
        before = later.replace(next);
    }
    Err(Error::Contended)
}

/// The shards of a generation, and their entries.
fn shards(base: &Snapshot) -> impl Iterator<Item = (&ShardEntry, &dyad_index::snapshot::Shard)> {
    base.manifest().shards.iter().zip(base.shards())
}
