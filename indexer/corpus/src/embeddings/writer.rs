//! Writes embeddings part by part. A part counts once the record names it, so a job that was ended at any moment goes on
//! behind its last whole part.

use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::npy;
use super::record::{EmbeddingsProblem, Header, Part, PartFile, Record, SourceDigest, VERSION, refuse};
use crate::document::Document;
use crate::error::Error;

/// What a finished set holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
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
    record: Record,
    keys: Vec<u8>,
    vectors: Vec<u8>,
    rows: u64,
    digest: SourceDigest,
    _lock: File,
}

impl EmbeddingsWriter {
    /// Starts a set, or goes on with one behind its last whole part. A set of another model, tower, type or part size is
    /// refused, as is one that another process writes.
    pub fn open(dir: &Path, header: Header) -> Result<Self, Error> {
        fs_err::create_dir_all(dir)?;
        let lock = fs_err::File::create(dir.join("LOCK"))?.into_file();
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(refuse(dir, EmbeddingsProblem::Locked)),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let record = match Record::load(dir)? {
            Some(record) => {
                check_same(dir, &header, &record.header)?;
                record
            }
            None => Record { format_version: VERSION, header, complete: false, rows: 0, parts: Vec::new() },
        };
        let (keys, vectors) = (Vec::new(), Vec::new());
        Ok(Self { dir: dir.to_owned(), record, keys, vectors, rows: 0, digest: SourceDigest::default(), _lock: lock })
    }

    /// Parts that are whole. Their documents need not be embedded again, if their [`SourceDigest`] is still the same.
    pub fn finished_parts(&self) -> &[Part] {
        &self.record.parts
    }

    /// The set was finished before.
    pub fn is_complete(&self) -> bool {
        self.record.complete
    }

    /// Forgets parts from number `part` on, whose documents have changed; their files are overwritten.
    pub fn truncate(&mut self, part: usize) -> Result<(), Error> {
        self.record.parts.truncate(part);
        self.record.rows = self.record.parts.iter().map(|part| part.rows).sum();
        self.record.complete = false;
        self.record.store(&self.dir)
    }

    /// Adds the next row. `row` holds `dim` finite values.
    pub fn push(&mut self, key: &str, row: &[f32], source: &Document) -> Result<(), Error> {
        let dim = self.record.header.model.dim;
        let refuse_row = |what: String| {
            let (row, key) = (self.record.rows + self.rows, key.to_owned());
            Err(refuse(&self.dir, EmbeddingsProblem::Vector { row, key, what }))
        };
        if row.len() != dim {
            return refuse_row(format!("has {} values, expected {dim}", row.len()));
        }
        if let Some(at) = row.iter().position(|value| !value.is_finite()) {
            return refuse_row(format!("holds a value that is not finite at position {at}"));
        }
        if let Some(at) = row.iter().position(|value| !npy::holds(*value, self.record.header.vectors)) {
            return refuse_row(format!("holds a value that f16 cannot hold at position {at}. Store f32"));
        }
        npy::encode(row, self.record.header.vectors, &mut self.vectors);
        serde_json::to_writer(&mut self.keys, key).map_err(std::io::Error::from)?;
        self.keys.push(b'\n');
        self.digest.add(source);
        self.rows += 1;
        if self.rows >= self.record.header.part_rows {
            self.cut()?;
        }
        Ok(())
    }

    /// Writes the part that is in memory, then names it in the record.
    fn cut(&mut self) -> Result<(), Error> {
        let number = self.record.parts.len();
        let header = npy::header(self.rows, self.record.header.model.dim, self.record.header.vectors);
        let vectors = self.write(format!("part-{number:06}.npy"), &[&header, &self.vectors])?;
        let keys = self.write(format!("part-{number:06}.keys"), &[&self.keys])?;
        let source_digest = std::mem::take(&mut self.digest).hex();
        self.record.parts.push(Part { vectors, keys, rows: self.rows, source_digest });
        self.record.rows += self.rows;
        self.record.complete = false;
        self.record.store(&self.dir)?;
        self.keys.clear();
        self.vectors.clear();
        self.rows = 0;
        Ok(())
    }

    fn write(&self, name: String, pieces: &[&[u8]]) -> Result<PartFile, Error> {
        let mut file = fs_err::File::create(self.dir.join(&name))?;
        let (mut bytes, mut crc) = (0, 0);
        for piece in pieces {
            file.write_all(piece)?;
            bytes += piece.len() as u64;
            crc = crc32c::crc32c_append(crc, piece);
        }
        file.sync_all()?;
        Ok(PartFile { name, bytes, crc32c: crc })
    }

    /// Writes the last part and marks the set as complete.
    pub fn finish(mut self) -> Result<Summary, Error> {
        if self.rows > 0 {
            self.cut()?;
        }
        if !self.record.complete {
            self.record.complete = true;
            self.record.store(&self.dir)?;
        }
        let bytes = self.record.parts.iter().map(|part| part.vectors.bytes + part.keys.bytes).sum();
        Ok(Summary { rows: self.record.rows, parts: self.record.parts.len(), bytes })
    }
}

fn check_same(dir: &Path, asked: &Header, there: &Header) -> Result<(), Error> {
    let vectors = |header: &Header| format!("{:?}", header.vectors).to_lowercase();
    let pairs = [
        ("model (fingerprint)", asked.model.fingerprint.clone(), there.model.fingerprint.clone()),
        ("dimension", asked.model.dim.to_string(), there.model.dim.to_string()),
        ("tower", asked.tower.clone(), there.tower.clone()),
        ("type of vectors", vectors(asked), vectors(there)),
        ("part size in rows", asked.part_rows.to_string(), there.part_rows.to_string()),
    ];
    match pairs.into_iter().find(|(_, asked, there)| asked != there) {
        Some((what, expected, got)) => Err(refuse(dir, EmbeddingsProblem::Different { what, expected, got })),
        None => Ok(()),
    }
}
