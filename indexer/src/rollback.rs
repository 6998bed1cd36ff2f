//! Makes an earlier generation current, without a searcher.

use std::path::Path;

use dyad_index::Snapshot;
use dyad_index::manifest::{self, Manifest};
use dyad_index::storage::WriteLock;

use crate::error::Error;

/// Makes a published generation current: the one named, or the one that was current before the current one was published.
/// It is opened first, and `CURRENT` does not move where that fails.
///
/// Returns the generation that was current, where `CURRENT` could be read, and the manifest of the one that is now. Bytes
/// are not read: that is what `dyad_index::verify` is for.
pub fn roll_back(index: &Path, generation: Option<u64>) -> Result<(Option<u64>, Manifest), Error> {
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
    let snapshot = Snapshot::open_manifest(index, manifest::load(index, wanted)?)?;
    manifest::point_to(index, wanted, &lock)?;
    Ok((before, snapshot.manifest().clone()))
}
