//! An index that is made and pushed generation by generation, and the folder of a cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyad_files::Never;
use dyad_index::TextLanguage;
use dyad_index::manifest;
use dyad_index::manifest::{DeletedEntry, FileEntry, Manifest, ShardEntry};
use dyad_index::storage::WriteLock;
use dyad_index::{Metric, ModelRecord};
use dyad_store::{Cache, Mirror, PushOptions, RemoteStore, push};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tempfile::TempDir;

/// Bytes of a shard; a manifest has few in comparison.
pub(super) const SHARD: u64 = 100_000;

/// An index that is made and pushed generation by generation, and the folder of a cache.
pub(super) struct Place {
    pub(super) folder: TempDir,
    pub(super) store: Arc<InMemory>,
}

impl Place {
    pub(super) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs_err::create_dir(folder.path().join("index")).unwrap();
        Self {
            folder,
            store: Arc::new(InMemory::new()),
        }
    }

    pub(super) fn remote(&self, url: &str) -> RemoteStore {
        RemoteStore::from_store(url, Arc::clone(&self.store) as Arc<dyn ObjectStore>, "wiki")
    }

    /// Publishes and pushes a generation of these shards.
    pub(super) async fn push(&self, generation: u64, shards: &[&str]) {
        let index = self.folder.path().join("index");
        let shards = shards.iter().map(|id| shard(&index, id)).collect();
        self.push_entries(generation, shards).await;
    }

    /// The same, with deletions of each shard that are those of the generation.
    pub(super) async fn push_with_deletions(&self, generation: u64, shards: &[&str]) {
        let index = self.folder.path().join("index");
        let with_deletions = |id: &&str| ShardEntry {
            deleted: Some(deletions(&index, generation, id)),
            ..shard(&index, id)
        };
        self.push_entries(generation, shards.iter().map(with_deletions).collect())
            .await;
    }

    async fn push_entries(&self, generation: u64, shards: Vec<ShardEntry>) {
        let index = self.folder.path().join("index");
        let (name, fingerprint) = ("m".to_owned(), "f".to_owned());
        let model = ModelRecord {
            name,
            fingerprint,
            dim: 1,
            full_dim: None,
            metric: Metric::Cosine,
            max_tokens: 1,
        };
        let manifest = Manifest {
            format_version: 2,
            generation,
            parent: None,
            created_unix_s: generation,
            tool: "test".into(),
            model,
            context: None,
            logit_scale: None,
            min_recall: None,
            language: TextLanguage::English,
            change: None,
            shards,
        };
        manifest::publish(&index, &manifest, &[], &WriteLock::acquire(&index).unwrap()).unwrap();
        push(&index, &self.remote("memory://wiki"), &PushOptions::default(), &Never)
            .await
            .unwrap();
    }

    pub(super) fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// The mirror in a cache with room for `shards` shards.
    pub(super) fn mirror(&self, shards: Option<u64>) -> Mirror {
        let limit = shards.map(|shards| shards * SHARD + SHARD / 2);
        Cache::new(&self.cache(), limit).mirror(self.remote("memory://wiki"))
    }
}

/// Writes a shard of one file.
fn shard(index: &Path, id: &str) -> ShardEntry {
    let folder = index.join("shards").join(id);
    fs_err::create_dir_all(&folder).unwrap();
    let bytes: Vec<u8> = id.bytes().cycle().take(SHARD as usize).collect();
    fs_err::write(folder.join("dense.dyad"), &bytes).unwrap();
    let file = FileEntry {
        path: "dense.dyad".into(),
        bytes: SHARD,
        crc32c: crc32c::crc32c(&bytes),
    };
    ShardEntry {
        id: id.into(),
        documents: 1,
        files: vec![file],
        deleted: None,
        metadata: None,
        calibration: None,
    }
}

/// Writes deletions of a shard.
fn deletions(index: &Path, generation: u64, id: &str) -> DeletedEntry {
    let (folder, path) = (index.join("deletions"), format!("{generation:06}-{id}.dyad"));
    fs_err::create_dir_all(&folder).unwrap();
    fs_err::write(folder.join(&path), &path).unwrap();
    let file = FileEntry {
        bytes: path.len() as u64,
        crc32c: crc32c::crc32c(path.as_bytes()),
        path,
    };
    DeletedEntry { documents: 1, file }
}
