//! The records of a job: its plan, and what its tasks have done.

use dyad_corpus::{CorpusFormat, FieldNames, ReadOptions, Split};
use dyad_index::ModelRecord;
use dyad_index::TextLanguage;
use dyad_index::format::RowType;
use dyad_index::manifest::{FileEntry, MAX_LOGIT_SCALE, ShardEntry};
use dyad_store::is_plain;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::graph_settings::GraphSettings;
use crate::shard_names::is_shard_id;
use crate::source::OnLong;

/// Version of the records that this build writes, and the only one that it reads.
pub(super) const VERSION: u32 = 1;
/// Version of the plan of an index that is not English: tasks of earlier releases would analyse its texts as English.
pub(super) const LANGUAGE_VERSION: u32 = 2;
/// Version of the plan of an index that keeps the first values of vectors, or their int8 codes alone: tasks of earlier
/// releases would keep all of them.
pub(super) const FEWER_BYTES_VERSION: u32 = 3;
/// The plan's object.
pub(super) const PLAN: &str = "plan.json";
/// The record of a commit.
pub(super) const COMMITTED: &str = "COMMITTED.json";
/// Folder of marks of shards that are about to be put into the index.
pub(super) const ATTEMPTS: &str = "attempts";
/// Longest vectors.
const MOST_VALUES: usize = 1 << 16;
/// The record of a task that has ended.
pub(super) const DONE: &str = "DONE.json";
/// Folder of what was embedded.
pub(super) const PARTITIONS: &str = "partitions";
/// Folder of the records of shards, whose files are in the index.
pub(super) const SHARDS: &str = "shards";

/// A job: what is read, embedded, built and published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BulkPlan {
    /// Version of this record.
    pub format_version: u32,
    /// Program and version.
    pub tool: String,
    /// Seconds since the epoch.
    pub created_unix_s: u64,
    /// The `CURRENT` of the index when the job was planned; none where there was no index.
    pub base: Option<String>,
    /// The generation that the job publishes.
    pub generation: u64,
    /// What decides the index.
    pub job: BulkJob,
    /// What it takes.
    pub estimate: BulkEstimate,
    /// The model's, see [`Manifest::logit_scale`](dyad_index::manifest::Manifest::logit_scale). Absent where the inputs
    /// hold the vectors, and in plans of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logit_scale: Option<f64>,
}

/// What decides the index that a job makes: two plans of one job are the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BulkJob {
    /// URL of the index.
    pub index: String,
    /// URL of the place that the names of inputs are below.
    pub input: String,
    /// How the inputs are read.
    pub reading: Reading,
    /// Most bad records to skip, of all inputs together.
    pub max_bad: u64,
    /// Of all vectors.
    pub model: ModelRecord,
    /// Whether the inputs hold the vectors.
    pub has_vectors: bool,
    /// What becomes of documents that are longer than the model reads.
    pub on_long: OnLong,
    /// How shards are built.
    pub graph: GraphSettings,
    /// By which BM25 analyses texts. Absent where it is English, as in earlier releases.
    #[serde(default, skip_serializing_if = "TextLanguage::is_english")]
    pub language: TextLanguage,
    /// What is embedded at a time.
    pub partitions: Vec<Partition>,
    /// For each shard, how many of the partitions it holds, in their order.
    pub shards: Vec<usize>,
}

impl BulkJob {
    /// The version of its plan: the lowest whose releases do as it says.
    pub(super) fn version(&self) -> u32 {
        let is_int8 = RowType::named(&self.graph.vector_type) == Some(RowType::Int8);
        if self.model.full_dim.is_some() || is_int8 {
            FEWER_BYTES_VERSION
        } else if self.language.is_english() {
            VERSION
        } else {
            LANGUAGE_VERSION
        }
    }
}

