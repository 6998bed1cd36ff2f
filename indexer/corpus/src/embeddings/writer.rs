//! Writes embeddings part by part. A part counts once the record names it, so a job that was killed resumes after its
//! last complete part.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_files::{ChecksumWriter, DirLock, LockError, remove_temporary};
use fail::fail_point;

use super::earlier::{self, EarlierRows};
use super::record::{
    EmbeddingsHeader, EmbeddingsPart, EmbeddingsRecord, PartFile, RECORD, SourceDigest, refuse, text_digest,
};
use crate::document::Document;
use crate::error::Error;
use crate::problem::EmbeddingsProblem;

/// Summary of a finished set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingsSummary {
    /// Rows.
    pub rows: u64,
    /// Parts.
    pub parts: usize,
    /// Bytes of all parts.
    pub bytes: u64,
}

/// Writes a set of embeddings. Holds one part in memory.
#[derive(Debug)]
pub struct EmbeddingsWriter {
    dir: PathBuf,
    record: EmbeddingsRecord,
    /// The requested header; the record may say less.
    asked: EmbeddingsHeader,
    keys: Vec<u8>,
    texts: Vec<u8>,
    vectors: Vec<u8>,
    rows: u64,
    truncated: u64,
    digest: SourceDigest,
    /// The digest of what the passages were read in.
    contexts: SourceDigest,
    /// The directory was not there before.
    created: bool,
    _lock: DirLock,
}

impl EmbeddingsWriter {
    /// Starts a set, or resumes one after its last complete part. A set of another model, tower, dtype, type or part
    /// size is refused, as is one that another process writes.
    pub fn open(dir: &Path, header: EmbeddingsHeader) -> Result<Self, Error> {
        header.check(dir)?;
        let created = !dir.exists();
        fs_err::create_dir_all(dir)?;
        let lock = DirLock::acquire(dir, Duration::ZERO).map_err(|error| match error {
            LockError::Held { .. } => refuse(dir, EmbeddingsProblem::Locked),
            LockError::Io(error) => error.into(),
        })?;
        remove_temporary(dir, |name| name == RECORD)?;
        let record = match EmbeddingsRecord::load(dir)? {
            Some(record) => {
                check_same(dir, &header, &record.header)?;
                earlier::finish_renaming(dir, &record)?;
                earlier::remove_unnamed(dir, &record)?;
                record
            }
            None => EmbeddingsRecord {
                format_version: header.version(),
                header: header.clone(),
                complete: false,
                rows: 0,
                parts: Vec::new(),
                earlier: Vec::new(),
            },
        };
        Ok(Self {
            dir: dir.to_owned(),
            record,
            asked: header,
            keys: Vec::new(),
            texts: Vec::new(),
            vectors: Vec::new(),
            rows: 0,
            truncated: 0,
            digest: SourceDigest::default(),
            contexts: SourceDigest::default(),
            created,
            _lock: lock,
        })
    }

    /// What the set is made of; its dtype is unknown where an earlier release began it.
    pub fn header(&self) -> &EmbeddingsHeader {
        &self.record.header
    }

    /// Notes the model's [`logit_scale`](crate::logit_scale), also in a set that is complete.
    pub fn set_logit_scale(&mut self, scale: f64) -> Result<(), Error> {
        self.record.header.logit_scale = Some(scale);
        self.record.store(&self.dir)
    }

    /// Parts that are whole. Their documents need not be embedded again, if their [`SourceDigest`] is still the same.
    pub fn finished_parts(&self) -> &[EmbeddingsPart] {
        &self.record.parts
    }

    /// The set was finished before.
    pub fn is_complete(&self) -> bool {
        self.record.complete
    }

    /// Ends before a row was written: removes the directory if it was created.
    pub fn discard(self) {
        if self.created && self.record.parts.is_empty() {
            // An empty directory that is left does no harm.
            let _ = fs_err::remove_file(self.dir.join(DirLock::FILE)).and_then(|()| fs_err::remove_dir(&self.dir));
        }
    }

    /// Removes parts from number `part` on from the set, whose documents have changed. Their rows stay until the set is
    /// complete, for [`EmbeddingsWriter::earlier_rows`].
    pub fn set_aside(&mut self, part: usize) -> Result<(), Error> {
        let aside = self.record.parts.split_off(part.min(self.record.parts.len()));
        earlier::add(&mut self.record.earlier, aside);
        self.record.rows = self.record.parts.iter().map(|part| part.rows).sum();
        self.record.complete = false;
        if self.record.parts.is_empty() && self.record.earlier.is_empty() {
            self.record.header = self.asked.clone();
            self.record.format_version = self.asked.version();
        }
        self.record.store(&self.dir)?;
        earlier::finish_renaming(&self.dir, &self.record)
    }

    /// Rows of parts that were set aside, by their documents.
    pub fn earlier_rows(&self) -> EarlierRows {
        EarlierRows::open(&self.dir, &self.record)
    }

