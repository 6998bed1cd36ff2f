//! A batch of documents in a file of the job: it may have come from a stream, the last record of each key counts, and
//! it is checked as a whole before anything is embedded.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, BufWriter, Lines, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use dyad_corpus::{Document, Located, Metadata, PassagePlace};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::Error;
use crate::source::LocatedDocuments;

/// A document as it is written, one JSON array per line: line, key, title, text, metadata as text, and its place.
type StagedRecord = (u64, String, String, String, Option<Metadata>, Option<StagedPlace>);

/// Where a passage stands in its document, of which the text is in a file of its own, once for all of its passages.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct StagedPlace {
    /// Where the text begins in that file, and its bytes.
    text: (u64, usize),
    /// The bytes of the passage in the text.
    bytes: (usize, usize),
}

/// The texts of the documents of which a batch has passages.
#[derive(Debug)]
struct StagedTexts {
    file: fs_err::File,
    bytes: u64,
    /// By their digests, where they begin.
    begins: HashMap<u128, u64>,
    /// The text that was read last, and where it begins.
    last: Option<(u64, PassagePlace)>,
}

impl StagedTexts {
    /// In a file without a name.
    fn create(path: &Path) -> Result<Self, Error> {
        Ok(Self {
            file: unnamed(path)?,
            bytes: 0,
            begins: HashMap::new(),
            last: None,
        })
    }

    fn add(&mut self, place: &PassagePlace) -> std::io::Result<StagedPlace> {
        let text = place.document();
        let known = self.begins.get(&place.digest()).copied();
        let begin = known.unwrap_or(self.bytes);
        if known.is_none() {
            self.file.write_all(text.as_bytes())?;
            self.bytes += text.len() as u64;
            self.begins.insert(place.digest(), begin);
        }
        let Range { start, end } = place.bytes();
        Ok(StagedPlace {
            text: (begin, text.len()),
            bytes: (start, end),
        })
    }

    fn place(&mut self, place: StagedPlace) -> std::io::Result<Option<PassagePlace>> {
        let (begin, length) = place.text;
        if self.last.as_ref().is_none_or(|(last, _)| *last != begin) {
            let mut text = vec![0; length];
            self.file.file().read_exact_at(&mut text, begin)?;
            let text = String::from_utf8(text).map_err(std::io::Error::other)?;
            self.last = Some((begin, PassagePlace::whole(text)));
        }
        let (start, end) = place.bytes;
        Ok(self.last.as_ref().and_then(|(_, whole)| whole.part(start..end)))
    }
}

/// A new file that is removed already.
fn unnamed(path: &Path) -> Result<fs_err::File, Error> {
    let file = fs_err::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)?;
    fs_err::remove_file(path)?;
    Ok(file)
}

/// A complete batch.
#[derive(Debug)]
pub(super) struct Staged {
    file: fs_err::File,
    lines: Lines<BufReader<fs_err::File>>,
    texts: StagedTexts,
    /// By [`key_hash`]: the number of its last record.
    last: HashMap<u128, u64>,
    number: u64,
    records: u64,
}

/// 128 bits of xxh3 of a key.
pub(super) fn key_hash(key: &str) -> u128 {
    xxh3_128(key.as_bytes())
}

impl Staged {
    /// Reads a whole batch; `look` is called for every document, in order. Its file in `workspace` has no name
    /// afterwards.
    pub(super) fn read(
        workspace: &Path,
        documents: &mut LocatedDocuments<'_>,
        mut look: impl FnMut(&Document) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let mut file = BufWriter::with_capacity(1 << 18, unnamed(&workspace.join("batch.jsonl"))?);
        let mut texts = StagedTexts::create(&workspace.join("batch.documents"))?;
        let (mut last, mut records) = (HashMap::new(), 0);
        for document in documents {
            let Located { value, line } = document?;
            look(&value)?;
            last.insert(key_hash(&value.key), records);
            records += 1;
            let place = value.place.as_ref().map(|place| texts.add(place)).transpose()?;
            let record = (line, &value.key, &value.title, &value.text, &value.metadata, place);
            serde_json::to_writer(&mut file, &record).map_err(std::io::Error::from)?;
            file.write_all(b"\n")?;
        }
        let file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        Ok(Self {
            lines: lines_from_start(&file)?,
            file,
            texts,
            last,
            number: 0,
            records,
        })
    }

    /// Begins at the first record again.
    pub(super) fn rewind(&mut self) -> Result<(), Error> {
        self.lines = lines_from_start(&self.file)?;
        self.number = 0;
        Ok(())
    }

    /// Records read.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// Records that a later one replaces.
    pub(super) fn superseded(&self) -> u64 {
        self.records - self.last.len() as u64
    }
}

/// The lines of a file; the handle that it is read by shares the position of this one.
fn lines_from_start(file: &fs_err::File) -> Result<Lines<BufReader<fs_err::File>>, Error> {
    let (handle, path) = (file.file().try_clone()?, file.path());
    let mut reader = fs_err::File::from_parts(handle, path);
    reader.seek(SeekFrom::Start(0))?;
    Ok(BufReader::with_capacity(1 << 18, reader).lines())
}

impl Iterator for Staged {
    type Item = Result<Located<Document>, dyad_corpus::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = self.lines.next()?;
            let record = line.and_then(|line| Ok(serde_json::from_str::<StagedRecord>(&line)?));
            let (line, key, title, text, metadata, place) = match record {
                Ok(record) => record,
                Err(error) => return Some(Err(error.into())),
            };
            let number = self.number;
            self.number += 1;
            if self.last.get(&key_hash(&key)) == Some(&number) {
                let place = match place.map(|place| self.texts.place(place)).transpose() {
                    Ok(place) => place.flatten(),
                    Err(error) => return Some(Err(error.into())),
                };
                return Some(Ok(Located {
                    value: Document {
                        key,
                        title,
                        text,
                        metadata,
                        place,
                    },
                    line,
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_record_of_a_key_counts() {
        let dir = tempfile::tempdir().unwrap();
        let document = |key: &str, text: &str| Document {
            key: key.into(),
            title: "a \"title\"\n".into(),
            text: text.into(),
            metadata: Metadata::parse(r#"{"b": 1.50, "a": [null]}"#).unwrap(),
            place: None,
        };
        let all = [("x", "1"), ("y", "2"), ("x", "3"), ("z", "4"), ("x", "5"), ("y", "6")];
        let mut lines = (1..).zip(all).map(|(line, (key, text))| {
            Ok(Located {
                value: document(key, text),
                line,
            })
        });
        let mut looked = 0;
        let staged = Staged::read(dir.path(), &mut lines, |_| {
            looked += 1;
            Ok(())
        });
        let mut staged = staged.unwrap();
        assert_eq!((looked, staged.records(), staged.superseded()), (6, 6, 3));
        assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 0, "the file has no name");
        let expected = [
            (4, document("z", "4")),
            (5, document("x", "5")),
            (6, document("y", "6")),
        ];
        let expected = expected.map(|(line, value)| Located { value, line });
        for read_before in [0, 3, 1] {
            let read: Vec<Located<Document>> = staged.by_ref().map(Result::unwrap).collect();
            assert_eq!(read, expected);
            staged.rewind().unwrap();
            assert_eq!(staged.by_ref().take(read_before).count(), read_before);
            staged.rewind().unwrap();
        }
    }
}
