//! `maintain`: what keeps an index small and fast next to small changes, in one call: shards are merged as long as some
//! should be, then generations that nobody needs are removed.

use std::time::Duration;

use dyad_index::manifest::Change;

use crate::change::{ChangeOutcome, MergeConfig, merge};
use crate::control::JobControl;
use crate::error::Error;
use crate::gc::{CollectedGenerations, gc};

/// Merges one after another: each makes shards of a larger size, of which there may be too many then.
const MOST_MERGES: usize = 16;

/// Which generations are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The newest ones, the current one among them or not.
    pub keep: usize,
    /// Those that are younger.
    pub older_than: Duration,
}

/// What was done.
#[derive(Debug)]
pub struct Maintained {
    /// All merges as one.
    pub outcome: ChangeOutcome,
    /// Generations that were removed.
    pub collected: CollectedGenerations,
}

/// Merges the shards that should be merged, and removes generations. In a dry run the first merge is looked at, and the
/// generations as they are.
pub fn maintain(config: &MergeConfig, retention: Retention, control: JobControl<'_>) -> Result<Maintained, Error> {
    let mut outcome = merge(config, control)?;
    for _ in 1..MOST_MERGES {
        if outcome.manifest.is_none() {
            break;
        }
        let next = merge(config, control)?;
        if next.manifest.is_none() {
            break;
        }
        outcome = ChangeOutcome {
            change: Change {
                read: outcome.change.read + next.change.read,
                indexed: outcome.change.indexed + next.change.indexed,
                ..next.change
            },
            documents_before: outcome.documents_before,
            ..next
        };
    }
    let Retention { keep, older_than } = retention;
    let collected = gc(&config.index, keep, older_than, config.dry_run)?;
    Ok(Maintained { outcome, collected })
}
