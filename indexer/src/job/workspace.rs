//! A job's own directory in the index, and the remains of killed builds.
//!
//! Several builds may run at the same time. Each locks its own directory, so that the next one can tell the directory
//! of a killed build, which it removes, from that of a running one. Directories are searched for and created under the
//! index's own lock, which takes milliseconds.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dyad_files::{DirLock, LockError, remove_temporary};
use dyad_index::manifest::{self, NEWEST, SHARD_FOLDERS, SHARDS_DIR, ShardEntry};
use dyad_index::storage::WriteLock;

use crate::error::Error;
use crate::shard_names::{is_change_name, is_shard_id};

/// Prefix of the directories of builds, and the whole name in earlier releases, which allowed one build at a time.
const BUILDING_DIR: &str = ".dyad-building";
/// Folder in a build's directory for unreferenced shards and deletions that will be removed.
const UNNAMED_DIR: &str = "unnamed";

/// Times that a directory is removed in which others put lock files.
const REMOVALS: usize = 100;

/// A directory that is removed when dropped.
#[derive(Debug)]
pub(crate) struct Workspace {
    path: PathBuf,
    _lock: DirLock,
}

impl Workspace {
    /// Creates a directory for a build, and removes the remains of killed ones.
    pub(crate) fn create(index: &Path) -> Result<Self, Error> {
        let lock = WriteLock::acquire(index)?;
        let dead = dead_builds(index)?;
        remove_temporary(index, |name| {
            name == "CURRENT" || name == NEWEST || name.starts_with("manifest-")
        })?;
        manifest::settle(index, &lock)?;
        let workspace = Self::begin(index)?;
        set_unnamed_aside(index, &workspace.path)?;
        drop(lock);
        // Removing may take long, and need not hold the index's lock: this process has locked the directories.
        for (path, _lock) in &dead {
            tracing::info!("removing the remains of an unfinished build in `{}`", path.display());
            remove_dir(path)?;
        }
        remove_dir(&workspace.path.join(UNNAMED_DIR))?;
        Ok(workspace)
    }

    fn begin(index: &Path) -> Result<Self, Error> {
        // No job of a process takes a name that another one had: that one may still be removing its directory.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        // A number may be in use by a build on another machine.
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = index.join(format!("{BUILDING_DIR}-{process}-{number}"));
            match fs_err::create_dir(&path) {
                Ok(()) => {
                    return Ok(Self {
                        _lock: DirLock::acquire(&path, Duration::ZERO)?,
                        path,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Err(error) = remove_dir(&self.path) {
            tracing::warn!("{error}; the next build will remove it");
        }
    }
}

/// Removes a directory that may be gone already: a build that ends removes its own. Another job that begins meanwhile
/// may look whether it is locked, and leave a lock file in it.
pub(super) fn remove_dir(path: &Path) -> std::io::Result<()> {
    let mut tries_left = REMOVALS;
    loop {
        match fs_err::remove_dir_all(path) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty && tries_left > 0 => tries_left -= 1,
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        }
    }
}

/// Directories of builds that have ended, each locked by this process from now on. The index's lock is held, so none is
/// being created.
fn dead_builds(index: &Path) -> Result<Vec<(PathBuf, Option<DirLock>)>, Error> {
    let mut dead = Vec::new();
    for entry in fs_err::read_dir(index)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if name == BUILDING_DIR {
            // Releases that used this name held the index's lock until they ended.
            dead.push((path, None));
        } else if name.to_string_lossy().starts_with(&format!("{BUILDING_DIR}-")) {
            match DirLock::acquire(&path, Duration::ZERO) {
                Ok(lock) => dead.push((path, Some(lock))),
                Err(LockError::Held { .. }) => {}
                // Its build has just removed it.
                Err(LockError::Io(error)) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(dead)
}

/// Moves parts of shards that no manifest names into a build's directory. The index's lock is held, so none is being
/// published.
fn set_unnamed_aside(index: &Path, workspace: &Path) -> Result<(), Error> {
    let mut named: BTreeSet<(&str, String)> = BTreeSet::new();
    for generation in manifest::generations(index)? {
        // A manifest that cannot be read may name any shard: then none is removed.
        let Ok(manifest) = manifest::load(index, generation) else {
            return Ok(());
        };
        let parts = manifest.shards.iter().flat_map(ShardEntry::parts);
        named.extend(parts.map(|part| (part.folder, part.name.to_owned())));
    }
    let aside = workspace.join(UNNAMED_DIR);
    SHARD_FOLDERS
        .iter()
        .try_for_each(|folder| move_unnamed(index, folder, &named, &aside))
}

fn move_unnamed(index: &Path, folder: &str, named: &BTreeSet<(&str, String)>, aside: &Path) -> Result<(), Error> {
    let is_ours = if folder == SHARDS_DIR {
        is_shard_id
    } else {
        is_change_name
    };
    let entries = match fs_err::read_dir(index.join(folder)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Other files there are not ours to remove.
        if is_ours(&name) && !named.contains(&(folder, name.clone().into_owned())) {
            tracing::info!("removing `{}`, which no generation names", entry.path().display());
            // Deletions, metadata and calibrations of one shard may have one name.
            fs_err::create_dir_all(aside.join(folder))?;
            fs_err::rename(entry.path(), aside.join(folder).join(name.as_ref()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_a_killed_build_go_and_named_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path();
        let write = |name: &str| {
            let path = index.join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, "x").unwrap();
        };
        let (shard, foreign) = ("shards/000001-0000-0123456789abcdef", "shards/photographs");
        write(".dyad-building/shard-0000.rows");
        write(".dyad-building-1-0/shard-0000.rows");
        write("CURRENT.tmp-4711");
        write("manifest-000001.json");
        write(".publishing-000001");
        write(&format!("{shard}/dense.dyad"));
        write(&format!("{foreign}/a.png"));
        write("notes.tmp-1");
        let workspace = Workspace::create(index).unwrap();
        let names: Vec<_> = fs_err::read_dir(workspace.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["LOCK"]);
        for gone in [
            "CURRENT.tmp-4711",
            ".dyad-building",
            ".dyad-building-1-0",
            shard,
            "manifest-000001.json",
        ] {
            assert!(!index.join(gone).exists(), "{gone}");
        }
        assert!(index.join(foreign).exists() && index.join("notes.tmp-1").exists());
        let path = workspace.path().to_owned();
        drop(workspace);
        assert!(!path.exists());
    }

    #[test]
    fn a_living_build_keeps_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let first = Workspace::create(dir.path()).unwrap();
        fs_err::write(first.path().join("shard-0000.rows"), "x").unwrap();
        let second = Workspace::create(dir.path()).unwrap();
        assert!(first.path() != second.path());
        assert!(first.path().join("shard-0000.rows").exists());
        drop(first);
        assert!(second.path().exists());
    }

    #[test]
    fn an_unreadable_manifest_protects_every_shard() {
        let dir = tempfile::tempdir().unwrap();
        let shard = dir.path().join("shards/000001-0000-0123456789abcdef");
        fs_err::create_dir_all(&shard).unwrap();
        fs_err::write(dir.path().join("manifest-000009.json"), r#"{"format_version":99}"#).unwrap();
        drop(Workspace::create(dir.path()).unwrap());
        assert!(shard.exists());
        fs_err::remove_file(dir.path().join("manifest-000009.json")).unwrap();
        drop(Workspace::create(dir.path()).unwrap());
        assert!(!shard.exists());
    }
}
