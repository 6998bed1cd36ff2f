//! The lock of a generation that is being read: a shared lock of its manifest's file, which the system releases when
//! the process ends. `dyad-indexer gc` removes no generation that a process of this machine reads.

use std::fs::TryLockError;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use fs_err::File;

use super::pointer::manifest_name;
use crate::error::{Error, Result};

/// Held as long as a generation is read.
#[derive(Debug)]
pub struct ReaderLock {
    _file: File,
}

impl ReaderLock {
    /// Locks a generation against removal. An error where it has been removed.
    pub fn acquire(index: &Path, generation: u64) -> Result<Self> {
        let path = index.join(manifest_name(generation));
        let gone = || Error::NoGeneration {
            path: index.to_owned(),
            generation,
            present: "others".to_owned(),
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(gone()),
            Err(error) => return Err(error.into()),
        };
        match file.file().try_lock_shared() {
            Ok(()) if file.metadata()?.nlink() > 0 => Ok(Self { _file: file }),
            // It is being removed, or was between the two calls.
            Ok(()) | Err(TryLockError::WouldBlock) => Err(gone()),
            // A file system without locks, as some network ones: removal is up to their users.
            Err(TryLockError::Error(error)) => {
                tracing::warn!(
                    "`{}` cannot be locked: {error}. Run no `gc` while it is served",
                    path.display()
                );
                Ok(Self { _file: file })
            }
        }
    }
}

/// Removes the manifest of a generation, unless a process reads the generation: then nothing is removed, and the result
/// is false.
pub(super) fn remove_unread(index: &Path, generation: u64) -> Result<bool> {
    let path = index.join(manifest_name(generation));
    let file = File::open(&path)?;
    match file.file().try_lock() {
        Ok(()) => {
            fs_err::remove_file(&path)?;
            Ok(true)
        }
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => {
            let reason = format!(
                "cannot lock `{}`: {error}. Use a directory on a local disk",
                path.display()
            );
            Err(std::io::Error::new(error.kind(), reason).into())
        }
    }
}
