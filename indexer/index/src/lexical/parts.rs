//! The merge of a text index's parts: their pages are dropped from the process while they are read, so that it does not
//! hold all of them at once.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tantivy::Index;
use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    Directory, DirectoryLock, FileHandle, Lock, MmapDirectory, OwnedBytes, WatchCallback, WatchHandle, WritePtr,
};
use tantivy::indexer::merge_indices;

use super::text_error;
use crate::error::Result;
use crate::storage::SharedMap;

/// Between two times that pages are dropped: some tens of megabytes are read meanwhile.
const PAUSE: Duration = Duration::from_millis(20);

/// Files of parts that are open.
type Maps = Arc<Mutex<BTreeMap<PathBuf, SharedMap>>>;

/// Merges the indexes in `parts`, in that order, into an empty directory.
pub(super) fn merge(parts: &[PathBuf], into: &Path) -> Result<()> {
    let failed = text_error(into);
    let maps = Maps::default();
    let open = |part: &PathBuf| {
        let inner = MmapDirectory::open(part)?;
        Index::open(PartDirectory {
            inner,
            root: part.clone(),
            maps: Arc::clone(&maps),
        })
    };
    let parts = parts
        .iter()
        .map(open)
        .collect::<tantivy::Result<Vec<Index>>>()
        .map_err(&failed)?;
    let directory = MmapDirectory::open(into).map_err(|error| failed(error.into()))?;
    let is_over = AtomicBool::new(false);
    let merged = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::thread::park_timeout(PAUSE);
                let maps = maps.lock().unwrap_or_else(PoisonError::into_inner);
                maps.values().for_each(SharedMap::drop_pages);
            }
        });
        let merged = merge_indices(&parts, directory);
        is_over.store(true, Ordering::Relaxed);
        merged
    });
    merged.map(drop).map_err(failed)
}

/// A part, whose files are mapped by us.
#[derive(Debug, Clone)]
struct PartDirectory {
    inner: MmapDirectory,
    root: PathBuf,
    maps: Maps,
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "a part that is merged is read-only")
}

impl Directory for PartDirectory {
    fn get_file_handle(&self, path: &Path) -> std::result::Result<Arc<dyn FileHandle>, OpenReadError> {
        let full = self.root.join(path);
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        if !maps.contains_key(&full) {
            let wrap =
                |error: crate::error::Error| OpenReadError::wrap_io_error(io::Error::other(error), path.to_owned());
            match SharedMap::open(&full) {
                Ok(Some(map)) => drop(maps.insert(full.clone(), map)),
                // An empty file cannot be mapped.
                Ok(None) => return Ok(Arc::new(OwnedBytes::empty())),
                Err(error) if !full.exists() => {
                    drop(error);
                    return Err(OpenReadError::FileDoesNotExist(path.to_owned()));
                }
                Err(error) => return Err(wrap(error)),
            }
        }
        match maps.get(&full) {
            Some(map) => Ok(Arc::new(OwnedBytes::new(map.clone()))),
            None => Err(OpenReadError::FileDoesNotExist(path.to_owned())),
        }
    }

    fn delete(&self, path: &Path) -> std::result::Result<(), DeleteError> {
        Err(DeleteError::IoError {
            io_error: Arc::new(refused()),
            filepath: path.to_owned(),
        })
    }

    fn exists(&self, path: &Path) -> std::result::Result<bool, OpenReadError> {
        self.inner.exists(path)
    }

    fn open_write(&self, path: &Path) -> std::result::Result<WritePtr, OpenWriteError> {
        Err(OpenWriteError::wrap_io_error(refused(), path.to_owned()))
    }

    fn atomic_read(&self, path: &Path) -> std::result::Result<Vec<u8>, OpenReadError> {
        self.inner.atomic_read(path)
    }

    fn atomic_write(&self, _path: &Path, _data: &[u8]) -> io::Result<()> {
        Err(refused())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn acquire_lock(&self, _lock: &Lock) -> std::result::Result<DirectoryLock, LockError> {
        Ok(DirectoryLock::from(Box::new(())))
    }

    fn watch(&self, _callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}
