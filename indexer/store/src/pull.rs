//! The current generation of a store to an index directory: all files are fetched and verified next to it, then moved
//! into it, then published.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_files::space::{FreeSpace, check_space, free_space};
use dyad_files::{Cancel, DirLock, LockError, create_dir_synced, sync_dir};
use dyad_index::manifest::{self, DELETIONS_DIR, SHARD_FOLDERS};
use dyad_index::storage::WriteLock;

use crate::error::{Error, Result};
use crate::files::{IndexFile, files_of_part};
use crate::learned::{Direction, LearnedMove, move_learned};
use crate::remote::{Current, RemoteStore};
use crate::transfers::{PARTIAL, all};

/// Folder of what is fetched, below the index.
pub(crate) const STAGING: &str = ".pull";
/// How long a pull waits for another one into the same directory.
const PATIENCE: Duration = Duration::from_secs(10);

/// How an index is pulled.
#[derive(Debug, Clone, Copy)]
pub struct PullOptions {
    /// Returns the free space of the index's disk.
    pub free_space: FreeSpace,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self { free_space }
    }
}

/// What a pull did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The generation that is current now.
    pub generation: u64,
    /// Files that were fetched.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Files that were there already.
    pub present: u64,
    /// Whether the directory's generation is another one than before, or has files that it had not.
    pub is_new: bool,
    /// What was learned for the index, where the store has other files than the directory.
    pub learned: Vec<LearnedMove>,
}

/// Makes the store's current generation that of a directory, which is created where it does not exist. Files that it
/// has are kept. Whatever ends it, the index is as it was, or has all of the new generation; pulling again goes on with
/// what is missing. `cancel` is polled between pieces of files.
///
/// What was learned for the index comes with it, but not over what was learned in the directory since.
///
/// A directory whose current generation the store does not have is refused: it was changed, and not pushed.
pub async fn pull(remote: &RemoteStore, index: &Path, options: &PullOptions, cancel: &dyn Cancel) -> Result<Pulled> {
    let Some(there) = remote.current().await? else {
        return Err(Error::Absent {
            url: remote.url().to_owned(),
        });
    };
    let pulling = Pulling {
        options,
        patience: PATIENCE,
        direction: Direction::Pull,
        numbers: None,
    };
    pull_generation(remote, &there, index, pulling, cancel).await
}

/// The same for some shards of a generation of the store, which is `there` ([`RemoteStore::current`]): those with these
/// numbers, which are positions in its manifest, ascending and each once. The directory has the whole manifest then,
/// and is to be opened by [`Snapshot::open_part`](dyad_index::Snapshot::open_part). Files of other shards that it has
/// stay. An error where the numbers are not ascending or there is no such shard.
pub async fn pull_part(
    remote: &RemoteStore,
    there: &Current,
    numbers: &[usize],
    index: &Path,
    options: &PullOptions,
    cancel: &dyn Cancel,
) -> Result<Pulled> {
    let pulling = Pulling {
        options,
        patience: PATIENCE,
        direction: Direction::Pull,
        numbers: Some(numbers),
    };
    pull_generation(remote, there, index, pulling, cancel).await
}

/// How a generation is pulled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pulling<'a> {
    pub(crate) options: &'a PullOptions,
    /// How long another pull into the same directory is waited for.
    pub(crate) patience: Duration,
    /// Whose files of what was learned count.
    pub(crate) direction: Direction,
    /// Which shards, by their positions in the manifest; all where absent.
    pub(crate) numbers: Option<&'a [usize]>,
}

/// Makes this generation of a store that of a directory, or the part of it that is asked for.
pub(crate) async fn pull_generation(
    remote: &RemoteStore,
    there: &Current,
    index: &Path,
    Pulling {
        options,
        patience,
        direction,
        numbers,
    }: Pulling<'_>,
    cancel: &dyn Cancel,
) -> Result<Pulled> {
    let generation = there.manifest.generation;
    let files = files_of_part(&there.manifest, numbers)?;
    create_dir_synced(index)?;
    let was_current = is_current(index, there);
    if !was_current {
        refuse_others(remote, index, generation, &there.bytes).await?;
    }
    // Before the generation is current, so that who opens it finds what was learned.
    let learned = move_learned(index, remote, direction).await;
    if was_current && missing(&files, index)?.is_empty() {
        return Ok(Pulled {
            learned,
            ..already(&files, generation, false)
        });
    }
    let staging = index.join(STAGING);
    fs_err::create_dir_all(&staging)?;
    let alone = DirLock::acquire(&staging, patience).map_err(|error| match error {
        LockError::Held { holder, .. } => Error::Held {
            index: index.to_owned(),
            holder,
        },
        LockError::Io(error) => Error::Io(error),
    })?;
    // Another process may have fetched it while this one waited: what that one serves is not fetched again and put in
    // its place.
    let missing = missing(&files, index)?;
    if missing.is_empty() && is_current(index, there) {
        return Ok(Pulled {
            learned,
            ..already(&files, generation, !was_current)
        });
    }
    trim(
        &staging,
        Path::new(""),
        &missing.iter().map(|file| &*file.entry.path).collect(),
    )?;
    let needed = missing.iter().map(|file| file.entry.bytes).sum();
    check_space(index, needed, options.free_space)?;
    let one = async |file: &&IndexFile, cancel: &dyn Cancel| {
        let to = staging.join(&file.entry.path);
        if file.is_at(&staging, true)? {
            return Ok(false);
        }
        remote.fetch_file(&file.entry.path, &file.entry, &to, cancel).await?;
        Ok(true)
    };
    let fetched = all(&missing, one, cancel).await?;
    // One that was rolled back: its number is not given to another one here. A reader may be allowed to read, and not
    // to list.
    let there_too = remote.manifest_objects().await.unwrap_or_default();
    let newest_there = there_too.last().map_or(generation, |(newest, _)| *newest);
    let lock = WriteLock::acquire(index)?;
    place(index, &staging, &missing)?;
    // What was there may have been removed meanwhile.
    if let Some(file) = self::missing(&files, index)?.first() {
        let (expected, got) = (
            "as it was before the files were fetched".to_owned(),
            "none any more".to_owned(),
        );
        return Err(Error::DamagedFile {
            path: index.join(&file.entry.path),
            part: "file",
            expected,
            got,
        });
    }
    manifest::adopt(index, &there.bytes, &lock)?;
    if newest_there > generation {
        manifest::note_number(index, newest_there, &lock)?;
    }
    drop(lock);
    clear(&staging)?;
    drop(alone);
    let count = fetched.iter().map(|fetched| u64::from(*fetched)).sum();
    let present = (files.len() - missing.len()) as u64;
    Ok(Pulled {
        generation,
        files: count,
        bytes: needed,
        present,
        is_new: true,
        learned,
    })
}

