//! The content of a manifest.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::language::TextLanguage;
use crate::model::ModelRecord;

/// Newest version that this build reads. Version 1 had no deletions: its readers would return deleted documents, and
/// refuse this one. Version 3 has a [`Manifest::context`]: earlier releases would add vectors of passages alone.
/// Version 4 has a [`ModelRecord::full_dim`]: earlier releases would lose it.
pub const MANIFEST_VERSION: u32 = 4;
/// Version of generations with a context, whose vectors are whole.
const CONTEXT_VERSION: u32 = 3;
/// Version of generations without either.
const PLAIN_VERSION: u32 = 2;

/// Directory of the shards inside an index.
pub const SHARDS_DIR: &str = "shards";
/// Directory of the shards' deletions inside an index.
pub const DELETIONS_DIR: &str = "deletions";
/// Directory of changed metadata inside an index.
pub const METADATA_DIR: &str = "metadata";

/// Directory of the questions that calibrated shards after they were built, inside an index.
pub const CALIBRATIONS_DIR: &str = "calibrations";
/// The directories of all that shards consist of.
pub const SHARD_FOLDERS: [&str; 4] = [SHARDS_DIR, DELETIONS_DIR, METADATA_DIR, CALIBRATIONS_DIR];

/// One generation of an index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this record.
    pub format_version: u32,
    /// The number of the generation: 1 for the first, one more with every publish.
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
    /// What of its document has reached a passage's vector, as `dyad-encoder embed --context` names it. Absent where
    /// that is its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// What a cosine of 1 counts in a softmax over the model's cosines, as estimated when it embedded; searches that
    /// fuse need it. Absent where it could not be estimated, and where an earlier release published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logit_scale: Option<f64>,
    /// The recall that every shard must keep; a change that breaks it is not published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_recall: Option<MinRecall>,
    /// By which texts are analysed. Absent where it is English, as in earlier releases.
    #[serde(default, skip_serializing_if = "TextLanguage::is_english")]
    pub language: TextLanguage,
    /// The change that made this generation. Absent where an earlier release published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// The shards, in the order in which they are numbered.
    pub shards: Vec<ShardEntry>,
}

/// A recall that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MinRecall {
    /// Least recall@10 of every shard.
    pub recall: f64,
    /// Beam width at which it is measured.
    pub ef: usize,
}

/// What made a generation out of the one before. `read == indexed + unchanged + superseded + rejected`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Change {
    /// Name of the command, such as `append`.
    pub operation: String,
    /// Records read: documents, or keys of documents to delete.
    pub read: u64,
    /// Of these, documents that this generation has in addition, or in another form, or no longer.
    pub indexed: u64,
    /// Of these, documents that were in the index as they are.
    #[serde(default)]
    pub unchanged: u64,
    /// Of these, records that a later one of the same key replaced.
    #[serde(default)]
    pub superseded: u64,
    /// Of these, bad records that were skipped, and keys that no document had.
    #[serde(default)]
    pub rejected: u64,
    /// Documents that this generation no longer has in the form of the one before, or not at all.
    #[serde(default)]
    pub deleted: u64,
    /// Vectors that were taken from the generation before, because their texts had not changed.
    #[serde(default)]
    pub reused: u64,
    /// Texts that were truncated at the model's longest input: of those that an encoder service embedded for this
    /// change, or of a whole set of embeddings; absent where vectors came from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<u64>,
    /// The calls of clients that it was made of, where they have names by which they may be sent again. Earlier
    /// releases do not look at them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<RecordedCall>,
}

/// A client's call and its outcome, which is the answer when the client sends the call a second time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RecordedCall {
    /// The id of the API key that it came with; empty where it had none.
    pub caller: String,
    /// What the client calls it.
    pub request_key: String,
    /// A hash of all that it brought.
    pub content: String,
    /// What it came to, as [`Change`] counts it.
    pub read: u64,
    /// See [`Change::indexed`].
    pub indexed: u64,
    /// See [`Change::unchanged`].
    pub unchanged: u64,
    /// See [`Change::superseded`].
    pub superseded: u64,
    /// See [`Change::rejected`].
    pub rejected: u64,
    /// See [`Change::reused`].
    pub reused: u64,
    /// Documents of the index after it; 0 where the caller is not told.
    pub documents: u64,
}

impl Change {
    /// For people: `1000 read, 998 indexed, 2 rejected`. Counts of 0 are left out, but for what was read.
    pub fn counts(&self) -> String {
        let counts = [
            ("indexed", self.indexed),
            ("with vectors that they had", self.reused),
            ("unchanged", self.unchanged),
            ("superseded", self.superseded),
            ("rejected", self.rejected),
            ("deleted", self.deleted),
            ("truncated", self.truncated.unwrap_or_default()),
        ];
        let mut text = format!("{} read", self.read);
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            let _ = write!(text, ", {count} {name}");
        }
        text
    }
}

