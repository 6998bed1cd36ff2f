//! One run at a time in a work directory, and none of what dead runs left there.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use crate::harness::{Error, Result, SCRATCH};

/// Held while a run uses the work directory; the system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct CacheLock {
    _file: File,
}

impl CacheLock {
    /// Takes the work directory, which is created where it does not exist, or says which process holds it. Removes the
    /// scratch folders of processes that are gone.
    pub fn acquire(cache: &Path) -> Result<Self> {
        fs_err::create_dir_all(cache)?;
        let mut options = fs_err::OpenOptions::new();
        let path = cache.join("LOCK");
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?.into_file();
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let holder = holder.trim().parse::<u32>().map_or_else(|_| "unknown".to_owned(), |id| id.to_string());
                return Err(Error::CacheInUse { path: cache.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        remove_dead_scratch(cache)?;
        Ok(Self { _file: file })
    }
}

fn remove_dead_scratch(cache: &Path) -> Result<()> {
    for entry in fs_err::read_dir(cache)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(Ok(process)) = name.strip_prefix(SCRATCH).map(str::parse::<u32>) else { continue };
        if !Path::new(&format!("/proc/{process}")).exists() {
            fs_err::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_is_told_who_holds_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache");
        let first = CacheLock::acquire(&cache).unwrap();
        let error = CacheLock::acquire(&cache).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())) && error.contains("--cache"), "{error}");
        drop(first);
        CacheLock::acquire(&cache).unwrap();
    }

    #[test]
    fn only_scratch_of_the_dead_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        // No process has so large an id: the kernel's limit is 2^22.
        let names = ["scratch-4294967295", "scratch-x", "index"].map(str::to_owned);
        let alive = format!("scratch-{}", std::process::id());
        for name in names.iter().chain([&alive]) {
            fs_err::create_dir_all(dir.path().join(name).join("inside")).unwrap();
        }
        let _lock = CacheLock::acquire(dir.path()).unwrap();
        let kept = |name: &String| dir.path().join(name).exists();
        assert_eq!((names.each_ref().map(kept), kept(&alive)), ([false, true, true], true));
    }
}
