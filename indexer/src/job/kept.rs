//! Built shards that are kept until they are published, so that a build that is killed and started again does not build them again.
//!
//! ```text
//! INDEX/.built-DIGEST/   by all that the shard is made of: documents, vectors, order, settings, release
//!   LOCK                 held by the job that builds or publishes it
//!   shard/               the shard, written where its record is not there yet
//!   built.json           what it is, with checksums; written last
//! ```

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_files::{DirLock, LockError, crc32c_of_file, write_atomic};
use dyad_index::Certificate;
use dyad_index::manifest::FileEntry;
use dyad_index::storage::WriteLock;
use serde::{Deserialize, Serialize};

use super::shard::ShardBuilder;
use super::spool::Spooled;
use crate::error::Error;
use crate::publish::CompleteShard;

/// Beginning of the names of directories with built shards.
const PREFIX: &str = ".built-";
/// The shard in such a directory.
const SHARD_DIR: &str = "shard";
/// Its record.
const RECORD: &str = "built.json";

/// What a kept shard is.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    documents: u64,
    files: Vec<FileEntry>,
    certificate: Certificate,
}

/// The shards of a job, kept in the index's directory until they are published.
#[derive(Debug)]
pub(crate) struct KeptShards {
    index: PathBuf,
    /// The directories of this job.
    held: Vec<(PathBuf, DirLock)>,
}

impl KeptShards {
    pub(crate) fn new(index: &Path) -> Self {
        Self { index: index.to_owned(), held: Vec::new() }
    }

    /// Removes what ended jobs have kept, and these shards are not: it takes the space that they need.
    pub(crate) fn remove_others(&self, shards: &[Spooled], builder: &ShardBuilder<'_>) -> Result<(), Error> {
        let ours: Result<Vec<PathBuf>, Error> =
            shards.iter().map(|spooled| Ok(self.dir(&builder.digest(spooled)?))).collect();
        let ours = ours?;
        for (dir, lock) in left_in(&self.index)? {
            if !ours.contains(&dir) {
                tracing::info!("removing a shard of an unfinished build, `{}`", dir.display());
                remove(&self.index, &dir, &lock)?;
            }
        }
        Ok(())
    }

    /// The shard as an earlier job has built it from the same, or built now and kept.
    pub(crate) fn build(
        &mut self,
        spooled: Spooled,
        builder: &ShardBuilder<'_>,
        label: &str,
    ) -> Result<CompleteShard, Error> {
        let dir = self.dir(&builder.digest(&spooled)?);
        // Another job that builds the same needs its own.
        let Some(lock) = self.take(&dir)? else { return builder.build(spooled, None, label) };
        if let Some(built) = read(&dir) {
            let name = if label.is_empty() { String::new() } else { format!(" {label}") };
            builder.control.progress.note(&format!("shard{name}: as a build that was ended has left it"));
            fs_err::remove_dir_all(&spooled.dir)?;
            self.held.push((dir, lock));
            return Ok(built);
        }
        let shard = dir.join(SHARD_DIR);
        remove_if_there(&shard)?;
        let mut built = builder.build(spooled, None, label)?;
        fs_err::rename(&built.dir, &shard)?;
        built.dir = shard;
        let record =
            Record { documents: built.documents, files: built.files.clone(), certificate: built.certificate.clone() };
        write_atomic(&dir.join(RECORD), &serde_json::to_vec(&record).map_err(std::io::Error::from)?)?;
        self.held.push((dir, lock));
        Ok(built)
    }

    /// Removes the directories: their shards are in their places.
    pub(crate) fn published(self) {
        for (dir, lock) in &self.held {
            if let Err(error) = remove(&self.index, dir, lock) {
                tracing::warn!("{error}; `dyad-indexer gc` will remove it");
            }
        }
    }

    /// Creates and locks a directory, unless another job has it. None is removed meanwhile.
    fn take(&self, dir: &Path) -> Result<Option<DirLock>, Error> {
        let _index = WriteLock::acquire(&self.index)?;
        fs_err::create_dir_all(dir)?;
        match DirLock::acquire(dir, Duration::ZERO) {
            Ok(lock) => Ok(Some(lock)),
            Err(LockError::Held { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn dir(&self, digest: &str) -> PathBuf {
        self.index.join(format!("{PREFIX}{digest}"))
    }
}

/// A shard whose files are those of its record, checksums included.
fn read(dir: &Path) -> Option<CompleteShard> {
    let record: Record = serde_json::from_slice(&fs_err::read(dir.join(RECORD)).ok()?).ok()?;
    let shard = dir.join(SHARD_DIR);
    let as_recorded = |file: &FileEntry| {
        crc32c_of_file(&shard.join(&file.path))
            .is_ok_and(|(bytes, crc32c)| (bytes, crc32c) == (file.bytes, file.crc32c))
    };
    let Record { documents, files, certificate } = record;
    (!files.is_empty() && files.iter().all(as_recorded)).then_some(CompleteShard {
        dir: shard,
        documents,
        files,
        certificate,
    })
}

/// Directories of built shards that ended jobs have left in an index, with the locks that keep them so.
pub(crate) fn left_in(index: &Path) -> Result<Vec<(PathBuf, DirLock)>, Error> {
    let mut left = Vec::new();
    for entry in fs_err::read_dir(index)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        match DirLock::acquire(&entry.path(), Duration::ZERO) {
            Ok(lock) => left.push((entry.path(), lock)),
            Err(LockError::Held { .. }) => {}
            // Its job has just removed it.
            Err(LockError::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(left)
}

/// Removes a directory of which the lock is held: it loses its name first, so that no job finds a part of it.
pub(crate) fn remove(index: &Path, dir: &Path, _lock: &DirLock) -> Result<(), Error> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let nameless = index.join(format!("{PREFIX}removed-{}-{}", std::process::id(), name.trim_start_matches(PREFIX)));
    let lock = WriteLock::acquire(index)?;
    fs_err::rename(dir, &nameless)?;
    drop(lock);
    Ok(fs_err::remove_dir_all(nameless)?)
}

fn remove_if_there(dir: &Path) -> Result<(), Error> {
    match fs_err::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
