//! One run at a time in a work directory, and none of what dead runs left there.

use std::path::Path;
use std::time::Duration;

use dyad_files::{DirLock, LockError};

use crate::harness::{Error, Result, SCRATCH};

/// Takes the work directory for as long as a run uses it; it is created where it does not exist. Says which process holds it
/// otherwise. Removes the scratch folders of processes that are gone.
pub fn lock_cache(cache: &Path) -> Result<DirLock> {
    fs_err::create_dir_all(cache)?;
    let lock = DirLock::acquire(cache, Duration::ZERO).map_err(|error| match error {
        LockError::Held { dir, holder } => Error::CacheInUse { path: dir, holder },
        LockError::Io(error) => error.into(),
    })?;
    remove_dead_scratch(cache)?;
    Ok(lock)
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
        let first = lock_cache(&cache).unwrap();
        let error = lock_cache(&cache).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())) && error.contains("--cache"), "{error}");
        drop(first);
        lock_cache(&cache).unwrap();
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
        let _lock = lock_cache(dir.path()).unwrap();
        let kept = |name: &String| dir.path().join(name).exists();
        assert_eq!((names.each_ref().map(kept), kept(&alive)), ([false, true, true], true));
    }
}
