//! One writer per index: the lock of its directory.
//!
//! It is held while `CURRENT` moves and while leftovers are looked for, which takes milliseconds, and never while an
//! index is built: so a process that finds it taken waits a little.

use std::path::Path;
use std::time::Duration;

use dyad_files::{DirLock, LockError};

use crate::error::{Error, Result};

/// How long [`WriteLock::acquire`] waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// Held while an index is being changed; functions that change one ask for it as a proof.
#[derive(Debug)]
pub struct WriteLock {
    _lock: DirLock,
}

impl WriteLock {
    /// Takes the lock of an index. Waits up to ten seconds for another holder, then says which process it is.
    pub fn acquire(index: &Path) -> Result<Self> {
        Self::acquire_within(index, PATIENCE)
    }

    fn acquire_within(index: &Path, patience: Duration) -> Result<Self> {
        match DirLock::acquire(index, patience) {
            Ok(lock) => Ok(Self { _lock: lock }),
            Err(LockError::Held { dir, holder }) => Err(Error::Locked { path: dir, holder }),
            Err(LockError::Io(error)) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_writer_is_told_who_writes() {
        let dir = tempfile::tempdir().unwrap();
        let _first = WriteLock::acquire(dir.path()).unwrap();
        let error = WriteLock::acquire_within(dir.path(), Duration::from_millis(20))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("written by process {}", std::process::id())),
            "{error}"
        );
    }
}