impl BulkPlan {
    /// What is wrong with a plan that was read: field, expected, got.
    pub(super) fn flaw(&self) -> Option<(&'static str, String, String)> {
        let job = &self.job;
        let planned = job
            .shards
            .iter()
            .try_fold(0_usize, |sum, count| sum.checked_add(*count));
        if planned != Some(job.partitions.len()) || job.shards.contains(&0) {
            return Some((
                "shards",
                format!("{} partitions in all", job.partitions.len()),
                format!("{:?}", job.shards),
            ));
        }
        if !(1..=MOST_VALUES).contains(&job.model.dim) {
            return Some(("model.dim", format!("1 to {MOST_VALUES}"), job.model.dim.to_string()));
        }
        if let Some(scale) = self
            .logit_scale
            .filter(|scale| !(*scale > 0.0 && *scale <= MAX_LOGIT_SCALE))
        {
            return Some((
                "logit_scale",
                format!("a number above 0, at most {MAX_LOGIT_SCALE}"),
                scale.to_string(),
            ));
        }
        if self.generation == 0 || self.generation == u64::MAX {
            return Some((
                "generation",
                "the number of a generation".to_owned(),
                self.generation.to_string(),
            ));
        }
        if let Some(Err(reason)) = job.reading.split.map(|split| Split::new(split.words, split.overlap)) {
            return Some(("reading.split", "words and overlap of passages".to_owned(), reason));
        }
        let bytes = |partition: &Partition| {
            partition.slices.iter().try_fold(0_u64, |sum, slice| {
                slice.first.checked_add(slice.bytes)?;
                sum.checked_add(slice.bytes)
            })
        };
        let bad = job
            .partitions
            .iter()
            .find(|partition| !is_partition(&partition.name) || bytes(partition).is_none());
        bad.map(|partition| {
            (
                "partitions",
                "names of partitions, and slices of files".to_owned(),
                format!("`{}`", partition.name.escape_debug()),
            )
        })
    }
}

/// Whether a name has the form that [`Partition::new`] gives.
fn is_partition(name: &str) -> bool {
    let Some((number, digest)) = name.split_once('-') else {
        return false;
    };
    number.len() >= 6 && number.bytes().all(|byte| byte.is_ascii_digit()) && is_digest(digest)
}

/// Whether a name is a digest, as folders of partitions are named by.
pub(super) fn is_digest(name: &str) -> bool {
    name.len() == 16
        && name
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// A record that was read: what is wrong with it, as field, expected, got.
pub(super) trait CheckedRecord {
    fn flaw(&self) -> Option<(&'static str, String, String)>;
}

fn flaw_of(files: &[FileEntry]) -> Option<(&'static str, String, String)> {
    let bad = files.iter().find(|file| !is_plain(&file.path));
    bad.map(|file| {
        (
            "files",
            "paths below their folder".to_owned(),
            format!("`{}`", file.path.escape_debug()),
        )
    })
}

impl CheckedRecord for PartitionDone {
    fn flaw(&self) -> Option<(&'static str, String, String)> {
        if !is_digest(&self.folder) {
            return Some((
                "folder",
                "16 hexadecimal digits".to_owned(),
                format!("`{}`", self.folder.escape_debug()),
            ));
        }
        if self.documents.checked_add(self.rejected) != Some(self.read) {
            let got = format!("{} and {}", self.documents, self.rejected);
            return Some((
                "read",
                format!("{}, the sum of `documents` and `rejected`", self.read),
                got,
            ));
        }
        flaw_of(&self.files)
    }
}

impl CheckedRecord for ShardDone {
    fn flaw(&self) -> Option<(&'static str, String, String)> {
        if !is_shard_id(&self.shard.id) {
            return Some((
                "shard.id",
                "the name of a shard".to_owned(),
                format!("`{}`", self.shard.id.escape_debug()),
            ));
        }
        flaw_of(&self.shard.files)
    }
}

impl CheckedRecord for BulkPlan {
    fn flaw(&self) -> Option<(&'static str, String, String)> {
        Self::flaw(self)
    }
}

/// What a commit has published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CommitDone {
    pub(super) format_version: u32,
    /// The text of `CURRENT`.
    pub(super) pointer: String,
}

impl CheckedRecord for CommitDone {
    fn flaw(&self) -> Option<(&'static str, String, String)> {
        None
    }
}

/// How documents are read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Of all inputs; by their names where it is `auto`.
    pub format: CorpusFormat,
    /// Names of fields.
    pub fields: FieldNames,
    /// Passages in place of documents.
    pub split: Option<Split>,
}

