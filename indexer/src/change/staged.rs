//! A batch of documents in a file of the job: it may have come from a stream, the last record of each key counts, and it is
//! checked as a whole before anything is embedded.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, BufWriter, Lines, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use dyad_corpus::{Document, Located, Metadata};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::Error;
use crate::source::Documents;

/// A document as it is written, one JSON array per line: line, key, title, text, and metadata as text.
type Record = (u64, String, String, String, Option<Metadata>);

/// A complete batch.
#[derive(Debug)]
pub(super) struct Staged {
    file: fs_err::File,
    lines: Lines<BufReader<fs_err::File>>,
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
    /// Reads a whole batch; `look` is called for every document, in order. Its file in `workspace` has no name afterwards.
    pub(super) fn read(
        workspace: &Path,
        documents: &mut Documents<'_>,
        mut look: impl FnMut(&Document) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let path = workspace.join("batch.jsonl");
        let options = fs_err::OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        fs_err::remove_file(&path)?;
        let mut file = BufWriter::with_capacity(1 << 18, options);
        let (mut last, mut records) = (HashMap::new(), 0);
        for document in documents {
            let Located { value, line } = document?;
            look(&value)?;
            last.insert(key_hash(&value.key), records);
            records += 1;
            let record = (line, &value.key, &value.title, &value.text, &value.metadata);
            serde_json::to_writer(&mut file, &record).map_err(std::io::Error::from)?;
            file.write_all(b"\n")?;
        }
        let file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        Ok(Self { lines: lines_from_start(&file)?, file, last, number: 0, records })
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
            let record = line.and_then(|line| Ok(serde_json::from_str::<Record>(&line)?));
            let (line, key, title, text, metadata) = match record {
                Ok(record) => record,
                Err(error) => return Some(Err(error.into())),
            };
            let number = self.number;
            self.number += 1;
            if self.last.get(&key_hash(&key)) == Some(&number) {
                return Some(Ok(Located { value: Document { key, title, text, metadata }, line }));
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
        };
        let all = [("x", "1"), ("y", "2"), ("x", "3"), ("z", "4"), ("x", "5"), ("y", "6")];
        let mut lines = (1..).zip(all).map(|(line, (key, text))| Ok(Located { value: document(key, text), line }));
        let mut looked = 0;
        let staged = Staged::read(dir.path(), &mut lines, |_| {
            looked += 1;
            Ok(())
        });
        let mut staged = staged.unwrap();
        assert_eq!((looked, staged.records(), staged.superseded()), (6, 6, 3));
        assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 0, "the file has no name");
        let expected = [(4, document("z", "4")), (5, document("x", "5")), (6, document("y", "6"))];
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
