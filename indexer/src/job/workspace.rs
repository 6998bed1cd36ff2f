//! The job's own directory in the index, and what killed builds left.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dyad_index::manifest::{self, SHARDS_DIR};
use dyad_index::storage::WriteLock;

use crate::error::Error;
use crate::publish::is_shard_id;

/// The one name that builds use: the lock admits one of them at a time.
const BUILDING_DIR: &str = ".dyad-building";
/// Beginnings of files that were to replace another one (see `dyad_index::storage::write_atomic`).
const REPLACED: [&str; 2] = ["CURRENT", "manifest-"];
/// What such a name goes on with before it has its final form.
const TEMPORARY_MARK: &str = ".tmp-";

/// An empty directory that disappears with the value.
#[derive(Debug)]
pub(super) struct Workspace {
    path: PathBuf,
}

impl Workspace {
    /// Removes what a killed build left, and starts anew. The lock proves that no build is running.
    pub(super) fn create(index: &Path, _lock: &WriteLock) -> Result<Self, Error> {
        remove_leftovers(index)?;
        let path = index.join(BUILDING_DIR);
        fs_err::create_dir(&path)?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Err(error) = fs_err::remove_dir_all(&self.path)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!("{error}; the next build will remove it");
        }
    }
}

/// Removes the directory of a killed build, files that never got their final name, and shards that no manifest names.
fn remove_leftovers(index: &Path) -> Result<(), Error> {
    for entry in fs_err::read_dir(index)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == BUILDING_DIR {
            tracing::info!("removing what an unfinished build left in `{}`", entry.path().display());
            fs_err::remove_dir_all(entry.path())?;
            continue;
        }
        let name = name.to_string_lossy();
        if name.contains(TEMPORARY_MARK) && REPLACED.iter().any(|start| name.starts_with(start)) {
            fs_err::remove_file(entry.path())?;
        }
    }
    remove_unnamed_shards(index)
}

fn remove_unnamed_shards(index: &Path) -> Result<(), Error> {
    let mut named = BTreeSet::new();
    for generation in manifest::generations(index)? {
        // A manifest that cannot be read may name any shard: then none is removed.
        let Ok(manifest) = manifest::load(index, generation) else { return Ok(()) };
        named.extend(manifest.shards.into_iter().map(|shard| shard.id));
    }
    let shards = match fs_err::read_dir(index.join(SHARDS_DIR)) {
        Ok(shards) => shards,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in shards {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Whatever else somebody keeps there is not ours to remove.
        if is_shard_id(&name) && !named.contains(name.as_ref()) {
            tracing::info!("removing `{}`, which no generation names", entry.path().display());
            fs_err::remove_dir_all(entry.path())?;
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
        write("CURRENT.tmp-4711");
        write(&format!("{shard}/dense.dyad"));
        write(&format!("{foreign}/a.png"));
        write("notes.tmp-1");
        let lock = WriteLock::acquire(index).unwrap();
        let workspace = Workspace::create(index, &lock).unwrap();
        assert!(fs_err::read_dir(workspace.path()).unwrap().next().is_none());
        assert!(!index.join("CURRENT.tmp-4711").exists());
        assert!(!index.join(shard).exists());
        assert!(index.join(foreign).exists() && index.join("notes.tmp-1").exists());
        let path = workspace.path().to_owned();
        drop(workspace);
        assert!(!path.exists());
    }

    #[test]
    fn an_unreadable_manifest_protects_every_shard() {
        let dir = tempfile::tempdir().unwrap();
        let shard = dir.path().join("shards/000001-0000-0123456789abcdef");
        fs_err::create_dir_all(&shard).unwrap();
        fs_err::write(dir.path().join("manifest-000009.json"), r#"{"format_version":99}"#).unwrap();
        remove_leftovers(dir.path()).unwrap();
        assert!(shard.exists());
        fs_err::remove_file(dir.path().join("manifest-000009.json")).unwrap();
        remove_leftovers(dir.path()).unwrap();
        assert!(!shard.exists());
    }
}
