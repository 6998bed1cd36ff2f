//! The current generation of a store to an index directory: all files are fetched and verified next to it, then moved into it, then published.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_files::space::{FreeSpace, check_space, free_space};
use dyad_files::{DirLock, create_dir_synced, sync_dir};
use dyad_index::manifest::{self, DELETIONS_DIR, METADATA_DIR, SHARDS_DIR};
use dyad_index::storage::WriteLock;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::error::{Error, Result};
use crate::files::{IndexFile, files_of};
use crate::push::AT_ONCE;
use crate::remote::Remote;

/// Folder of what is fetched, below the index.
const STAGING: &str = ".pull";
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulled {
    /// The generation that is current now.
    pub generation: u64,
    /// Files that were fetched.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Files that were there already.
    pub present: u64,
    /// Whether the directory's generation is another one than before.
    pub is_new: bool,
}

/// Makes the store's current generation that of a directory, which is created where it does not exist. Files that it has are kept. Whatever ends it,
/// the index is as it was, or has all of the new generation; pulling again goes on with the files that are missing. `go_on` is asked between files
/// and pieces of them.
pub async fn pull(
    remote: &Remote,
    index: &Path,
    options: &PullOptions,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Pulled> {
    let Some(there) = remote.current().await? else { return Err(Error::Absent { url: remote.url().to_owned() }) };
    let generation = there.manifest.generation;
    create_dir_synced(index)?;
    let files = files_of(&there.manifest);
    if fs_err::read_to_string(index.join(manifest::POINTER)).is_ok_and(|pointer| pointer == there.pointer) {
        let present = files.len() as u64;
        return Ok(Pulled { generation, files: 0, bytes: 0, present, is_new: false });
    }
    let own = index.join(manifest::manifest_name(generation));
    if own.exists() && fs_err::read(&own)? != there.bytes {
        return Err(Error::OtherLineage { url: remote.url().to_owned(), index: index.to_owned(), generation });
    }
    let staging = index.join(STAGING);
    fs_err::create_dir_all(&staging)?;
    let alone = DirLock::acquire(&staging, PATIENCE).map_err(|error| Error::Io(std::io::Error::other(error)))?;
    let mut missing = Vec::new();
    for file in &files {
        if !file.is_at(index, false)? {
            missing.push(file);
        }
    }
    let needed = missing.iter().map(|file| file.bytes).sum();
    check_space(index, needed, options.free_space)?;
    let transfers = stream::iter(missing.iter().copied()).map(|file| fetch(remote, &staging, file, go_on));
    let fetched: Vec<bool> = transfers.buffer_unordered(AT_ONCE).try_collect().await?;
    let lock = WriteLock::acquire(index)?;
    place(index, &staging, &missing)?;
    manifest::adopt(index, &there.bytes, &lock)?;
    drop((lock, alone));
    fs_err::remove_dir_all(&staging)?;
    let count = fetched.iter().map(|fetched| u64::from(*fetched)).sum();
    Ok(Pulled { generation, files: count, bytes: needed, present: (files.len() - missing.len()) as u64, is_new: true })
}

/// Fetches a file into the staging folder and verifies it; false where an earlier pull has done so.
async fn fetch(remote: &Remote, staging: &Path, file: &IndexFile, go_on: &(dyn Fn() -> bool + Sync)) -> Result<bool> {
    if file.is_at(staging, true)? {
        return Ok(false);
    }
    let to = staging.join(&file.path);
    if let Some(parent) = to.parent() {
        fs_err::create_dir_all(parent)?;
    }
    let partial = PathBuf::from(format!("{}.partial", to.display()));
    let Some(found) = remote.get(&file.path).await? else {
        return Err(remote.damaged(&file.path, "object", "one".to_owned(), "none".to_owned()));
    };
    let mut out = fs_err::File::create(&partial)?;
    let mut pieces = found.into_stream();
    let (mut checksum, mut length) = (0, 0_u64);
    while let Some(piece) = pieces.next().await {
        if !go_on() {
            return Err(Error::Interrupted);
        }
        let piece = piece.map_err(remote.failed(&file.path, "read"))?;
        (checksum, length) = (crc32c::crc32c_append(checksum, &piece), length + piece.len() as u64);
        if length > file.bytes {
            break;
        }
        out.write_all(&piece)?;
    }
    if (length, checksum) != (file.bytes, file.crc32c) {
        let say = |bytes: u64, checksum: u32| format!("{bytes} bytes, {checksum:08x}");
        let (expected, got) = (say(file.bytes, file.crc32c), say(length, checksum));
        return Err(remote.damaged(&file.path, "length and checksum", expected, got));
    }
    out.sync_all()?;
    fs_err::rename(&partial, &to)?;
    Ok(true)
}

/// Moves what was fetched into the index: whole directories where the index lacks them, else file by file.
fn place(index: &Path, staging: &Path, missing: &[&IndexFile]) -> Result<()> {
    let mut changed: BTreeSet<PathBuf> = BTreeSet::new();
    for file in missing {
        let mut parts = file.path.splitn(3, '/');
        let (folder, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let below = Path::new(folder).join(name);
        fs_err::create_dir_all(index.join(folder))?;
        if folder != DELETIONS_DIR && !index.join(&below).exists() {
            fs_err::rename(staging.join(&below), index.join(&below))?;
        } else if staging.join(&file.path).exists() {
            let to = index.join(&file.path);
            if let Some(parent) = to.parent() {
                fs_err::create_dir_all(parent)?;
            }
            fs_err::rename(staging.join(&file.path), &to)?;
        }
        changed.extend([index.join(folder), index.join(&file.path).parent().unwrap_or(index).to_owned()]);
    }
    for folder in [SHARDS_DIR, DELETIONS_DIR, METADATA_DIR].map(|folder| index.join(folder)) {
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
