//! Makes an earlier generation current, without a searcher.

use std::path::Path;

use dyad_index::Snapshot;
use dyad_index::manifest::{self, Manifest};
use dyad_index::storage::WriteLock;

use crate::error::Error;

/// Where a rollback went.
#[derive(Debug, Clone, PartialEq)]
pub struct RolledBack {
    /// The generation that was current, where `CURRENT` could be read.
    pub before: Option<u64>,
    /// The generation that is current now.
    pub manifest: Manifest,
}

/// Makes a published generation current: the one named, or the one that was current before the current one was
/// published. It is opened first, and `CURRENT` does not move where that fails.
///
/// Bytes are not read: that is what `dyad_index::verify` is for. With `dry_run`, nothing moves.
pub fn roll_back(index: &Path, generation: Option<u64>, dry_run: bool) -> Result<RolledBack, Error> {
    if !index.is_dir() {
        return Err(dyad_index::Error::NoIndex { path: index.to_owned() }.into());
    }
    let lock = WriteLock::acquire(index)?;
    let (before, wanted) = if let Some(generation) = generation {
        // Also repairs a damaged pointer.
        (manifest::current_generation(index).ok().flatten(), generation)
    } else {
        let none = || dyad_index::Error::NoIndex { path: index.to_owned() };
        let before = manifest::current_generation(index)?.ok_or_else(none)?;
        (Some(before), manifest::predecessor(index, before)?)
    };
    let snapshot = Snapshot::open_manifest(index, manifest::load(index, wanted)?, None)?;
    if !dry_run {
        manifest::point_to(index, wanted, &lock)?;
    }
    Ok(RolledBack {
        before,
        manifest: snapshot.manifest().clone(),
    })
}
