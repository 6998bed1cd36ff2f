//! `embeddings.json`: the model of the vectors, and the complete parts.

use std::path::{Path, PathBuf};

use dyad_files::write_atomic;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::values::VectorType;
use crate::context::PassageContext;
use crate::document::Document;
use crate::error::Error;
use crate::logit_scale::LOGIT_SCALES;
use crate::problem::EmbeddingsProblem;

/// The newest version of the record that this build reads, which it writes of vectors in fewer bits than f16, which
/// earlier releases do not know.
pub(super) const VERSION: u32 = 3;
/// The version of passages that were read in their documents: earlier releases would take their vectors for those of
/// passages alone.
const CONTEXT_VERSION: u32 = 2;
/// The version of all other records.
const PLAIN_VERSION: u32 = 1;

/// The metric of unit vectors.
pub(super) const COSINE: &str = "cosine";

/// The record's file.
pub(super) const RECORD: &str = "embeddings.json";

/// The model that made the vectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingsModel {
    /// Name for display.
    pub name: String,
    /// SHA-256 (hex) over all that decides a vector.
    pub fingerprint: String,
    /// Values per vector.
    pub dim: usize,
    /// `cosine`: inner product of unit vectors.
    pub metric: String,
    /// Longest input in tokens.
    pub max_tokens: usize,
}

/// The model of a set of embeddings, and its division into parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingsHeader {
    /// The model.
    pub model: EmbeddingsModel,
    /// `question` or `answer`.
    pub tower: String,
    /// How values are stored.
    pub vectors: VectorType,
    /// Rows per part; the last may have fewer.
    pub part_rows: u64,
    /// Number type of the computation (`f32`, `int8`, ...), which changes a vector by more than rounding. `None` where
    /// an earlier release did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// Whether the model embeds questions otherwise than answers: by modules of their own, or with another prompt.
    /// `None` where an earlier release did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub two_towers: Option<bool>,
    /// The model's [`logit_scale`](crate::logit_scale). `None` where it could not be estimated, and where an earlier
    /// release wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logit_scale: Option<f64>,
    /// What of its document has reached a passage's vector. Absent where that is the title, as in earlier releases.
    #[serde(default, skip_serializing_if = "PassageContext::is_default")]
    pub context: PassageContext,
}

/// One file of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartFile {
    /// Name inside the directory.
    pub name: String,
    /// Length.
    pub bytes: u64,
    /// CRC-32C of the content.
    pub crc32c: u32,
}

impl EmbeddingsPart {
    /// All of its files.
    pub(super) fn files(&self) -> impl Iterator<Item = &PartFile> {
        [&self.vectors, &self.keys].into_iter().chain(&self.texts)
    }
}

/// A complete part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingsPart {
    /// The vectors, `.npy`.
    pub vectors: PartFile,
    /// The keys.
    pub keys: PartFile,
    /// [`text_digest`] of each document, 16 bytes in little-endian order; `None` where an earlier release did not write
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts: Option<PartFile>,
    /// Rows.
    pub rows: u64,
    /// Texts of these that were truncated at the model's longest input; `None` where an earlier release did not write
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<u64>,
    /// [`SourceDigest`] of the documents, hex.
    pub source_digest: String,
    /// [`SourceDigest`] of what their context decides, hex; `None` where that is their title alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_digest: Option<String>,
}

/// Digest of documents in order: tells whether a part was made of these texts.
#[derive(Clone, Default)]
pub struct SourceDigest(Xxh3);

impl std::fmt::Debug for SourceDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SourceDigest").field(&self.hex()).finish()
    }
}

impl SourceDigest {
    /// Adds the next document: its key and its passage, each with its length, so that the digest is unambiguous.
    pub fn add(&mut self, document: &Document) {
        for field in [document.key.as_str(), document.passage().as_ref()] {
            self.0.update(&(field.len() as u64).to_le_bytes());
            self.0.update(field.as_bytes());
        }
    }

    /// Adds what of the next passage its context decides: its text alone where its title is left out, what it was read
    /// in, and where it stands there.
    pub fn add_context(&mut self, context: PassageContext, document: &Document) {
        if !context.has_title() {
            self.0.update(&(document.text.len() as u64).to_le_bytes());
            self.0.update(document.text.as_bytes());
        }
        let Some(place) = document.place.as_ref().filter(|_| context.late_weight().is_some()) else {
            return;
        };
        self.0.update(&place.digest().to_le_bytes());
        for byte in [place.bytes().start, place.bytes().end] {
            self.0.update(&(byte as u64).to_le_bytes());
        }
    }

    /// 128 bits, hex.
    pub fn hex(&self) -> String {
        format!("{:032x}", self.0.digest128())
    }
}

/// Digest of one document by its key and its passage, and by what that was read in: which rows of a set that is made
/// again are still the same.
pub fn text_digest(document: &Document, context: PassageContext) -> u128 {
    let mut digest = SourceDigest::default();
    digest.add(document);
    digest.add_context(context, document);
    digest.0.digest128()
}