/// One shard: a directory under `shards/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEntry {
    /// Name of the directory.
    pub id: String,
    /// Documents, and vectors, including deleted ones.
    pub documents: u64,
    /// Every file of the shard.
    pub files: Vec<FileEntry>,
    /// Which of its documents are deleted in this generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<DeletedEntry>,
    /// Metadata of its documents that were changed since it was built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MetadataEntry>,
    /// The questions by which it was measured after it was built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<CalibrationEntry>,
}

/// Part of a shard: a directory in one of the [`SHARD_FOLDERS`], or a file.
#[derive(Debug, Clone, Copy)]
pub struct ShardPart<'a> {
    /// Which of the folders.
    pub folder: &'static str,
    /// The name of the file or directory in its folder.
    pub name: &'a str,
    /// The files of the directory; of a file, itself.
    pub files: &'a [FileEntry],
    /// Whether it is a directory.
    pub is_dir: bool,
}

impl<'a> ShardPart<'a> {
    /// Every name that becomes part of a path.
    pub(super) fn names(self) -> impl Iterator<Item = &'a str> {
        self.files.iter().map(|file| file.path.as_str()).chain([self.name])
    }

    /// The path of one of its files, below the index.
    pub fn path_of(&self, file: &FileEntry) -> String {
        if self.is_dir {
            format!("{}/{}/{}", self.folder, self.name, file.path)
        } else {
            format!("{}/{}", self.folder, file.path)
        }
    }
}

/// The documents of a shard with other metadata than it was built with: all of them, also those of earlier generations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataEntry {
    /// Name of the directory in [`METADATA_DIR`].
    pub id: String,
    /// How many.
    pub documents: u64,
    /// Every file.
    pub files: Vec<FileEntry>,
}

/// The questions by which a shard was measured after it was built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalibrationEntry {
    /// Name of the directory in [`CALIBRATIONS_DIR`].
    pub id: String,
    /// How many.
    pub questions: u64,
    /// Every file.
    pub files: Vec<FileEntry>,
}

/// The deleted documents of a shard: all of them, also those of earlier generations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedEntry {
    /// How many.
    pub documents: u64,
    /// Which, in [`DELETIONS_DIR`].
    pub file: FileEntry,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Relative to the directory of its kind, with `/`.
    pub path: String,
    /// Length.
    pub bytes: u64,
    /// CRC-32C of the content.
    pub crc32c: u32,
}

impl Manifest {
    /// The version of a manifest with this [`Self::model`] and this [`Self::context`].
    pub fn version(model: &ModelRecord, context: Option<&str>) -> u32 {
        if model.full_dim.is_some() {
            MANIFEST_VERSION
        } else if context.is_some() {
            CONTEXT_VERSION
        } else {
            PLAIN_VERSION
        }
    }

    /// The entries of some shards, by their numbers: positions in [`Self::shards`], ascending and each once. An error
    /// where they are not, or where there is no such shard.
    pub fn entries_at(&self, numbers: &[usize]) -> Result<Vec<&ShardEntry>> {
        let is_ascending = numbers.iter().zip(numbers.iter().skip(1)).all(|(one, next)| one < next);
        let entries: Option<Vec<&ShardEntry>> = numbers.iter().map(|number| self.shards.get(*number)).collect();
        entries.filter(|_| is_ascending).ok_or_else(|| Error::Mismatch {
            what: "numbers of a generation's shards",
            expected: format!("ascending numbers below {}, each once", self.shards.len()),
            got: format!("{numbers:?}"),
        })
    }

    /// Documents of all shards that are not deleted. A damaged manifest may name more than can be counted.
    pub fn documents(&self) -> u64 {
        self.shards
            .iter()
            .fold(0, |sum, shard| sum.saturating_add(shard.live()))
    }
}

impl ShardEntry {
    /// All that it consists of.
    pub fn parts(&self) -> impl Iterator<Item = ShardPart<'_>> {
        let shard = ShardPart {
            folder: SHARDS_DIR,
            name: &self.id,
            files: &self.files,
            is_dir: true,
        };
        let deletions = self.deleted.iter().map(|deleted| ShardPart {
            folder: DELETIONS_DIR,
            name: &deleted.file.path,
            files: std::slice::from_ref(&deleted.file),
            is_dir: false,
        });
        let metadata = self.metadata.iter().map(|updates| ShardPart {
            folder: METADATA_DIR,
            name: &updates.id,
            files: &updates.files,
            is_dir: true,
        });
        let calibration = self.calibration.iter().map(|calibration| ShardPart {
            folder: CALIBRATIONS_DIR,
            name: &calibration.id,
            files: &calibration.files,
            is_dir: true,
        });
        std::iter::once(shard)
            .chain(deletions)
            .chain(metadata)
            .chain(calibration)
    }

    /// Documents that are not deleted.
    pub fn live(&self) -> u64 {
        self.documents
            .saturating_sub(self.deleted.as_ref().map_or(0, |deleted| deleted.documents))
    }
}
