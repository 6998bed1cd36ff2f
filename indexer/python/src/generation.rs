//! A generation that is open: of a whole index, or of one of its shards.

use std::path::{Path, PathBuf};

use dyad_index::manifest::{self, SHARDS_DIR};
use dyad_index::{Error, Snapshot};
use pyo3::prelude::*;

use crate::hits::KeyKind;
use crate::problem::{of_index, refused};

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenedPath {
    /// An index.
    Index(PathBuf),
    /// One of the shards of an index, which is read alone.
    Shard { index: PathBuf, id: String },
}

impl OpenedPath {
    /// A folder in the shards of an index is one of its shards, and any other path an index.
    pub(crate) fn new(path: &Path) -> Self {
        let shard = || {
            let whole = fs_err::canonicalize(path).ok()?;
            let shards = whole.parent().filter(|shards| shards.ends_with(SHARDS_DIR))?;
            let index = shards.parent()?.to_owned();
            manifest::current_generation(&index).ok().flatten()?;
            let id = whole.file_name()?.to_str()?.to_owned();
            Some(Self::Shard { index, id })
        };
        shard().unwrap_or_else(|| Self::Index(path.to_owned()))
    }

    /// The index, where all of it was opened: one shard cannot be changed.
    pub(crate) fn whole_index(&self) -> PyResult<&Path> {
        match self {
            Self::Index(path) => Ok(path),
            Self::Shard { index, id } => {
                let expected = format!("a whole index. Open {} to change it", index.display());
                Err(refused("path", &expected, format!("its shard {id}")))
            }
        }
    }
}

/// A generation, and what its keys are.
pub(crate) struct OpenGeneration {
    pub(crate) snapshot: Snapshot,
    pub(crate) keys: KeyKind,
}

impl OpenGeneration {
    /// Opens what is current; shards that it has in common with `before` are shared.
    pub(crate) fn open(path: &OpenedPath, before: Option<&Self>) -> PyResult<Self> {
        let before = before.map(|before| &before.snapshot);
        let snapshot = match path {
            OpenedPath::Index(index) => Snapshot::open_after(index, before).map_err(of_index)?,
            OpenedPath::Shard { index, id } => open_shard(index, id, before)?,
        };
        let keys = KeyKind::of(&snapshot);
        Ok(Self { snapshot, keys })
    }
}

/// The current generation with one shard alone, of which all statistics are then.
fn open_shard(index: &Path, id: &str, before: Option<&Snapshot>) -> PyResult<Snapshot> {
    let mut manifest = manifest::current(index).map_err(of_index)?;
    manifest.shards.retain(|shard| shard.id == id);
    if manifest.shards.is_empty() {
        let missing = Error::NoGeneration {
            path: index.to_owned(),
            generation: manifest.generation,
            present: format!("no shard {id} in it"),
        };
        return Err(of_index(missing));
    }
    Snapshot::open_manifest(index, manifest, before).map_err(of_index)
}
