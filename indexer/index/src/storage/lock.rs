//! One writer per index: an exclusive lock on `INDEX/LOCK`, released by the system when the process ends.
//!
//! It is held while `CURRENT` moves and while leftovers are looked for, which takes milliseconds, and never while an
//! index is built: so whoever finds it taken waits a little.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How long [`WriteLock::acquire`] waits.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// Held while an index is being changed.
#[derive(Debug)]
pub struct WriteLock {
    _file: File,
}

impl WriteLock {
    /// Takes the lock of an index. Waits up to ten seconds for another holder, then says which process it is.
    pub fn acquire(index: &Path) -> Result<Self> {
        Self::acquire_within(index, PATIENCE)
    }

    /// [`Self::acquire`] with another patience.
    pub fn acquire_within(index: &Path, patience: Duration) -> Result<Self> {
        let path = index.join("LOCK");
        let mut options = fs_err::OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(&path)?.into_file();
        let deadline = Instant::now() + patience;
        let mut holder = String::new();
        loop {
            match file.try_lock() {
                Ok(()) => {
                    file.set_len(0)?;
                    file.rewind()?;
                    writeln!(file, "{}", std::process::id())?;
                    return Ok(Self { _file: file });
                }
                Err(TryLockError::WouldBlock) => {
                    // Empty for a moment, between a holder's taking the lock and its writing who it is.
                    let mut read = String::new();
                    file.rewind()?;
                    let _ = file.read_to_string(&mut read);
                    if !read.trim().is_empty() {
                        read.trim().clone_into(&mut holder);
                    }
                }
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            if Instant::now() >= deadline {
                let holder = if holder.is_empty() { "unknown".to_owned() } else { holder };
                return Err(Error::Locked { path: index.to_owned(), holder });
            }
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_writer_waits_and_is_then_told_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let first = WriteLock::acquire(dir.path()).unwrap();
        let error = WriteLock::acquire_within(dir.path(), Duration::from_millis(20)).unwrap_err().to_string();
        assert!(error.contains(&format!("written by process {}", std::process::id())), "{error}");
        let path = dir.path().to_owned();
        let second = std::thread::spawn(move || WriteLock::acquire(&path).map(drop));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!second.is_finished(), "it waits");
        drop(first);
        second.join().unwrap().unwrap();
    }
}
