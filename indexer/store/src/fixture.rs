//! An index whose generations are published and pushed one after another. Its files are no shards; nothing opens them.

use std::path::Path;

use dyad_index::TextLanguage;
use dyad_index::manifest::{self, FileEntry, Manifest, ShardEntry};
use dyad_index::storage::WriteLock;
use dyad_index::{Metric, ModelRecord};
use tempfile::TempDir;

use crate::error::Result;
use crate::push::{Pushed, complete_current, push};
use crate::remote::RemoteStore;
use crate::transfers::PushOptions;

/// The index.
pub(crate) struct Pushing(TempDir);

impl Pushing {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn lock(&self) -> WriteLock {
        WriteLock::acquire(self.path()).unwrap()
    }

    /// Publishes a generation of these shards, of one file each.
    pub(crate) fn publish(&self, generation: u64, shards: &[&str]) {
        let shards = shards.iter().map(|id| self.shard(id)).collect();
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
        manifest::publish(self.path(), &manifest, &[], &self.lock()).unwrap();
    }

    fn shard(&self, id: &str) -> ShardEntry {
        let folder = self.path().join("shards").join(id);
        fs_err::create_dir_all(&folder).unwrap();
        let bytes = id.repeat(1_000).into_bytes();
        fs_err::write(folder.join("dense.dyad"), &bytes).unwrap();
        let (path, crc32c) = ("dense.dyad".into(), crc32c::crc32c(&bytes));
        let files = vec![FileEntry {
            path,
            bytes: bytes.len() as u64,
            crc32c,
        }];
        ShardEntry {
            id: id.into(),
            documents: 1,
            files,
            deleted: None,
            metadata: None,
            calibration: None,
        }
    }

    pub(crate) fn roll_back(&self, generation: u64) {
        manifest::point_to(self.path(), generation, &self.lock()).unwrap();
    }

    pub(crate) async fn push(&self, remote: &RemoteStore) -> Result<Pushed> {
        push(self.path(), remote, &PushOptions::default(), &dyad_files::Never).await
    }

    /// What a push does at its end, where it has found all files there.
    pub(crate) async fn complete(&self, remote: &RemoteStore) -> Result<usize> {
        let put = complete_current(self.path(), remote).await?;
        Ok(put.into_iter().filter(|put| *put).count())
    }
}
