//! Atomic creation or replacement of a directory, by one rename.
//!
//! It is filled next to its destination, under a `.partial` name, and fsynced with all its files and folders before the
//! rename, so that a power loss leaves either the old directory or the new one.

use std::io;
use std::path::{Path, PathBuf};

use fail::fail_point;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::atomic::{parent, sync_dir};

/// A directory that is being written; it is removed if it is not committed.
#[derive(Debug)]
pub struct AtomicDir {
    path: PathBuf,
    to: PathBuf,
    replaces: bool,
    committed: bool,
}

impl AtomicDir {
    /// Starts with an empty directory; an error of kind `AlreadyExists` where something is at `to`.
    pub fn create(to: &Path) -> io::Result<Self> {
        if to.exists() {
            return Err(exists(to));
        }
        Self::begin(to, false)
    }

    /// Starts with an empty directory, which will replace an existing one at `to`.
    pub fn replace(to: &Path) -> io::Result<Self> {
        Self::begin(to, true)
    }

    fn begin(to: &Path, replaces: bool) -> io::Result<Self> {
        let path = sibling(to, "partial")?;
        if path.exists() {
            fs_err::remove_dir_all(&path)?;
        }
        fs_err::create_dir_all(&path)?;
        Ok(Self {
            path,
            to: to.to_owned(),
            replaces,
            committed: false,
        })
    }

    /// Puts back what a kill has left between the two renames of a file system that cannot exchange directories.
    pub fn recover(to: &Path) -> io::Result<()> {
        let old = sibling(to, "old")?;
        if !to.exists() && old.exists() {
            fs_err::rename(old, to)?;
        }
        Ok(())
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fsyncs it and gives it its name. An existing directory is replaced and removed.
    pub fn commit(mut self) -> io::Result<()> {
        sync_all(&self.path)?;
        fail_point!("directory-rename", |_| Err(io::ErrorKind::StorageFull.into()));
        let replaced = if self.replaces && self.to.exists() {
            Some(self.exchange()?)
        } else {
            fs_err::rename(&self.path, &self.to)?;
            None
        };
        self.committed = true;
        sync_dir(parent(&self.to))?;
        fail_point!("directory-replaced");
        if let Some(replaced) = replaced {
            // The new one is in place; the next attempt removes the rest of the old one.
            let _ = fs_err::remove_dir_all(replaced);
        }
        Ok(())
    }

    /// Exchanges it with the directory at `to`; returns the new path of that one.
    fn exchange(&self) -> io::Result<PathBuf> {
        match renameat_with(CWD, &self.path, CWD, &self.to, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(self.path.clone()),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                let old = sibling(&self.to, "old")?;
                if old.exists() {
                    fs_err::remove_dir_all(&old)?;
                }
                fs_err::rename(&self.to, &old)?;
                fs_err::rename(&self.path, &self.to)?;
                Ok(old)
            }
            Err(error) => {
                let error = io::Error::from(error);
                Err(io::Error::new(
                    error.kind(),
                    format!("cannot replace `{}`: {error}", self.to.display()),
                ))
            }
        }
    }
}

impl Drop for AtomicDir {
    fn drop(&mut self) {
        if !self.committed {
            // Removal is best effort; the next attempt removes the rest.
            let _ = fs_err::remove_dir_all(&self.path);
        }
    }
}

fn exists(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!("`{}` already exists", path.display()),
    )
}

/// `to` with a suffix.
fn sibling(to: &Path, end: &str) -> io::Result<PathBuf> {
    let mut name = to.file_name().ok_or_else(|| exists(to))?.to_owned();
    name.push(".");
    name.push(end);
    Ok(to.with_file_name(name))
}

/// Fsyncs a folder and all files and folders in it.
fn sync_all(dir: &Path) -> io::Result<()> {
    for entry in fs_err::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_all(&entry.path())?;
        } else {
            fs_err::File::open(entry.path())?.sync_all()?;
        }
    }
    sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn names(dir: &Path) -> Vec<std::ffi::OsString> {
        fs_err::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect()
    }

    #[test]
    fn it_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("model");
        fs_err::create_dir(dir.path().join("model.partial")).unwrap();
        fs_err::write(dir.path().join("model.partial/old"), "").unwrap();

        let partial = AtomicDir::create(&to).unwrap();
        fs_err::write(partial.path().join("file"), "").unwrap();
        drop(partial);
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));

        let partial = AtomicDir::create(&to).unwrap();
        fs_err::write(partial.path().join("file"), "").unwrap();
        partial.commit().unwrap();
        assert_eq!(names(dir.path()), ["model"]);
        assert!(to.join("file").exists() && !to.join("old").exists());
        for taken in [&to, Path::new("/"), Path::new("..")] {
            let error = AtomicDir::create(taken).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert!(error.to_string().contains("already exists"), "{error}");
        }
    }

    /// What cannot be flushed gets no name: here a file, deep inside, that cannot be opened.
    #[test]
    fn the_disk_has_all_of_it_first() {
        let dir = tempfile::tempdir().unwrap();
        let partial = AtomicDir::create(&dir.path().join("model")).unwrap();
        fs_err::create_dir_all(partial.path().join("a/b")).unwrap();
        fs_err::write(partial.path().join("a/file"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", partial.path().join("a/b/lost")).unwrap();
        let message = partial.commit().unwrap_err().to_string();
        assert!(message.contains("a/b/lost"), "{message}");
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    }

    #[test]
    fn what_is_replaced_is_there_at_any_time() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("model");
        let write = |number: usize| {
            let partial = AtomicDir::replace(&to).unwrap();
            fs_err::write(partial.path().join("file"), number.to_string()).unwrap();
            partial.commit().unwrap();
        };
        write(0);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looked = scope.spawn(|| {
                let mut missed = 0;
                while !ended.load(Ordering::Relaxed) {
                    missed += usize::from(!to.is_dir());
                }
                missed
            });
            (1..=500).for_each(write);
            ended.store(true, Ordering::Relaxed);
            assert_eq!(looked.join().unwrap(), 0, "reads of an incomplete directory");
        });
        assert_eq!(fs_err::read_to_string(to.join("file")).unwrap(), "500");
        assert_eq!(names(dir.path()), ["model"]);
        // As a kill leaves it where directories cannot be exchanged.
        fs_err::rename(&to, dir.path().join("model.old")).unwrap();
        AtomicDir::recover(&to).unwrap();
        assert_eq!(names(dir.path()), ["model"]);
    }
}
