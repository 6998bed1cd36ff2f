//! Changes of an index: documents added, replaced and deleted, shards merged. Each is one generation.
//!
//! A change is prepared from the current generation without the lock, and published only where that one is still current;
//! otherwise it is prepared again, from the one that is. What takes long (vectors, graphs) is done once.
//!
//! | file | contents |
//! |---|---|
//! | `deletions.rs` | shards of a generation without some of their documents |
//! | `upsert.rs` | `append` and `upsert`: documents in, shards out |
//! | `triage.rs` | which documents of a batch are new, need another vector, or are in the index as they are |
//! | `staged.rs` | a batch on disk, of which the last record of each key counts |
//! | `passages.rs` | passages of documents: those that an index has, and those that a document no longer has |
//! | `delete.rs` | `delete` |
//! | `metadata.rs` | `upsert --metadata-only` |
//! | `merge.rs` | `merge`, and which shards should be |
//! | `reembed.rs` | `reembed`: the vectors of another model, from the stored texts |
//! | `stored.rs` | the live documents of a generation as a batch of a corpus |
//! | `purge.rs` | `purge`: documents removed from every generation |

mod delete;
mod deletions;
mod merge;
mod metadata;
mod passages;
mod purge;
mod reembed;
mod staged;
mod stored;
mod triage;
mod upsert;

use std::path::Path;

use dyad_index::Snapshot;
use dyad_index::manifest::{Change, Manifest, ShardEntry};

pub use delete::delete;
pub use merge::{MergeConfig, merge, mergeable};
pub use metadata::{MetadataConfig, update_metadata};
pub use passages::{Passages, passages_of};
pub use purge::{Purged, purge};
pub use reembed::{Estimate, ReembedConfig, estimate, reembed};
pub use triage::Operation;
pub use upsert::{UpsertConfig, upsert};

use crate::error::Error;
use crate::publish::{Draft, publish};

/// Generations that others may publish while a change is prepared for its publication, before it gives up.
const ATTEMPTS: usize = 50;

/// What a change did, or would do.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The new generation; none where there was nothing to change, or nothing was to be changed.
    pub manifest: Option<Manifest>,
    /// What was read, and what became of it.
    pub change: Change,
    /// Documents before.
    pub documents_before: u64,
    /// Documents after.
    pub documents_after: u64,
}

/// A change, prepared from a generation; none where it changes nothing.
type Prepared<'a> = Result<Option<Draft<'a>>, Error>;

/// Publishes what `prepare` makes of the current generation, and of each that becomes current meanwhile. With `dry_run`,
/// nothing is published.
fn commit<'a>(
    index: &Path,
    dry_run: bool,
    base: Snapshot,
    mut prepare: impl FnMut(&Snapshot) -> Prepared<'a>,
) -> Result<Outcome, Error> {
    let mut base = base;
    for _ in 0..ATTEMPTS {
        let documents_before = base.manifest().documents();
        let Some(draft) = prepare(&base)? else {
            let change = Change::default();
            return Ok(Outcome { manifest: None, change, documents_before, documents_after: documents_before });
        };
        let (change, documents_after) = (draft.change.clone(), draft.documents());
        if dry_run {
            return Ok(Outcome { manifest: None, change, documents_before, documents_after });
        }
        if let Some(manifest) = publish(index, draft, false)? {
            return Ok(Outcome { manifest: Some(manifest), change, documents_before, documents_after });
        }
        base = Snapshot::open_after(index, Some(&base))?;
    }
    Err(Error::Contended)
}

/// The shards of a generation, and their entries.
fn shards(base: &Snapshot) -> impl Iterator<Item = (&ShardEntry, &dyad_index::snapshot::Shard)> {
    base.manifest().shards.iter().zip(base.shards())
}
