//! How shards are written again.

use std::path::PathBuf;

use dyad_files::space::FreeSpace;
use dyad_index::{Snapshot, TextLanguage};

use super::merge_policy::MergeCandidates;
use crate::graph_build::CertificateSample;

/// Which shards are merged, and how.
#[derive(Debug, Clone)]
pub struct MergeConfig {
    /// The index's directory.
    pub index: PathBuf,
    /// Merges all shards, and not only those that [`select_mergeable`](super::select_mergeable) names.
    pub all: bool,
    /// Without `all`, the shards among which they are looked for.
    pub candidates: MergeCandidates,
    /// How many questions measure the graphs of new shards.
    pub sample: CertificateSample,
    /// Builds every graph from nothing, and not from that of the largest shard merged. With `all`, a shard that is
    /// merged with no other is written again too.
    pub rebuild: bool,
    /// The language by which BM25 analyses texts from then on; by default that of the index. With another one and
    /// `all`, every shard is written again.
    pub language: Option<TextLanguage>,
    /// Most documents of a new shard.
    pub max_documents: u64,
    /// Threads of the graphs' build.
    pub threads: usize,
    /// Most bytes of memory; then new shards are no larger than it allows.
    pub memory: Option<u64>,
    /// Nothing is merged; the outcome says what would be.
    pub dry_run: bool,
    /// Returns the free space of the index's disk.
    pub free_space: FreeSpace,
}

impl MergeConfig {
    /// The language of the new shards.
    pub(super) fn language_of(&self, base: &Snapshot) -> TextLanguage {
        self.language.unwrap_or(base.manifest().language)
    }
}
