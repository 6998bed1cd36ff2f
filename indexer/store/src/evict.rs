//! Generations of a mirror that nobody needs any more are removed, and then the files that no generation names; where a
//! mirror holds a part of its generation, also those of shards that are not of it.
//!
//! As for every index, the manifest goes first, under the index's lock, and a generation that a process of this machine
//! reads stays. So do the files of a shard that a process has open, in every generation.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dyad_index::manifest::{self, Manifest, SHARD_FOLDERS, SHARDS_DIR};
use dyad_index::shard::RemovalLock;
use dyad_index::storage::WriteLock;

use crate::error::Result;
use crate::fetched::FetchedRecord;
use crate::files::{IndexFile, files_of_shards};

/// Folder of what is being removed, below the index.
const REMOVED: &str = ".removed";

/// A generation of a mirror that is not current.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EvictableGeneration {
    pub(crate) created_unix_s: u64,
    pub(crate) generation: u64,
    pub(crate) index: PathBuf,
}

/// The mirrors of a cache: its folders that are indexes.
pub(crate) fn mirrors(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() && !matches!(manifest::current_generation(&path), Ok(None)) {
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The generations of all mirrors that are not current, the oldest first; what cannot be read is left out.
pub(crate) fn oldest_first(folder: &Path) -> Result<Vec<EvictableGeneration>> {
    let mut found = Vec::new();
    for index in mirrors(folder)? {
        let Ok(current) = manifest::current_generation(&index) else {
            continue;
        };
        for generation in manifest::generations(&index)?
            .into_iter()
            .filter(|one| Some(*one) != current)
        {
            if let Ok(Manifest { created_unix_s, .. }) = manifest::load(&index, generation) {
                found.push(EvictableGeneration {
                    created_unix_s,
                    generation,
                    index: index.clone(),
                });
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Removes a generation that is neither current nor read, and the files that no other generation, nor `spared`, names
/// then; says whether it did.
pub(crate) fn remove(index: &Path, generation: u64, spared: &[IndexFile]) -> Result<bool> {
    let lock = WriteLock::acquire(index)?;
    let is_removed = manifest::remove(index, generation, &lock)?;
    drop(lock);
    if is_removed {
        sweep(index, spared)?;
    }
    Ok(is_removed)
}

/// Removes the files that no generation, nor `spared`, names, or names for a shard alone that the mirror does not hold:
/// also those that a killed pull or removal has left.
pub(crate) fn sweep(index: &Path, spared: &[IndexFile]) -> Result<()> {
    sweep_but(index, spared, FetchedRecord::held_shards(index))
}

/// The same, and of what the mirror holds all that neither `spared` names nor a process has open.
pub(crate) fn sweep_unread(index: &Path, spared: &[IndexFile]) -> Result<()> {
    sweep_but(index, spared, Some(BTreeSet::new()))
}

/// Of the shards with these ids, or of all, what generations name stays.
fn sweep_but(index: &Path, spared: &[IndexFile], ids: Option<BTreeSet<String>>) -> Result<()> {
    let removed = index.join(REMOVED);
    ignore_missing(fs_err::remove_dir_all(&removed))?;
    let lock = WriteLock::acquire(index)?;
    manifest::settle(index, &lock)?;
    let mut named: BTreeSet<PathBuf> = spared.iter().map(place_of).collect();
    let held = MirroredShards::with_open(index, &named, ids)?;
    for generation in manifest::generations(index)? {
        // One that cannot be read may name any file: then none is removed.
        let manifest = manifest::load(index, generation)?;
        let shards = manifest.shards.iter().filter(|shard| held.has(&shard.id));
        named.extend(files_of_shards(shards).iter().map(place_of));
    }
    for folder in SHARD_FOLDERS {
        for path in entries(&index.join(folder))? {
            let place = Path::new(folder).join(path.file_name().unwrap_or_default());
            if !named.contains(&place) {
                fs_err::create_dir_all(removed.join(folder))?;
                fs_err::rename(&path, removed.join(&place))?;
            }
        }
    }
    // Removing large files takes time, and needs no lock.
    drop(held);
    drop(lock);
    ignore_missing(fs_err::remove_dir_all(removed)).map(drop)
}

/// The shards whose files stay in a mirror.
struct MirroredShards {
    /// Their ids; none where all that generations name stay.
    ids: Option<BTreeSet<String>>,
    /// As long as the others are removed, nobody opens them.
    _others: Vec<RemovalLock>,
}

impl MirroredShards {
    /// Those with these ids, and those that a process has open. What is `named` stays in any case, and can be opened.
    fn with_open(index: &Path, named: &BTreeSet<PathBuf>, ids: Option<BTreeSet<String>>) -> Result<Self> {
        let mut others = Vec::new();
        let Some(mut ids) = ids else {
            return Ok(Self {
                ids: None,
                _others: others,
            });
        };
        for path in entries(&index.join(SHARDS_DIR))? {
            let id = path.file_name().unwrap_or_default();
            let id = id.to_string_lossy().into_owned();
            if ids.contains(&id) {
                continue;
            }
            match RemovalLock::acquire(&path)? {
                Some(_) if named.contains(&Path::new(SHARDS_DIR).join(&id)) => {}
                Some(lock) => others.push(lock),
                None => _ = ids.insert(id),
            }
        }
        Ok(Self {
            ids: Some(ids),
            _others: others,
        })
    }

    fn has(&self, id: &str) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(id))
    }
}

/// What a file is moved with: a directory of the index's folders, or itself.
fn place_of(file: &IndexFile) -> PathBuf {
    file.entry.path.splitn(3, '/').take(2).collect()
}

/// Bytes of all files below a path, but for those below `other`.
pub(crate) fn bytes_below(path: &Path, other: &Path) -> Result<u64> {
    if path == other {
        return Ok(0);
    }
    let Some(found) = ignore_missing(fs_err::symlink_metadata(path))? else {
        return Ok(0);
    };
    if !found.is_dir() {
        return Ok(found.len());
    }
    entries(path)?.iter().map(|path| bytes_below(path, other)).sum()
}

/// What is in a folder; nothing where there is none.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let Some(found) = ignore_missing(fs_err::read_dir(folder))? else {
        return Ok(Vec::new());
    };
    found.map(|entry| Ok(entry?.path())).collect()
}

/// None for what is not there, or not any more.
fn ignore_missing<T>(result: std::io::Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        result => Ok(Some(result?)),
    }
}
