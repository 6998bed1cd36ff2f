//! Removes generations that nobody needs any more, and the files that no generation names.
//!
//! The manifests go first, under the index's lock, and are durably gone before any shard is touched: a manifest without
//! its shards would be worse than shards without a manifest. A generation that a process of this machine reads stays.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dyad_files::space::bytes_below;
use dyad_index::manifest::{self, Manifest, SHARD_FOLDERS, ShardEntry, manifest_name};
use dyad_index::storage::WriteLock;
use fail::fail_point;
use serde::Serialize;

use crate::error::Error;
use crate::job::{Workspace, kept_shards_in, remove_kept_shard};
use crate::source::left_in;

/// What to do about the manifest of a generation that is kept.
const UNREADABLE: &str = "It may name any file, so nothing was removed. Put an intact copy there (written under another name, \
                          then `mv`), or give the generation up by a smaller number for `dyad-indexer gc --keep`";

/// What was removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CollectedGenerations {
    /// Generations that were removed, ascending.
    pub removed: Vec<u64>,
    /// Generations that a process of this machine reads: they are still there.
    pub in_use: Vec<u64>,
    /// Generations that are left.
    pub kept: Vec<u64>,
    /// Bytes of their manifests, and of files that no generation names any more.
    pub bytes: u64,
}

/// Removes all generations but the current one, the newest `keep`, and those published within `older_than`; then what
/// no generation names, and what killed jobs have left.
pub fn gc(index: &Path, keep: usize, older_than: Duration, dry_run: bool) -> Result<CollectedGenerations, Error> {
    if let Err(error) = manifest::current(index) {
        let is_begun = matches!(error, dyad_index::Error::NoIndex { .. }) && index.is_dir();
        return if is_begun {
            remove_kept_of(index, dry_run, error)
        } else {
            Err(error.into())
        };
    }
    let present = manifest::generations(index)?;
    let oldest_kept = present.len().saturating_sub(keep);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut unneeded = BTreeSet::new();
    for generation in present.into_iter().take(oldest_kept) {
        let created = match manifest::load(index, generation) {
            Ok(manifest) => Duration::from_secs(manifest.created_unix_s),
            // Nobody can read it: its file tells how old it is.
            Err(dyad_index::Error::Format { .. }) => match written_at(&index.join(manifest_name(generation))) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                written => written?,
            },
            // Another job has removed it.
            Err(dyad_index::Error::NoGeneration { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        if now.saturating_sub(created) >= older_than {
            unneeded.insert(generation);
        }
    }
    remove_generations(index, &unneeded, dry_run)
}

/// When a file was written, since the epoch.
fn written_at(path: &Path) -> std::io::Result<Duration> {
    let modified = fs_err::metadata(path)?.modified()?;
    Ok(modified.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The names of the shards of all generations whose manifests can be read.
pub(crate) fn shards_of_all_generations(index: &Path) -> Result<BTreeSet<String>, Error> {
    let mut shards = BTreeSet::new();
    for generation in manifest::generations(index)? {
        match manifest::load(index, generation) {
            Ok(manifest) => shards.extend(manifest.shards.into_iter().map(|entry| entry.id)),
            Err(dyad_index::Error::Format { .. } | dyad_index::Error::NoGeneration { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(shards)
}

/// Removes generations, except the current one and those that are read, and the files that no generation names then.
///
/// Of one that stays it must be known which files it names. One that goes need not be readable, unless a process reads
/// it.
pub(crate) fn remove_generations(
    index: &Path,
    unneeded: &BTreeSet<u64>,
    dry_run: bool,
) -> Result<CollectedGenerations, Error> {
    let mut collected = CollectedGenerations::default();
    fail_point!("generations-remove");
    let lock = WriteLock::acquire(index)?;
    let current = manifest::current(index)?.generation;
    // Of a dry run, where another one would have been published first, it may be named too.
    let stays = |generation: u64| !unneeded.contains(&generation) || (generation == current && !dry_run);
    let mut manifests = Vec::new();
    // What stays is read before anything goes.
    let (staying, going): (Vec<u64>, Vec<u64>) = manifest::generations(index)?
        .into_iter()
        .partition(|generation| stays(*generation));
    for generation in staying {
        manifests.push(manifest::load(index, generation).map_err(unreadable)?);
    }
    let mut manifest_bytes = 0;
    for generation in going {
        let manifest = manifest::load(index, generation);
        let bytes = fs_err::metadata(index.join(manifest_name(generation))).map_or(0, |metadata| metadata.len());
        if dry_run || remove_one(index, generation, &lock)? {
            collected.removed.push(generation);
            manifest_bytes += bytes;
        } else {
            collected.in_use.push(generation);
            manifests.push(manifest.map_err(unreadable)?);
        }
    }
    collected.kept = manifests.iter().map(|manifest| manifest.generation).collect();
    collected.kept.sort_unstable();
    collected.bytes = manifest_bytes + unnamed_bytes(index, &manifests)?;
    drop(lock);
    collected.bytes += remove_kept(index, dry_run)?;
    if !dry_run {
        // Removes what no manifest names, and what killed jobs have left.
        drop(Workspace::create(index)?);
    }
    Ok(collected)
}

/// The error of a manifest that stays and cannot be read, with what to do about it.
fn unreadable(error: dyad_index::Error) -> Error {
    let error = match error {
        dyad_index::Error::Format {
            path,
            part,
            expected,
            got,
            ..
        } => dyad_index::Error::Format {
            path,
            part,
            expected,
            got,
            hint: UNREADABLE,
        },
        error => error,
    };
    error.into()
}

/// Of an index that has no generation yet: what its builds have left, or the error where they have left nothing.
fn remove_kept_of(index: &Path, dry_run: bool, error: dyad_index::Error) -> Result<CollectedGenerations, Error> {
    match remove_kept(index, dry_run)? {
        0 => Err(error.into()),
        bytes => Ok(CollectedGenerations {
            bytes,
            ..CollectedGenerations::default()
        }),
    }
}

/// Removes vectors and shards that ended jobs have kept, and returns their bytes.
fn remove_kept(index: &Path, dry_run: bool) -> Result<u64, Error> {
    let mut bytes = 0;
    for (kept, _locks) in left_in(index)? {
        bytes += bytes_below(&kept)?;
        if !dry_run {
            fs_err::remove_dir_all(kept)?;
        }
    }
    for (kept, lock) in kept_shards_in(index)? {
        bytes += bytes_below(&kept)?;
        if !dry_run {
            remove_kept_shard(index, &kept, &lock)?;
        }
    }
    Ok(bytes)
}

fn remove_one(index: &Path, generation: u64, lock: &WriteLock) -> Result<bool, Error> {
    fail_point!("generation-remove");
    Ok(manifest::remove(index, generation, lock)?)
}

/// Bytes in the folders of shards that none of these generations names.
pub(crate) fn unnamed_bytes(index: &Path, manifests: &[Manifest]) -> Result<u64, Error> {
    let parts = manifests.iter().flat_map(|one| &one.shards).flat_map(ShardEntry::parts);
    let named: BTreeSet<(&str, &str)> = parts.map(|part| (part.folder, part.name)).collect();
    let mut bytes = 0;
    for folder in SHARD_FOLDERS {
        let dir = index.join(folder);
        if !dir.exists() {
            continue;
        }
        for entry in fs_err::read_dir(&dir)? {
            let entry = entry?;
            if !named.contains(&(folder, entry.file_name().to_string_lossy().as_ref())) {
                bytes += bytes_below(&entry.path())?;
            }
        }
    }
    Ok(bytes)
}