    /// Adds the next document with its vector of `dim` finite values; `truncated` where its text is longer than the
    /// model reads.
    pub fn push(&mut self, document: &Document, row: &[f32], truncated: bool) -> Result<(), Error> {
        let (dim, context) = (self.record.header.model.dim, self.record.header.context);
        let refuse_row = |what: String| {
            let (row, key) = (self.record.rows + self.rows, document.key.clone());
            Err(refuse(&self.dir, EmbeddingsProblem::Vector { row, key, what }))
        };
        if row.len() != dim {
            return refuse_row(format!("has {} values, expected {dim}", row.len()));
        }
        if let Some(at) = row.iter().position(|value| !value.is_finite()) {
            return refuse_row(format!("holds a value that is not finite at position {at}"));
        }
        if let Some(refusal) = self.record.header.vectors.refusal(row) {
            return refuse_row(refusal);
        }
        self.record.header.vectors.encode(row, &mut self.vectors);
        serde_json::to_writer(&mut self.keys, &document.key).map_err(std::io::Error::from)?;
        self.keys.push(b'\n');
        self.texts
            .extend_from_slice(&text_digest(document, context).to_le_bytes());
        self.digest.add(document);
        self.contexts.add_context(context, document);
        self.rows += 1;
        self.truncated += u64::from(truncated);
        if self.rows >= self.record.header.part_rows {
            self.cut()?;
        }
        Ok(())
    }

    /// Writes the part that is in memory, then names it in the record.
    fn cut(&mut self) -> Result<(), Error> {
        let number = self.record.parts.len();
        let header = self
            .record
            .header
            .vectors
            .header(self.rows, self.record.header.model.dim);
        let vectors = self.write(format!("part-{number:06}.npy"), &[&header, &self.vectors])?;
        let keys = self.write(format!("part-{number:06}.keys"), &[&self.keys])?;
        let texts = Some(self.write(format!("part-{number:06}.texts"), &[&self.texts])?);
        let source_digest = std::mem::take(&mut self.digest).hex();
        let truncated = Some(std::mem::take(&mut self.truncated));
        let contexts = std::mem::take(&mut self.contexts).hex();
        let context_digest = (!self.record.header.context.is_default()).then_some(contexts);
        let rows = self.rows;
        self.record.parts.push(EmbeddingsPart {
            vectors,
            keys,
            texts,
            rows,
            truncated,
            source_digest,
            context_digest,
        });
        self.record.rows += self.rows;
        self.record.complete = false;
        self.record.store(&self.dir)?;
        self.keys.clear();
        self.texts.clear();
        self.vectors.clear();
        self.rows = 0;
        Ok(())
    }

    fn write(&self, name: String, pieces: &[&[u8]]) -> Result<PartFile, Error> {
        let mut out = ChecksumWriter::new(fs_err::File::create(self.dir.join(&name))?);
        fail_point!("part-write", |_| Err(std::io::Error::from(
            std::io::ErrorKind::StorageFull
        )
        .into()));
        pieces.iter().try_for_each(|piece| out.write_all(piece))?;
        let (file, crc32c, bytes) = out.finish();
        file.sync_all()?;
        Ok(PartFile { name, bytes, crc32c })
    }

    /// Writes what is in memory as a part of fewer rows.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.rows > 0 { self.cut() } else { Ok(()) }
    }

    /// Writes the last part and marks the set as complete.
    pub fn finish(mut self) -> Result<EmbeddingsSummary, Error> {
        self.flush()?;
        if !self.record.complete {
            self.record.complete = true;
            self.record.earlier.clear();
            self.record.store(&self.dir)?;
            earlier::remove_unnamed(&self.dir, &self.record)?;
        }
        let bytes = self
            .record
            .parts
            .iter()
            .flat_map(EmbeddingsPart::files)
            .map(|file| file.bytes)
            .sum();
        Ok(EmbeddingsSummary {
            rows: self.record.rows,
            parts: self.record.parts.len(),
            bytes,
        })
    }
}

fn check_same(dir: &Path, asked: &EmbeddingsHeader, there: &EmbeddingsHeader) -> Result<(), Error> {
    // What an earlier release began does not say.
    let dtype = |one: &EmbeddingsHeader, other: &EmbeddingsHeader| {
        one.dtype.as_ref().or(other.dtype.as_ref()).cloned().unwrap_or_default()
    };
    let vectors = |header: &EmbeddingsHeader| format!("{:?}", header.vectors).to_lowercase();
    let pairs = [
        (
            "model (fingerprint)",
            asked.model.fingerprint.clone(),
            there.model.fingerprint.clone(),
        ),
        ("dimension", asked.model.dim.to_string(), there.model.dim.to_string()),
        ("tower", asked.tower.clone(), there.tower.clone()),
        ("dtype", dtype(asked, there), dtype(there, asked)),
        ("type of vectors", vectors(asked), vectors(there)),
        ("context", asked.context.to_string(), there.context.to_string()),
        (
            "part size in rows",
            asked.part_rows.to_string(),
            there.part_rows.to_string(),
        ),
    ];
    match pairs.into_iter().find(|(_, asked, there)| asked != there) {
        Some((what, expected, got)) => Err(refuse(dir, EmbeddingsProblem::Different { what, expected, got })),
        None => Ok(()),
    }
}
