//! Reads a complete set in row order, one part in memory at a time, each verified as it is opened.

use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use super::record::{EmbeddingsModel, EmbeddingsPart, EmbeddingsRecord, PartFile, refuse};
use super::values::VectorType;
use crate::context::PassageContext;
use crate::error::Error;
use crate::problem::EmbeddingsProblem;

/// Iterates over `(key, vector)` in row order. After an error it is at its end.
#[derive(Debug)]
pub struct EmbeddingsReader {
    dir: PathBuf,
    record: EmbeddingsRecord,
    parts: IntoIter<EmbeddingsPart>,
    open: Option<OpenPart>,
    ended: Option<EmbeddingsPart>,
    row: u64,
    failed: bool,
}

#[derive(Debug)]
struct OpenPart {
    part: EmbeddingsPart,
    keys: IntoIter<String>,
    values: Vec<u8>,
    next: usize,
}

impl EmbeddingsReader {
    /// Opens a complete set and checks the sizes of its files.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let record = EmbeddingsRecord::load(dir)?.ok_or_else(|| refuse(dir, EmbeddingsProblem::Absent))?;
        if !record.complete {
            return Err(refuse(dir, EmbeddingsProblem::Incomplete { rows: record.rows }));
        }
        for file in record.parts.iter().flat_map(|part| [&part.vectors, &part.keys]) {
            let got = fs_err::metadata(dir.join(&file.name))?.len();
            if got != file.bytes {
                return Err(damaged(
                    dir,
                    file,
                    "length",
                    format!("{} bytes", file.bytes),
                    format!("{got} bytes"),
                ));
            }
        }
        let parts = record.parts.clone().into_iter();
        Ok(Self {
            dir: dir.to_owned(),
            record,
            parts,
            open: None,
            ended: None,
            row: 0,
            failed: false,
        })
    }

    /// The model that made the vectors.
    pub fn model(&self) -> &EmbeddingsModel {
        &self.record.header.model
    }

    /// Rows of the whole set.
    pub fn rows(&self) -> u64 {
        self.record.rows
    }

    /// Texts that were truncated at the model's longest input; `None` where an earlier release made a part.
    pub fn truncated(&self) -> Option<u64> {
        self.record.parts.iter().map(|part| part.truncated).sum()
    }

    /// Values per row.
    pub fn dim(&self) -> usize {
        self.record.header.model.dim
    }

    /// `question` or `answer`.
    pub fn tower(&self) -> &str {
        &self.record.header.tower
    }

    /// Number type that the vectors were computed in; `None` where an earlier release made them.
    pub fn dtype(&self) -> Option<&str> {
        self.record.header.dtype.as_deref()
    }

    /// What of its document has reached a passage's vector.
    pub fn context(&self) -> PassageContext {
        self.record.header.context
    }

    /// Whether the model embeds questions otherwise than answers; `None` where an earlier release made the vectors.
    pub fn two_towers(&self) -> Option<bool> {
        self.record.header.two_towers
    }

    /// How the vectors are stored.
    pub fn vector_type(&self) -> VectorType {
        self.record.header.vectors
    }

    /// The model's logit scale, where the set says it.
    pub fn logit_scale(&self) -> Option<f64> {
        self.record.header.logit_scale
    }

    /// The part whose last row was just given, so that its [`SourceDigest`](super::SourceDigest) can be compared.
    pub fn ended_part(&mut self) -> Option<EmbeddingsPart> {
        self.ended.take()
    }

    fn open_part(&self, part: &EmbeddingsPart) -> Result<OpenPart, Error> {
        let vectors = self.read(&part.vectors)?;
        let header = self.record.header.vectors.header(part.rows, self.dim());
        let expected = header.len() as u64 + part.rows * self.record.row_bytes() as u64;
        let values = vectors
            .strip_prefix(header.as_slice())
            .filter(|_| vectors.len() as u64 == expected);
        let Some(values) = values else {
            let (expected, got) = (
                format!("an array of {} x {}", part.rows, self.dim()),
                "another".to_owned(),
            );
            return Err(damaged(&self.dir, &part.vectors, "header", expected, got));
        };
        let bytes = self.read(&part.keys)?;
        let keys = bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(serde_json::from_slice);
        let keys: Vec<String> = keys.collect::<Result<_, _>>().map_err(|error| {
            damaged(
                &self.dir,
                &part.keys,
                "content",
                "one JSON string per line".to_owned(),
                error.to_string(),
            )
        })?;
        if keys.len() as u64 != part.rows {
            return Err(damaged(
                &self.dir,
                &part.keys,
                "lines",
                part.rows.to_string(),
                keys.len().to_string(),
            ));
        }
        Ok(OpenPart {
            part: part.clone(),
            keys: keys.into_iter(),
            values: values.to_vec(),
            next: 0,
        })
    }

    /// A file whose checksum is the recorded one.
    fn read(&self, file: &PartFile) -> Result<Vec<u8>, Error> {
        let bytes = fs_err::read(self.dir.join(&file.name))?;
        let got = crc32c::crc32c(&bytes);
        if got != file.crc32c {
            let (expected, got) = (format!("{:08x}", file.crc32c), format!("{got:08x}"));
            return Err(damaged(&self.dir, file, "checksum", expected, got));
        }
        Ok(bytes)
    }

    fn advance(&mut self) -> Result<Option<(String, Vec<f32>)>, Error> {
        loop {
            if let Some(open) = &mut self.open {
                if let Some(key) = open.keys.next() {
                    let width = self.record.row_bytes();
                    let start = open.next * width;
                    open.next += 1;
                    let bytes = open.values.get(start..start + width).unwrap_or(&[]);
                    if open.next as u64 == open.part.rows {
                        self.ended = Some(open.part.clone());
                    }
                    let row = self.record.header.vectors.decode(bytes, self.record.header.model.dim);
                    return self.check(key, row).map(Some);
                }
                self.open = None;
            }
            let Some(part) = self.parts.next() else { return Ok(None) };
            self.open = Some(self.open_part(&part)?);
        }
    }

    fn check(&mut self, key: String, row: Vec<f32>) -> Result<(String, Vec<f32>), Error> {
        self.row += 1;
        let at = self.row;
        match row.iter().position(|value| !value.is_finite()) {
            Some(place) => {
                let what = format!("holds a value that is not finite at position {} (from 1)", place + 1);
                Err(refuse(&self.dir, EmbeddingsProblem::Vector { row: at, key, what }))
            }
            None => Ok((key, row)),
        }
    }
}

fn damaged(dir: &Path, file: &PartFile, part: &'static str, expected: String, got: String) -> Error {
    refuse(
        dir,
        EmbeddingsProblem::Damaged {
            file: file.name.clone(),
            part,
            expected,
            got,
        },
    )
}

impl Iterator for EmbeddingsReader {
    type Item = Result<(String, Vec<f32>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.advance().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}
