//! Parts whose corpus has changed: renamed and kept until the set is complete, so that rows with the same key and text
//! are reused.
//!
//! The record names them before their files are renamed, so that a process that was killed in between renames the rest
//! when it is started again; a file that the record does not name is removed.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use dyad_files::{crc32c_of_file, sync_dir};

use super::record::{EmbeddingsPart, EmbeddingsRecord, PartFile};
use super::values::VectorType;
use crate::error::Error;

/// Bytes of a [`text_digest`](super::text_digest).
const DIGEST_BYTES: usize = 16;

/// Adds parts that have digests of their texts to the earlier ones; others cannot be reused.
pub(super) fn add(earlier: &mut Vec<EmbeddingsPart>, aside: Vec<EmbeddingsPart>) {
    let times = earlier
        .iter()
        .filter_map(|part| split(&part.vectors.name))
        .map(|(number, _)| number)
        .max();
    let number = times.unwrap_or(0) + 1;
    let rename = |file: PartFile| PartFile {
        name: format!("earlier-{number}-{}", file.name),
        ..file
    };
    earlier.extend(
        aside
            .into_iter()
            .filter(|part| part.texts.is_some())
            .map(|part| EmbeddingsPart {
                vectors: rename(part.vectors),
                keys: rename(part.keys),
                texts: part.texts.map(rename),
                ..part
            }),
    );
}

/// Number of times that parts were set aside, and the original name of the file.
fn split(name: &str) -> Option<(u64, &str)> {
    let (number, name) = name.strip_prefix("earlier-")?.split_once('-')?;
    Some((number.parse().ok()?, name))
}

