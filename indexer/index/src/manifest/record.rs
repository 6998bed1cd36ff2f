//! The content of a manifest.

use serde::{Deserialize, Serialize};

use crate::model::ModelRecord;

/// Version that this build writes, and the newest that it reads.
pub const MANIFEST_VERSION: u32 = 1;

/// Directory of the shards inside an index.
pub const SHARDS_DIR: &str = "shards";

/// One generation of an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this record.
    pub format_version: u32,
    /// From 1, one more with every publish.
    pub generation: u64,
    /// The generation that was current when this one was published: where `rollback` goes to. Absent in the first one,
    /// and where an earlier release published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// Seconds since the epoch.
    pub created_unix_s: u64,
    /// Program and version that published.
    pub tool: String,
    /// The model of all vectors.
    pub model: ModelRecord,
    /// In order.
    pub shards: Vec<ShardEntry>,
}

/// One shard: a directory under `shards/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEntry {
    /// Name of the directory.
    pub id: String,
    /// Documents, and vectors.
    pub documents: u64,
    /// Every file of the shard.
    pub files: Vec<FileEntry>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Relative to the shard's directory, with `/`.
    pub path: String,
    /// Length.
    pub bytes: u64,
    /// CRC-32C of the content.
    pub crc32c: u32,
}

impl Manifest {
    /// Documents of all shards. A damaged manifest may name more than can be counted.
    pub fn documents(&self) -> u64 {
        self.shards.iter().fold(0, |sum, shard| sum.saturating_add(shard.documents))
    }
}