impl From<&ReadOptions> for Reading {
    fn from(options: &ReadOptions) -> Self {
        Self {
            format: options.format,
            fields: options.fields.clone(),
            split: options.split,
        }
    }
}

impl Reading {
    pub(super) fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.format,
            fields: self.fields.clone(),
            split: self.split,
            ..ReadOptions::default()
        }
    }
}

/// Documents that one task embeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Partition {
    /// Its number, and a digest of what it reads.
    pub name: String,
    /// What it reads, in order.
    pub slices: Vec<Slice>,
    /// Documents in it, by a sample.
    pub documents: u64,
}

impl Partition {
    pub(super) fn new(number: usize, slices: Vec<Slice>, bytes_per_document: f64) -> Self {
        let content: Vec<String> = slices
            .iter()
            .map(|slice| format!("{}\t{}\t{}\t{}\n", slice.name, slice.first, slice.bytes, slice.version))
            .collect();
        let bytes: u64 = slices.iter().map(|slice| slice.bytes).sum();
        let name = format!("{number:06}-{:016x}", xxh3_64(content.concat().as_bytes()));
        Self {
            name,
            slices,
            documents: (bytes as f64 / bytes_per_document).ceil() as u64,
        }
    }
}

/// An input, or whole lines of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Below the place of the inputs.
    pub name: String,
    /// Where it begins.
    pub first: u64,
    /// How long it is.
    pub bytes: u64,
    /// What tells whether it is what was planned: the store's version of the object (`etag:`), or, in a directory, a
    /// digest of these bytes (`xxh3:`).
    pub version: String,
}

/// What a job takes, by a sample of its documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BulkEstimate {
    /// Documents of all inputs, or passages.
    pub documents: u64,
    /// Documents that were read for it, and embedded.
    pub sampled: u64,
    /// Bytes of all inputs.
    pub input_bytes: u64,
    /// Bytes of all texts.
    pub text_bytes: u64,
    /// Tokens of all texts; nothing where the inputs hold the vectors.
    pub tokens: Option<u64>,
    /// Texts that the model truncates.
    pub truncated: Option<u64>,
    /// Seconds that the encoder services of the plan take for all, where they have nothing else to do.
    pub embedding_s: Option<f64>,
    /// Peak memory of the task that builds the largest shard.
    pub shard_memory_bytes: u64,
    /// Peak disk of that task.
    pub shard_disk_bytes: u64,
    /// Bytes of the index without its texts.
    pub index_bytes: u64,
}

/// What embedding a partition gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartitionDone {
    /// Version of this record.
    pub format_version: u32,
    /// Folder of the files, next to this record.
    pub folder: String,
    /// Documents with their vectors, keys in order, rejected records.
    pub files: Vec<FileEntry>,
    /// Records read: documents or passages, and bad records.
    pub read: u64,
    /// Documents or passages embedded.
    pub documents: u64,
    /// Bad records.
    pub rejected: u64,
    /// Texts that the model truncated, where that is known.
    pub truncated: Option<u64>,
    /// How long it took.
    pub seconds: f64,
}

/// A built shard, whose files are in the index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardDone {
    /// Version of this record.
    pub format_version: u32,
    /// As the manifest will name it.
    pub shard: ShardEntry,
    /// recall@10 at ef 64.
    pub recall_at_ef_64: f64,
    /// Peak memory of the task; nothing where the system does not say.
    pub peak_memory_bytes: Option<u64>,
    /// How long it took.
    pub seconds: f64,
}
