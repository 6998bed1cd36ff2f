//! One writer per index: an exclusive lock on `INDEX/LOCK`, released by the system when the process ends.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use crate::error::{Error, Result};

/// Held while an index is being written.
#[derive(Debug)]
pub struct WriteLock {
    _file: File,
}

impl WriteLock {
    /// Takes the lock, or says which process holds it.
    pub fn acquire(index: &Path) -> Result<Self> {
        let path = index.join("LOCK");
        let mut options = fs_err::OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(&path)?.into_file();
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                file.rewind()?;
                writeln!(file, "{}", std::process::id())?;
                Ok(Self { _file: file })
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder = holder.trim();
                let holder = if holder.is_empty() { "unknown" } else { holder };
                Err(Error::Locked { path: index.to_owned(), holder: holder.to_owned() })
            }
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_writer_is_refused_and_told_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let first = WriteLock::acquire(dir.path()).unwrap();
        let error = WriteLock::acquire(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("written by process {}", std::process::id())), "{error}");
        drop(first);
        WriteLock::acquire(dir.path()).unwrap();
    }
}
