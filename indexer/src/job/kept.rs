//! Built shards that are kept until they are published, so that a build that is killed and started again does not build
//! them again.
//!
//! ```text
//! INDEX/.built-DIGEST/   by all that the shard is made of: documents, vectors, order, settings, release
//!   LOCK                 held from a job's beginning to its end
//!   shard/               the shard, written where its record is not there yet
//!   built.json           what it is, with checksums; written last
//! ```
//!
//! They are found, created and renamed under the index's lock, so that no job finds a part of one that is removed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_files::space::bytes_below;
use dyad_files::{DirLock, LockError, crc32c_of_file_until, write_atomic};
use dyad_index::Certificate;
use dyad_index::manifest::FileEntry;
use dyad_index::storage::WriteLock;
use serde::{Deserialize, Serialize};

use super::shard::ShardBuilder;
use super::spool::Spooled;
use super::workspace::remove_dir;
use crate::control::JobControl;
use crate::draft::CompleteShard;
use crate::error::Error;

/// Beginning of the names of directories with built shards.
const PREFIX: &str = ".built-";
/// Beginning of the names of those that are being removed.
const REMOVED: &str = ".built-removed-";
/// The shard in such a directory.
const SHARD_DIR: &str = "shard";
/// Its record.
const RECORD: &str = "built.json";

/// What a kept shard is.
#[derive(Debug, Serialize, Deserialize)]
struct KeptShardRecord {
    documents: u64,
    files: Vec<FileEntry>,
    certificate: Certificate,
}

/// A directory that no other job uses.
type HeldDirectory = (PathBuf, DirLock);

/// The shards of a job, kept in the index's directory until they are published.
#[derive(Debug)]
pub(crate) struct KeptShards {
    index: PathBuf,
    /// What ended jobs have left, until the digests of this job's shards are known.
    left: Vec<HeldDirectory>,
    /// The directories of this job's shards.
    own: Vec<HeldDirectory>,
}

impl KeptShards {
    /// Takes what ended jobs have left.
    pub(crate) fn begin(index: &Path) -> Result<Self, Error> {
        Ok(Self {
            index: index.to_owned(),
            left: left_in(index)?,
            own: Vec::new(),
        })
    }

    /// Bytes on disk of what ended jobs have left.
    pub(crate) fn bytes(&self) -> Result<u64, Error> {
        Ok(self
            .left
            .iter()
            .map(|(dir, _)| bytes_below(dir))
            .sum::<std::io::Result<u64>>()?)
    }

    /// Removes what ended jobs have left but these shards: it takes the space that they need.
    pub(crate) fn remove_others(&mut self, shards: &[Spooled], builder: &ShardBuilder<'_>) -> Result<(), Error> {
        let ours = shards.iter().map(|spooled| Ok(self.dir(&builder.digest(spooled)?)));
        let ours = ours.collect::<Result<Vec<PathBuf>, Error>>()?;
        for (dir, lock) in std::mem::take(&mut self.left) {
            if ours.contains(&dir) {
                self.left.push((dir, lock));
            } else {
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
        let lock = match self.left.iter().position(|(left, _)| *left == dir) {
            Some(at) => self.left.swap_remove(at).1,
            None => match self.take(&dir)? {
                Some(lock) => lock,
                // Another job builds the same: it needs its own.
                None => return builder.build(spooled, None, label),
            },
        };
        self.own.push((dir.clone(), lock));
        if let Some(built) = read(&dir, builder.control)? {
            builder.gate.check(&built.certificate, label)?;
            let name = if label.is_empty() {
                String::new()
            } else {
                format!(" {label}")
            };
            builder
                .control
                .progress
                .note(&format!("shard{name}: as a build that was ended has left it"));
            remove_dir(&spooled.dir)?;
            return Ok(built);
        }
        let shard = dir.join(SHARD_DIR);
        remove_dir(&shard)?;
        let mut built = builder.build(spooled, None, label)?;
        fs_err::rename(&built.dir, &shard)?;
        built.dir = shard;
        let record = KeptShardRecord {
            documents: built.documents,
            files: built.files.clone(),
            certificate: built.certificate.clone(),
        };
        write_atomic(
            &dir.join(RECORD),
            &serde_json::to_vec(&record).map_err(std::io::Error::from)?,
        )?;
        Ok(built)
    }

    /// Removes the directories: their shards are in their places.
    pub(crate) fn published(mut self) {
        self.remove_where(|_| true);
    }

    fn remove_where(&mut self, what: impl Fn(&Path) -> bool) {
        for (dir, lock) in self.own.iter().chain(&self.left).filter(|(dir, _)| what(dir)) {
            if let Err(error) = remove(&self.index, dir, lock) {
                tracing::warn!("{error}; `dyad-indexer gc` will remove it");
            }
        }
        self.own.retain(|(dir, _)| !what(dir));
        self.left.retain(|(dir, _)| !what(dir));
    }

    /// Creates and locks a directory, unless another job has it.
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

/// The job has ended without a publish: whole shards stay.
impl Drop for KeptShards {
    fn drop(&mut self) {
        self.remove_where(|dir| !dir.join(RECORD).exists());
        let shards = self.own.len() + self.left.len();
        if shards > 0 {
            tracing::info!(
                "{shards} finished shards are kept in `{}`: the same command goes on with them, `dyad-indexer gc` removes them",
                self.index.display()
            );
        }
    }
}

/// A shard whose files are those of its record, checksums included.
fn read(dir: &Path, control: JobControl<'_>) -> Result<Option<CompleteShard>, Error> {
    let record = fs_err::read(dir.join(RECORD))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Some(KeptShardRecord {
        documents,
        files,
        certificate,
    }) = record
    else {
        return Ok(None);
    };
    let shard = dir.join(SHARD_DIR);
    for file in &files {
        let found = crc32c_of_file_until(&shard.join(&file.path), control.cancel)
            .ok()
            .flatten();
        control.check()?;
        if found != Some((file.bytes, file.crc32c)) {
            return Ok(None);
        }
    }
    Ok((!files.is_empty()).then_some(CompleteShard {
        dir: shard,
        documents,
        files,
        certificate,
    }))
}

/// Directories of built shards that ended jobs have left in an index, with the locks that keep them so.
pub(crate) fn left_in(index: &Path) -> Result<Vec<HeldDirectory>, Error> {
    let _index = WriteLock::acquire(index)?;
    let mut left = Vec::new();
    for entry in fs_err::read_dir(index)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        match DirLock::acquire(&entry.path(), Duration::ZERO) {
            Ok(lock) => left.push((entry.path(), lock)),
            Err(LockError::Held { .. }) => {}
            // It has just been removed.
            Err(LockError::Io(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(left)
}

/// Removes a directory of which the lock is held: it loses its name first.
pub(crate) fn remove(index: &Path, dir: &Path, _lock: &DirLock) -> Result<(), Error> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with(REMOVED) {
        return Ok(remove_dir(dir)?);
    }
    let removed = index.join(format!(
        "{REMOVED}{}-{}",
        std::process::id(),
        name.trim_start_matches(PREFIX)
    ));
    let lock = WriteLock::acquire(index)?;
    fs_err::rename(dir, &removed)?;
    drop(lock);
    Ok(remove_dir(&removed)?)
}
