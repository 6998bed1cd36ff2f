//! Keys that come more than once, found by merging sorted files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufRead as _, BufReader, BufWriter, Lines, Write as _};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::job_error::BulkJobError;

/// Keys that are shown.
const SHOWN: usize = 5;

/// Files that are read at once: others are merged into one before.
const OPEN: usize = 200;

/// Files of sorted keys, one JSON text per line. Holds one key of each in memory, and keeps no more files open than
/// systems allow.
#[derive(Debug)]
pub(super) struct KeyMerge {
    /// For merged files.
    dir: PathBuf,
    merged: usize,
    files: Vec<Lines<BufReader<fs_err::File>>>,
    next: BinaryHeap<Reverse<(String, usize)>>,
}

impl KeyMerge {
    /// Merges into files of a directory.
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            merged: 0,
            files: Vec::new(),
            next: BinaryHeap::new(),
        }
    }

    pub(super) fn add(&mut self, path: &Path) -> Result<(), Error> {
        if self.files.len() == OPEN {
            self.merged += 1;
            let path = self.dir.join(format!("merged-{}", self.merged));
            let mut out = BufWriter::new(fs_err::File::create(&path)?);
            while let Some(key) = self.pop()? {
                serde_json::to_writer(&mut out, &key).map_err(std::io::Error::from)?;
                out.write_all(b"\n")?;
            }
            out.flush()?;
            self.files.clear();
            self.open(&path)?;
        }
        self.open(path)
    }

    fn open(&mut self, path: &Path) -> Result<(), Error> {
        self.files.push(BufReader::new(fs_err::File::open(path)?).lines());
        self.advance(self.files.len() - 1)
    }

    fn advance(&mut self, file: usize) -> Result<(), Error> {
        let Some(line) = self.files.get_mut(file).and_then(Iterator::next).transpose()? else {
            return Ok(());
        };
        let key = serde_json::from_str(&line).map_err(std::io::Error::from)?;
        self.next.push(Reverse((key, file)));
        Ok(())
    }

    fn pop(&mut self) -> Result<Option<String>, Error> {
        let Some(Reverse((key, file))) = self.next.pop() else {
            return Ok(None);
        };
        self.advance(file)?;
        Ok(Some(key))
    }

    /// Reads all; an error that names some where keys come more than once.
    pub(super) fn refuse_repeated(mut self) -> Result<(), Error> {
        let (mut total, mut first, mut last) = (0, Vec::new(), None);
        while let Some(key) = self.pop()? {
            if last.as_ref() == Some(&key) {
                total += 1;
                if first.len() < SHOWN && first.last() != Some(&key) {
                    first.push(key.clone());
                }
            }
            last = Some(key);
        }
        if total == 0 {
            Ok(())
        } else {
            Err(BulkJobError::RepeatedKeys { total, first }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// As many as a map counts.
        #[test]
        fn repeated_keys_are_counted(
            mut files in prop::collection::vec(prop::collection::btree_set("[a-c\n\"]{1,2}", 0..12), 0..6),
            many in any::<bool>(),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut merge = KeyMerge::new(dir.path());
            if many {
                // More files than are open at once.
                let empty = std::iter::repeat_n(std::collections::BTreeSet::new(), 2 * OPEN);
                files = files.into_iter().chain(empty).collect();
                files.rotate_left(3);
            }
            let mut counts = BTreeMap::new();
            for (number, keys) in files.iter_mut().enumerate() {
                let path = dir.path().join(number.to_string());
                let line = |key: &String| format!("{}\n", serde_json::to_string(key).unwrap());
                let lines: Vec<String> = keys.iter().map(line).collect();
                fs_err::write(&path, lines.concat()).unwrap();
                merge.add(&path).unwrap();
                for key in keys.iter() {
                    *counts.entry(key.clone()).or_insert(0_u64) += 1;
                }
            }
            let repeated: Vec<(&String, &u64)> = counts.iter().filter(|(_, count)| **count > 1).collect();
            let expected: u64 = repeated.iter().map(|(_, count)| **count - 1).sum();
            match merge.refuse_repeated() {
                Ok(()) => prop_assert_eq!(expected, 0),
                Err(Error::Job(BulkJobError::RepeatedKeys { total, first })) => {
                    prop_assert_eq!(total, expected);
                    let shown: Vec<String> = repeated.iter().take(SHOWN).map(|(key, _)| (*key).clone()).collect();
                    prop_assert_eq!(first, shown);
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }
}
