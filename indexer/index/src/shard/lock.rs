//! The lock of an open shard: a shared lock of its `dense.dyad`, which the system releases when the file is closed. It
//! says of single shards what [`ReaderLock`](crate::manifest::ReaderLock) says of a generation: where an index holds a
//! part of one, shards that are no longer of that part are removed, unless a process of this machine has them open.

use std::fs::TryLockError;
use std::io::{Error as IoError, ErrorKind};
use std::path::Path;

use fs_err::File;

use super::DENSE_FILE;
use crate::error::Result;

/// Locks the open file of a shard against removal, as long as it is open. An error where it is being removed.
pub(super) fn lock_open(file: &File) -> Result<()> {
    match file.file().try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let reason = format!(
                "`{}` is being removed: its shard is no longer held here. Open the generation that is current now",
                file.path().display()
            );
            Err(IoError::new(ErrorKind::NotFound, reason).into())
        }
        // On a file system without locks, as some network ones, nothing is removed: see [`RemovalLock::acquire`].
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Held while the files of a shard are removed that no process of this machine has open: none can open it meanwhile.
#[derive(Debug)]
pub struct RemovalLock {
    _file: Option<File>,
}

impl RemovalLock {
    /// Locks the shard in this directory; none where a process of this machine has it open. An error where the file
    /// system has no locks, or the file cannot be opened; one that is not there is no error.
    pub fn acquire(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(DENSE_FILE);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(Self { _file: None })),
            Err(error) => return Err(error.into()),
        };
        match file.file().try_lock() {
            Ok(()) => Ok(Some(Self { _file: Some(file) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                let reason = format!(
                    "cannot lock `{}`: {error}. Use a directory on a local disk",
                    path.display()
                );
                Err(IoError::new(error.kind(), reason).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::written;
    use super::super::{DENSE_FILE, DenseShard};
    use super::*;

    #[test]
    fn a_shard_that_is_open_is_not_removed_and_one_that_is_being_removed_not_opened() {
        let (dir, path) = written();
        assert!(path.ends_with(DENSE_FILE));
        let (one, other) = (DenseShard::open(&path).unwrap(), DenseShard::open(&path).unwrap());
        assert!(RemovalLock::acquire(dir.path()).unwrap().is_none());
        drop(one);
        assert!(
            RemovalLock::acquire(dir.path()).unwrap().is_none(),
            "it is open once more"
        );
        drop(other);
        let removal = RemovalLock::acquire(dir.path()).unwrap().unwrap();
        assert!(RemovalLock::acquire(dir.path()).unwrap().is_none());
        let error = DenseShard::open(&path).unwrap_err();
        assert!(error.to_string().contains("dense.dyad` is being removed"), "{error}");
        drop(removal);
        DenseShard::open(&path).unwrap();
        fs_err::remove_file(&path).unwrap();
        assert!(
            RemovalLock::acquire(dir.path()).unwrap().is_some(),
            "nobody has what is not there"
        );
    }
}
