//! How a batch of documents is added to an index.

use std::path::PathBuf;

use dyad_files::space::FreeSpace;

use super::passages::Passages;
use super::triage::Operation;
use crate::graph_build::CertificateSample;

/// How a batch of documents is indexed.
#[derive(Debug, Clone)]
pub struct UpsertConfig {
    /// The index's directory.
    pub index: PathBuf,
    /// What becomes of documents whose keys are in the index.
    pub operation: Operation,
    /// How many questions measure the graph of a new shard.
    pub sample: CertificateSample,
    /// Threads of the graph's build.
    pub threads: usize,
    /// Questions by which recall is measured, see [`QuestionVectors::open`](crate::graph_build::QuestionVectors::open);
    /// by default those of the index's certificates, or else documents.
    pub queries: Option<PathBuf>,
    /// What makes passages of documents. Where a document has fewer than before, those after its last one are deleted.
    pub passages: Passages,
    /// Nothing is embedded or published; the outcome says what would be.
    pub dry_run: bool,
    /// Returns the free space of the index's disk.
    pub free_space: FreeSpace,
}
