//! A new directory that appears whole or not at all, with one rename: how every model directory is written.
//!
//! It is made next to its place, under a `.partial` name. Before it gets its own name the disk has every file and folder of it, so
//! that a power loss leaves the directory of before or the new one, and never a torn one.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::Error;

/// A directory in the making; what is not finished is removed.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    to: PathBuf,
    replaces: bool,
    finished: bool,
}

impl Partial {
    /// Begins with an empty directory; refuses where something is at `to`.
    pub(crate) fn beside(to: &Path) -> Result<Self, Error> {
        Self::new(to, false)
    }

    /// Begins with an empty directory, which takes the place of what may be at `to`.
    pub(crate) fn over(to: &Path) -> Result<Self, Error> {
        Self::new(to, true)
    }

    fn new(to: &Path, replaces: bool) -> Result<Self, Error> {
        if !replaces && to.exists() {
            return Err(Error::Exists { path: to.to_owned() });
        }
        let path = named(to, "partial")?;
        if path.exists() {
            fs_err::remove_dir_all(&path)?;
        }
        fs_err::create_dir_all(&path)?;
        Ok(Self { path, to: to.to_owned(), replaces, finished: false })
    }

    /// Puts back what a kill has left between the two renames of a file system that cannot exchange directories.
    pub(crate) fn recover(to: &Path) -> Result<(), Error> {
        let old = named(to, "old")?;
        if !to.exists() && old.exists() {
            fs_err::rename(old, to)?;
        }
        Ok(())
    }

    /// Where to write.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name, once the disk has all of it. What was there goes.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        sync(&self.path)?;
        let replaced = if self.replaces && self.to.exists() {
            Some(self.exchange()?)
        } else {
            fs_err::rename(&self.path, &self.to)?;
            None
        };
        self.finished = true;
        if let Some(folder) = self.to.parent() {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            fs_err::File::open(folder)?.sync_all()?;
        }
        replaced.map_or(Ok(()), |old| Ok(fs_err::remove_dir_all(old)?))
    }

    /// Changes places with what is at `to`; says where that is then.
    fn exchange(&self) -> Result<PathBuf, Error> {
        match renameat_with(CWD, &self.path, CWD, &self.to, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(self.path.clone()),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                let old = named(&self.to, "old")?;
                if old.exists() {
                    fs_err::remove_dir_all(&old)?;
                }
                fs_err::rename(&self.to, &old)?;
                fs_err::rename(&self.path, &self.to)?;
                Ok(old)
            }
            Err(error) => {
                let error = io::Error::from(error);
                let reason = format!("cannot replace `{}`: {error}", self.to.display());
                Err(io::Error::new(error.kind(), reason).into())
            }
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            // Nobody reads it; the next try removes what is left.
            let _ = fs_err::remove_dir_all(&self.path);
        }
    }
}

/// `to` with an end to its name.
fn named(to: &Path, end: &str) -> Result<PathBuf, Error> {
    let Some(name) = to.file_name() else { return Err(Error::Exists { path: to.to_owned() }) };
    let mut name = name.to_owned();
    name.push(".");
    name.push(end);
    Ok(to.with_file_name(name))
}

/// Waits until the disk has all files and folders below one, and the folder itself.
fn sync(folder: &Path) -> io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { sync(&entry.path())? } else { fs_err::File::open(entry.path())?.sync_all()? }
    }
    fs_err::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn names(folder: &Path) -> Vec<std::ffi::OsString> {
        fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn it_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("model");
        fs_err::create_dir(folder.path().join("model.partial")).unwrap();
        fs_err::write(folder.path().join("model.partial/old"), "").unwrap();

        let partial = Partial::beside(&to).unwrap();
        fs_err::write(partial.path().join("file"), "").unwrap();
        drop(partial);
        assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));

        let partial = Partial::beside(&to).unwrap();
        fs_err::write(partial.path().join("file"), "").unwrap();
        partial.finish().unwrap();
        assert_eq!(names(folder.path()), ["model"]);
        assert!(to.join("file").exists() && !to.join("old").exists());
        for taken in [&to, Path::new("/"), Path::new("..")] {
            assert!(Partial::beside(taken).unwrap_err().to_string().contains("is there already"));
        }
    }

    /// What cannot be flushed gets no name: here a file, deep inside, that cannot be opened.
    #[test]
    fn the_disk_has_all_of_it_first() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("model");
        let partial = Partial::beside(&to).unwrap();
        fs_err::create_dir_all(partial.path().join("a/b")).unwrap();
        fs_err::write(partial.path().join("a/file"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", partial.path().join("a/b/lost")).unwrap();
        let message = partial.finish().unwrap_err().to_string();
        assert!(message.contains("a/b/lost"), "{message}");
        assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
    }

    #[test]
    fn what_is_replaced_is_there_at_any_time() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("model");
        let write = |number: usize| {
            let partial = Partial::over(&to).unwrap();
            fs_err::write(partial.path().join("file"), number.to_string()).unwrap();
            partial.finish().unwrap();
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
            assert_eq!(looked.join().unwrap(), 0, "of the looks at it");
        });
        assert_eq!(fs_err::read_to_string(to.join("file")).unwrap(), "500");
        assert_eq!(names(folder.path()), ["model"]);
        // As a kill leaves it where directories cannot be exchanged.
        fs_err::rename(&to, folder.path().join("model.old")).unwrap();
        Partial::recover(&to).unwrap();
        assert_eq!(names(folder.path()), ["model"]);
    }
}