/// The whole record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct EmbeddingsRecord {
    pub(super) format_version: u32,
    #[serde(flatten)]
    pub(super) header: EmbeddingsHeader,
    pub(super) complete: bool,
    pub(super) rows: u64,
    pub(super) parts: Vec<EmbeddingsPart>,
    /// Parts of an earlier corpus, renamed, whose rows are reused until the set is complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) earlier: Vec<EmbeddingsPart>,
}

/// A problem of this directory as the crate's error.
pub(super) fn refuse(dir: &Path, problem: EmbeddingsProblem) -> Error {
    Error::Embeddings {
        dir: dir.to_owned(),
        problem,
    }
}

pub(super) fn record_path(dir: &Path) -> PathBuf {
    dir.join(RECORD)
}

impl EmbeddingsHeader {
    /// Refuses vectors without a length where they need one.
    pub(super) fn check(&self, dir: &Path) -> Result<(), Error> {
        if !self.vectors.is_quantized() || self.model.metric == COSINE {
            return Ok(());
        }
        let got = format!(
            "`vectors`: expected f32 or f16 for the metric {}, got one that keeps no vector's length",
            self.model.metric
        );
        Err(refuse(dir, EmbeddingsProblem::Record(got)))
    }

    /// The version of the record.
    pub(super) fn version(&self) -> u32 {
        if self.vectors.is_quantized() {
            VERSION
        } else if self.context.is_default() {
            PLAIN_VERSION
        } else {
            CONTEXT_VERSION
        }
    }
}

impl EmbeddingsRecord {
    /// Reads the record; none where there is none.
    pub(super) fn load(dir: &Path) -> Result<Option<Self>, Error> {
        #[derive(Deserialize)]
        struct EmbeddingsVersion {
            format_version: u32,
        }
        let path = record_path(dir);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = fs_err::read(path)?;
        let damaged = |error: serde_json::Error| refuse(dir, EmbeddingsProblem::Record(error.to_string()));
        let version: EmbeddingsVersion = serde_json::from_slice(&bytes).map_err(damaged)?;
        if version.format_version > VERSION {
            return Err(refuse(
                dir,
                EmbeddingsProblem::Newer {
                    got: version.format_version,
                    supported: VERSION,
                },
            ));
        }
        let record: Self = serde_json::from_slice(&bytes).map_err(damaged)?;
        let strange = |what: &str| Err(refuse(dir, EmbeddingsProblem::Record(what.to_owned())));
        if record.format_version != record.header.version() {
            return strange("`format_version` is not that of its `context` and its `vectors`");
        }
        // Names become paths: none may lead out of the directory.
        let plain = |name: &str| !name.is_empty() && !name.contains(['/', '\\']) && name != "..";
        if record.header.model.dim == 0 || record.header.part_rows == 0 {
            return strange("`dim` and `part_rows` must be larger than 0");
        }
        if record
            .parts
            .iter()
            .chain(&record.earlier)
            .flat_map(EmbeddingsPart::files)
            .any(|file| !plain(&file.name))
        {
            return strange("a part's file is not a plain name");
        }
        let rows = record
            .parts
            .iter()
            .try_fold(0u64, |sum, part| sum.checked_add(part.rows));
        if rows != Some(record.rows) {
            return strange("`rows` is not the sum of the parts' rows");
        }
        if record
            .parts
            .iter()
            .chain(&record.earlier)
            .any(|part| part.truncated.is_some_and(|count| count > part.rows))
        {
            return strange("`truncated` is larger than the part's rows");
        }
        if let Some(scale) = record.header.logit_scale.filter(|scale| !LOGIT_SCALES.contains(scale)) {
            let (least, most) = (LOGIT_SCALES.start(), LOGIT_SCALES.end());
            return strange(&format!("`logit_scale`: expected {least} to {most}, got {scale}"));
        }
        record.header.check(dir)?;
        let row_bytes = record.header.vectors.row_bytes(record.header.model.dim);
        let most = record.earlier.iter().map(|part| part.rows).fold(record.rows, u64::max);
        if row_bytes
            .and_then(|bytes| most.checked_mul(bytes as u64))
            .is_none_or(|bytes| bytes > i64::MAX as u64)
        {
            return strange("`rows` times `dim` is larger than any file");
        }
        Ok(Some(record))
    }

    /// Bytes of a row, which are not more than a file has: see [`Self::load`].
    pub(super) fn row_bytes(&self) -> usize {
        self.header
            .vectors
            .row_bytes(self.header.model.dim)
            .unwrap_or(usize::MAX)
    }

    /// Replaces the record.
    pub(super) fn store(&self, dir: &Path) -> Result<(), Error> {
        let bytes = serde_json::to_vec_pretty(self).map_err(std::io::Error::from)?;
        Ok(write_atomic(&record_path(dir), &bytes)?)
    }
}
