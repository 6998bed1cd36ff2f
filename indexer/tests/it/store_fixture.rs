//! A place in a store, and indexes to push to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyad_files::Never;
use dyad_files::space::boundless;
use dyad_store::{Error, PullOptions, Pulled, PushOptions, Pushed, RemoteStore, pull, push};
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt as _};

use crate::fixture::Fixture;

pub(crate) const OPTIONS: PullOptions = PullOptions { free_space: boundless };
/// So small that the files of these indexes have several.
pub(crate) const PARTS: PushOptions = PushOptions { part_bytes: 1 << 10 };

pub(crate) struct Place {
    pub(crate) store: Arc<InMemory>,
    pub(crate) remote: RemoteStore,
}

impl Place {
    pub(crate) fn new() -> Self {
        let store = Arc::new(InMemory::new());
        let shared: Arc<dyn ObjectStore> = Arc::clone(&store) as Arc<dyn ObjectStore>;
        Self {
            remote: RemoteStore::from_store("memory://tests/some/prefix", shared, "some/prefix"),
            store,
        }
    }

    pub(crate) async fn push(&self, index: &Path) -> Result<Pushed, Error> {
        push(index, &self.remote, &PARTS, &Never).await
    }

    pub(crate) async fn pull(&self, index: &Path) -> Result<Pulled, Error> {
        pull(&self.remote, index, &OPTIONS, &Never).await
    }

    pub(crate) async fn damage(&self, name: &str) {
        let path = ObjectPath::from(format!("some/prefix/{name}"));
        let mut bytes = self.store.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        self.store.put(&path, bytes.into()).await.unwrap();
    }
}

/// The same index in another directory.
pub(crate) fn copy(from: &Fixture) -> Fixture {
    let to = Fixture::empty();
    for (path, bytes) in from.files() {
        let path = to.index().join(path.strip_prefix(from.index()).unwrap());
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, bytes).unwrap();
    }
    to
}

pub(crate) fn relative(fixture: &Fixture) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let files = fixture.files().into_iter();
    let files = files.map(|(path, bytes)| (path.strip_prefix(fixture.index()).unwrap().to_owned(), bytes));
    // What pushes and pulls note for themselves.
    files
        .filter(|(path, _)| !path.starts_with(".pull") && !path.starts_with(".pushed") && !path.starts_with(".learned"))
        .collect()
}