/// Gives every earlier part's files the names that the record has for them.
pub(super) fn finish_renaming(dir: &Path, record: &EmbeddingsRecord) -> Result<(), Error> {
    let kept: HashSet<&str> = names(&record.parts).collect();
    let mut renamed = false;
    for name in names(&record.earlier) {
        let Some((_, before)) = split(name).filter(|(_, before)| !kept.contains(before)) else {
            continue;
        };
        if dir.join(name).exists() {
            continue;
        }
        match fs_err::rename(dir.join(before), dir.join(name)) {
            Ok(()) => renamed = true,
            // Its rows are embedded again.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    if renamed {
        sync_dir(dir)?;
    }
    Ok(())
}

/// Removes files of parts that the record does not name.
pub(super) fn remove_unnamed(dir: &Path, record: &EmbeddingsRecord) -> Result<(), Error> {
    let named: HashSet<&str> = names(&record.parts).chain(names(&record.earlier)).collect();
    for entry in fs_err::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name
            .to_str()
            .is_some_and(|name| is_of_a_part(name) && !named.contains(name))
        {
            fs_err::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// `part-000000.npy` and the like, with or without `earlier-1-`.
fn is_of_a_part(name: &str) -> bool {
    let name = split(name).map_or(name, |(_, before)| before);
    let numbered = name.strip_prefix("part-").and_then(|rest| rest.split_once('.'));
    numbered.is_some_and(|(number, ending)| {
        number.len() >= 6
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && matches!(ending, "npy" | "keys" | "texts")
    })
}

fn names(parts: &[EmbeddingsPart]) -> impl Iterator<Item = &str> {
    parts
        .iter()
        .flat_map(EmbeddingsPart::files)
        .map(|file| file.name.as_str())
}

/// A row that can be reused.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlierRow {
    /// The vector as it is stored.
    pub vector: Vec<f32>,
    /// Whether the text is longer than the model reads, where that is the same for all rows of the part.
    pub truncated: Option<bool>,
}

/// Vectors of documents that an earlier corpus had, by key and text. Holds 24 bytes per row; the vectors stay on disk.
#[derive(Debug)]
pub struct EarlierRows {
    dir: PathBuf,
    dim: usize,
    vectors: VectorType,
    parts: Vec<EmbeddingsPart>,
    /// Ascending by digest.
    places: Vec<RowLocation>,
    /// Whether a part's vectors match the record, once that was checked.
    intact: Vec<Option<bool>>,
    open: Option<(usize, fs_err::File)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RowLocation {
    // Two halves instead of one u128, whose alignment would pad every entry by eight bytes.
    digest: (u64, u64),
    part: u32,
    row: u32,
}

fn halves(digest: u128) -> (u64, u64) {
    ((digest >> 64) as u64, digest as u64)
}

impl EarlierRows {
    /// Parts that are damaged or gone have no rows here.
    pub(super) fn open(dir: &Path, record: &EmbeddingsRecord) -> Self {
        let mut places = Vec::new();
        for (number, part) in (0u32..).zip(&record.earlier) {
            let Some(digests) = part.texts.as_ref().and_then(|file| intact(dir, file).ok().flatten()) else {
                continue;
            };
            let expected = part.rows.saturating_mul(DIGEST_BYTES as u64);
            if part.rows < u64::from(u32::MAX) && digests.len() as u64 == expected {
                let digests = digests
                    .as_chunks::<DIGEST_BYTES>()
                    .0
                    .iter()
                    .map(|bytes| u128::from_le_bytes(*bytes));
                places.extend((0u32..).zip(digests).map(|(row, digest)| RowLocation {
                    digest: halves(digest),
                    part: number,
                    row,
                }));
            }
        }
        places.sort_unstable();
        Self {
            dir: dir.to_owned(),
            dim: record.header.model.dim,
            vectors: record.header.vectors,
            parts: record.earlier.clone(),
            places,
            intact: vec![None; record.earlier.len()],
            open: None,
        }
    }

    /// Rows that can be found.
    pub fn rows(&self) -> usize {
        self.places.len()
    }

    /// The row of the document with this [`text_digest`](super::text_digest); none where there was no such document or
    /// its part is damaged.
    pub fn find(&mut self, digest: u128) -> Option<EarlierRow> {
        let digest = halves(digest);
        let first = self.places.partition_point(|place| place.digest < digest);
        let found: Vec<RowLocation> = self
            .places
            .get(first..)?
            .iter()
            .take_while(|place| place.digest == digest)
            .copied()
            .collect();
        // Newer parts come last.
        found.into_iter().rev().find_map(|place| self.read(place))
    }

    fn read(&mut self, RowLocation { part: number, row, .. }: RowLocation) -> Option<EarlierRow> {
        let number = number as usize;
        let part = self.parts.get(number)?;
        let width = self.vectors.row_bytes(self.dim)?;
        let header = self.vectors.header(part.rows, self.dim).len();
        if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
            let state = self.intact.get_mut(number)?;
            let expected = header as u64 + part.rows * width as u64;
            let whole = || part.vectors.bytes == expected && matches!(is_valid(&self.dir, &part.vectors), Ok(true));
            if !*state.get_or_insert_with(whole) {
                return None;
            }
            self.open = Some((number, fs_err::File::open(self.dir.join(&part.vectors.name)).ok()?));
        }
        let mut bytes = vec![0; width];
        let at = header as u64 + u64::from(row) * width as u64;
        self.open.as_ref()?.1.file().read_exact_at(&mut bytes, at).ok()?;
        let truncated = match self.parts.get(number)?.truncated {
            Some(0) => Some(false),
            Some(count) if count == self.parts.get(number)?.rows => Some(true),
            Some(_) | None => None,
        };
        let vector = self.vectors.decode(&bytes, self.dim);
        vector
            .iter()
            .all(|value| value.is_finite())
            .then_some(EarlierRow { vector, truncated })
    }
}

/// The content of a small file, if it matches the record.
fn intact(dir: &Path, file: &PartFile) -> io::Result<Option<Vec<u8>>> {
    let bytes = fs_err::read(dir.join(&file.name))?;
    Ok((bytes.len() as u64 == file.bytes && crc32c::crc32c(&bytes) == file.crc32c).then_some(bytes))
}

/// Whether a file matches the record.
fn is_valid(dir: &Path, file: &PartFile) -> io::Result<bool> {
    Ok(crc32c_of_file(&dir.join(&file.name))? == (file.bytes, file.crc32c))
}
