//! Conditions of a worker that a machine with less memory would have: a limit, and files that are not in the page
//! cache.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

use crate::error::{BenchError, BenchResult};

/// How long the kernel may take to empty a group whose processes have ended.
const EMPTY: Duration = Duration::from_secs(2);

/// A control group (of either version) whose processes may have so much memory, their mapped files and other page cache
/// included.
#[derive(Debug)]
pub(super) struct WorkerMemoryLimit {
    dir: PathBuf,
}

impl WorkerMemoryLimit {
    /// A group of its own for a process.
    pub(super) fn set(process: u32, bytes: u64) -> BenchResult<Self> {
        Self::under(Path::new("/sys/fs/cgroup"), process, bytes).map_err(|source| {
            BenchError::Refused(format!(
                "--memory-limit: expected a control group that this process may make, got: {source}. Run as root, or under \
                 `systemd-run --user --scope -p Delegate=yes`"
            ))
        })
    }

    fn under(mount: &Path, process: u32, bytes: u64) -> io::Result<Self> {
        let first = mount.join("memory");
        let (parent, limit) = if first.join("memory.limit_in_bytes").exists() {
            (first, "memory.limit_in_bytes")
        } else {
            // Fails where it is enabled already, or may not be: then there is no limit to write to below.
            let _ = fs_err::write(mount.join("cgroup.subtree_control"), "+memory");
            (mount.to_owned(), "memory.max")
        };
        let dir = parent.join(format!("dyad-bench-{}-{process}", std::process::id()));
        fs_err::create_dir(&dir)?;
        let group = Self { dir };
        fs_err::write(group.dir.join(limit), bytes.to_string())?;
        fs_err::write(group.dir.join("cgroup.procs"), process.to_string())?;
        Ok(group)
    }
}

impl Drop for WorkerMemoryLimit {
    /// A group can be removed once its processes have ended.
    fn drop(&mut self) {
        let until = Instant::now() + EMPTY;
        while fs_err::remove_dir(&self.dir).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Drops a file's pages from the page cache; they are read from the disk again when they are needed.
pub(crate) fn drop_pages(path: &Path) -> BenchResult<()> {
    let file = fs_err::File::open(path)?;
    // Pages that are not written yet cannot be dropped.
    file.sync_all()?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed).map_err(io::Error::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_says_its_limit_and_its_process_in_either_version() {
        for (version, limit) in [
            ("memory", "memory/dyad-bench-GROUP/memory.limit_in_bytes"),
            ("", "dyad-bench-GROUP/memory.max"),
        ] {
            let mount = tempfile::tempdir().unwrap();
            if !version.is_empty() {
                fs_err::create_dir(mount.path().join(version)).unwrap();
                fs_err::write(mount.path().join(version).join("memory.limit_in_bytes"), "").unwrap();
            }
            let group = WorkerMemoryLimit::under(mount.path(), 12, 5_000_000).unwrap();
            let limit = mount
                .path()
                .join(limit.replace("GROUP", &format!("{}-12", std::process::id())));
            assert_eq!(fs_err::read_to_string(&limit).unwrap(), "5000000");
            assert_eq!(fs_err::read_to_string(group.dir.join("cgroup.procs")).unwrap(), "12");
            // In a real one the files go with the folder.
            fs_err::remove_dir_all(&group.dir).unwrap();
        }
    }

    #[test]
    fn dropped_pages_are_read_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), vec![7; 100_000]).unwrap();
        drop_pages(file.path()).unwrap();
        assert_eq!(fs_err::read(file.path()).unwrap(), vec![7; 100_000]);
    }
}
