//! The mark of a publish in progress: an empty file `.publishing-NNNNNN`, made durable before the manifest is written
//! and removed after `CURRENT` names it. A manifest with a mark that `CURRENT` does not name was never published.
//!
//! A roll-back also leaves manifests above `CURRENT`; those have no mark, and remain available. Indexes of earlier
//! releases have no marks at all.

use std::io::ErrorKind;
use std::path::Path;

use dyad_files::sync_dir;

use super::pointer::{current_generation, generation_of, manifest_name, names, numbers};
use crate::error::Result;
use crate::storage::WriteLock;

const PREFIX: &str = ".publishing-";

/// File name of a generation's mark.
pub fn mark_name(generation: u64) -> String {
    format!("{PREFIX}{generation:06}")
}

fn marked_generation(name: &str) -> Option<u64> {
    let generation = name.strip_prefix(PREFIX)?.parse().ok()?;
    (mark_name(generation) == name).then_some(generation)
}

/// Marks a generation that is about to be published. The caller makes the index's directory durable before the
/// manifest has its name.
pub(super) fn begin(index: &Path, generation: u64) -> Result<()> {
    fs_err::File::create(index.join(mark_name(generation)))?;
    Ok(())
}

/// Removes the mark once `CURRENT` names the generation. This is durable before `CURRENT` moves again: the next publish
/// makes the directory durable with its own mark, and everything else settles first.
pub(super) fn end(index: &Path, generation: u64) -> Result<()> {
    remove(&index.join(mark_name(generation)))
}

fn remove(path: &Path) -> Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Of generations with a mark, those that `CURRENT` does not name.
fn unpublished(index: &Path, mut marked: Vec<u64>) -> Vec<u64> {
    if !marked.is_empty() {
        // Unknown where the pointer is damaged; then no manifest is removed.
        let Ok(current) = current_generation(index) else {
            return Vec::new();
        };
        marked.retain(|generation| current != Some(*generation));
    }
    marked
}

/// Generations that were published and whose manifests are on disk, ascending.
pub fn generations(index: &Path) -> Result<Vec<u64>> {
    let names = names(index)?;
    let unpublished = unpublished(index, numbers(&names, marked_generation));
    let mut found = numbers(&names, generation_of);
    found.retain(|generation| !unpublished.contains(generation));
    Ok(found)
}

/// Removes what killed publishes have left: manifests that `CURRENT` never named, and marks. The lock proves that none
/// is in progress. The shards of such a manifest are then unreferenced. Returns the generations that are left,
/// ascending.
pub fn settle(index: &Path, _lock: &WriteLock) -> Result<Vec<u64>> {
    // Once: there may be thousands of generations.
    let names = names(index)?;
    let (marked, mut found) = (numbers(&names, marked_generation), numbers(&names, generation_of));
    if marked.is_empty() {
        return Ok(found);
    }
    let unpublished = unpublished(index, marked.clone());
    for generation in &unpublished {
        tracing::info!("removing the manifest of generation {generation}, which was never published");
        remove(&index.join(manifest_name(*generation)))?;
    }
    sync_dir(index)?;
    marked
        .into_iter()
        .try_for_each(|generation| remove(&index.join(mark_name(generation))))?;
    sync_dir(index)?;
    found.retain(|generation| !unpublished.contains(generation));
    Ok(found)
}