/// Whether the directory's `CURRENT` is the store's.
pub(crate) fn is_current(index: &Path, there: &Current) -> bool {
    fs_err::read_to_string(index.join(manifest::POINTER)).is_ok_and(|pointer| pointer == there.pointer)
}

/// Nothing was fetched.
fn already(files: &[IndexFile], generation: u64, is_new: bool) -> Pulled {
    Pulled {
        generation,
        files: 0,
        bytes: 0,
        present: files.len() as u64,
        is_new,
        learned: Vec::new(),
    }
}

/// Refuses a directory that has another manifest under the number, or a current generation that the store has not.
async fn refuse_others(remote: &RemoteStore, index: &Path, generation: u64, bytes: &[u8]) -> Result<()> {
    let (url, directory) = (remote.url().to_owned(), index.to_owned());
    let own = index.join(manifest::manifest_name(generation));
    if own.exists() && fs_err::read(&own)? != bytes {
        return Err(Error::OtherLineage {
            url,
            index: directory,
            generation,
        });
    }
    let Some(current) = manifest::current_generation(index)? else {
        return Ok(());
    };
    let own = fs_err::read(index.join(manifest::manifest_name(current)))?;
    if current == generation || remote.has_manifest(current, &own).await? {
        return Ok(());
    }
    Err(Error::NotPushed {
        url,
        index: directory,
        generation: current,
    })
}

/// Files that are not in the index.
pub(crate) fn missing<'a>(files: &'a [IndexFile], index: &Path) -> Result<Vec<&'a IndexFile>> {
    let mut missing = Vec::new();
    for file in files {
        if !file.is_at(index, false)? {
            missing.push(file);
        }
    }
    Ok(missing)
}

/// Removes from a folder below the staging folder what an ended pull of another generation has left there.
fn trim(staging: &Path, below: &Path, missing: &BTreeSet<&str>) -> Result<()> {
    let is_of_use = |path: &Path| {
        let path = path.to_string_lossy();
        missing.contains(path.strip_suffix(PARTIAL).unwrap_or(&path))
    };
    for entry in fs_err::read_dir(staging.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            trim(staging, &path, missing)?;
        } else if path != Path::new(DirLock::FILE) && !is_of_use(&path) {
            fs_err::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Empties the staging folder; its lock stays.
fn clear(staging: &Path) -> Result<()> {
    for entry in fs_err::read_dir(staging)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs_err::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Moves what was fetched into the index: whole directories where the index lacks them, else file by file.
fn place(index: &Path, staging: &Path, missing: &[&IndexFile]) -> Result<()> {
    let mut changed: BTreeSet<PathBuf> = BTreeSet::new();
    for file in missing {
        let mut parts = file.entry.path.splitn(3, '/');
        let (folder, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let below = Path::new(folder).join(name);
        fs_err::create_dir_all(index.join(folder))?;
        if folder != DELETIONS_DIR && !index.join(&below).exists() {
            fs_err::rename(staging.join(&below), index.join(&below))?;
        } else if staging.join(&file.entry.path).exists() {
            let to = index.join(&file.entry.path);
            if let Some(parent) = to.parent() {
                fs_err::create_dir_all(parent)?;
            }
            fs_err::rename(staging.join(&file.entry.path), &to)?;
        }
        changed.extend([
            index.join(folder),
            index.join(&file.entry.path).parent().unwrap_or(index).to_owned(),
        ]);
    }
    for folder in SHARD_FOLDERS.map(|folder| index.join(folder)) {
        if folder.is_dir() {
            changed.insert(folder);
        }
    }
    for directory in changed.iter().filter(|directory| directory.is_dir()) {
        sync_dir(directory)?;
    }
    sync_dir(index)?;
    Ok(())
}
