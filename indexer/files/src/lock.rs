//! Directory lock: an exclusive lock on `DIR/LOCK`, released by the system when the process ends.

use std::fs::TryLockError;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fs_err::File;

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// A lock that could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("`{}` is held by process {holder}. Wait until it has ended", dir.display())]
    Held {
        /// The directory.
        dir: PathBuf,
        /// Process id as found in the lock file, or `unknown`.
        holder: String,
    },
    /// The operating system refused; its message names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Held while a directory is being changed.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

impl DirLock {
    /// Name of the lock's file in the directory.
    pub const FILE: &str = "LOCK";

    /// Takes the lock of a directory that exists. Waits for another holder as long as `patience` lasts.
    pub fn acquire(dir: &Path, patience: Duration) -> Result<Self, LockError> {
        let path = dir.join(Self::FILE);
        let mut options = fs_err::OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(|error| refused(dir, error))?;
        let deadline = Instant::now() + patience;
        let mut holder = None;
        loop {
            match file.file().try_lock() {
                Ok(()) => {
                    file.set_len(0)?;
                    file.rewind()?;
                    writeln!(file, "{}", std::process::id())?;
                    return Ok(Self { _file: file });
                }
                // The file is empty for a moment, between a holder's taking the lock and its writing who it is.
                Err(TryLockError::WouldBlock) => holder = process(&mut file).or(holder),
                Err(TryLockError::Error(error)) => {
                    let reason = format!(
                        "cannot lock `{}`: {error}. Use a directory on a local disk",
                        path.display()
                    );
                    return Err(io::Error::new(error.kind(), reason).into());
                }
            }
            if Instant::now() >= deadline {
                let holder = holder.map_or_else(|| "unknown".to_owned(), |id: u32| id.to_string());
                return Err(LockError::Held {
                    dir: dir.to_owned(),
                    holder,
                });
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// The error of a directory that cannot be written, which says so: the lock's file is only where that shows first.
fn refused(dir: &Path, error: io::Error) -> LockError {
    let advice = match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "its file system is read-only. Change it where it can be written",
        io::ErrorKind::PermissionDenied => "this user may not write to it. Use the one who does",
        _ => return error.into(),
    };
    io::Error::new(
        error.kind(),
        format!("`{}` cannot be changed: {advice} ({error})", dir.display()),
    )
    .into()
}

/// The process that a lock's file names.
fn process(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    // More than a number is none.
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_waits_and_is_then_told_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let take = |patience| DirLock::acquire(dir.path(), Duration::from_millis(patience));
        let first = take(0).unwrap();
        let error = take(20).unwrap_err().to_string();
        assert!(
            error.contains(&format!("held by process {}", std::process::id())),
            "{error}"
        );
        // Whatever else is in the file is not repeated.
        fs_err::write(dir.path().join(DirLock::FILE), "\u{1b}[31m").unwrap();
        assert!(take(0).unwrap_err().to_string().contains("held by process unknown"));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| take(10_000).map(drop));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!second.is_finished(), "it waits");
            drop(first);
            second.join().unwrap().unwrap();
        });
        // What fails once the lock is taken, as on a full disk, names the file as well.
        let full = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", full.path().join(DirLock::FILE)).unwrap();
        let failed = DirLock::acquire(full.path(), Duration::ZERO).unwrap_err().to_string();
        assert!(failed.contains(full.path().to_str().unwrap()), "{failed}");
        // A directory that cannot be written is told as one: the lock's file is not what the caller asked for.
        let read_only = refused(dir.path(), io::ErrorKind::ReadOnlyFilesystem.into()).to_string();
        assert!(
            read_only.contains("cannot be changed: its file system is read-only"),
            "{read_only}"
        );
        let absent = DirLock::acquire(&dir.path().join("absent"), Duration::ZERO).unwrap_err();
        assert!(
            matches!(&absent, LockError::Io(error) if error.kind() == io::ErrorKind::NotFound),
            "{absent}"
        );
    }
}
