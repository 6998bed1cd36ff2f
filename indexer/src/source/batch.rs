//! Documents in their order: of a corpus, or keys alone, where the vectors are all that there is.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use dyad_corpus::{CorpusProblem, CorpusReader, Document, KeyLines, Located, ReadOptions, check_key};
use xxhash_rust::xxh3::xxh3_128;

use super::parquet::KeyColumn;
use crate::error::Error;

/// Documents for an index, in their order.
pub trait DocumentBatch: Iterator<Item = Result<Located<Document>, dyad_corpus::Error>> {
    /// Bytes of the texts, about, where that is known.
    fn text_bytes(&self) -> Option<u64>;

    /// Bytes on disk, where that is known.
    fn file_bytes(&self) -> Option<u64>;

    /// Bytes read of these.
    fn bytes_read(&self) -> u64 {
        0
    }

    /// Records that were bad and skipped, so far.
    fn rejected(&self) -> u64 {
        0
    }

    /// Warnings for the user, after the reading.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

impl DocumentBatch for CorpusReader {
    fn text_bytes(&self) -> Option<u64> {
        self.plain_bytes()
    }

    fn file_bytes(&self) -> Option<u64> {
        self.total_bytes()
    }

    fn bytes_read(&self) -> u64 {
        Self::bytes_read(self)
    }

    fn rejected(&self) -> u64 {
        Self::rejected(self)
    }

    fn warnings(&self) -> Vec<String> {
        Self::warnings(self)
    }
}

/// Where documents come from.
#[derive(Debug, Clone)]
pub enum Corpus {
    /// A file or folder of documents; `-` is standard input.
    File {
        /// The file or folder.
        path: PathBuf,
        /// How to read it.
        read: ReadOptions,
    },
    /// Documents without texts: one key per line of a file.
    Keys(PathBuf),
    /// Documents without texts, whose keys are a column of a Parquet file.
    Parquet(PathBuf),
    /// That many documents without texts, whose keys are numbers from 0.
    Numbered(u64),
    /// Documents in memory, whose keys are valid and differ.
    Given(Arc<[Document]>),
}

impl Corpus {
    /// Opens it. With `repeated_keys` a later record of a key replaces an earlier one; otherwise it is bad, as it
    /// always is in a corpus that is split into passages: a shorter document would not replace all of a longer one.
    pub fn open(&self, repeated_keys: bool) -> Result<Box<dyn DocumentBatch>, Error> {
        Ok(match self {
            Self::File { path, read } => {
                let repeated_keys = repeated_keys && read.split.is_none();
                Box::new(CorpusReader::open(
                    path,
                    &ReadOptions {
                        repeated_keys,
                        ..read.clone()
                    },
                )?)
            }
            Self::Keys(path) => {
                let given = KeyLines::open(path)?;
                Box::new(KeyBatch {
                    path: path.clone(),
                    given,
                    seen: HashMap::new(),
                })
            }
            Self::Parquet(path) => {
                let mut column = KeyColumn::find(path)?;
                let mut next = move || {
                    column
                        .as_mut()?
                        .next()
                        .map_err(|error| io::Error::other(error).into())
                        .transpose()
                };
                let mut line = 0;
                let given = std::iter::from_fn(move || {
                    line += 1;
                    Some(next()?.map(|value| Located { value, line }))
                });
                Box::new(KeyBatch {
                    path: path.clone(),
                    given,
                    seen: HashMap::new(),
                })
            }
            Self::Numbered(documents) => {
                let document = |number: u64| Document {
                    key: number.to_string(),
                    ..Document::default()
                };
                let documents = (0..*documents).map(move |number| Located {
                    value: document(number),
                    line: number + 1,
                });
                Box::new(UncheckedBatch(documents))
            }
            Self::Given(documents) => {
                let documents = Arc::clone(documents);
                let located = (0..documents.len()).map(move |at| Located {
                    value: documents.get(at).cloned().unwrap_or_default(),
                    line: at as u64 + 1,
                });
                Box::new(UncheckedBatch(located))
            }
        })
    }
}

/// Documents that need no further check.
#[derive(Debug)]
pub struct UncheckedBatch<I>(pub I);

impl<I: Iterator<Item = Located<Document>>> Iterator for UncheckedBatch<I> {
    type Item = Result<Located<Document>, dyad_corpus::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl<I: Iterator<Item = Located<Document>>> DocumentBatch for UncheckedBatch<I> {
    fn text_bytes(&self) -> Option<u64> {
        None
    }

    fn file_bytes(&self) -> Option<u64> {
        None
    }
}

/// Documents of keys alone, in lines or rows of a file.
struct KeyBatch<I> {
    path: PathBuf,
    given: I,
    /// By 128 bits of xxh3 of the key: its line.
    seen: HashMap<u128, u64>,
}

impl<I> KeyBatch<I> {
    fn check(&mut self, key: &str, line: u64) -> Result<(), CorpusProblem> {
        check_key(key)?;
        match self.seen.insert(xxh3_128(key.as_bytes()), line) {
            Some(first_line) => Err(CorpusProblem::DuplicateKey {
                key: key.to_owned(),
                first_line,
            }),
            None => Ok(()),
        }
    }
}

impl<I: Iterator<Item = Result<Located<String>, dyad_corpus::Error>>> Iterator for KeyBatch<I> {
    type Item = Result<Located<Document>, dyad_corpus::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let Located { value: key, line } = match self.given.next()? {
            Ok(key) => key,
            Err(error) => return Some(Err(error)),
        };
        if let Err(problem) = self.check(&key, line) {
            return Some(Err(KeyLines::refuse(&self.path, line, problem)));
        }
        Some(Ok(Located {
            value: Document {
                key,
                ..Document::default()
            },
            line,
        }))
    }
}

impl<I: Iterator<Item = Result<Located<String>, dyad_corpus::Error>>> DocumentBatch for KeyBatch<I> {
    fn text_bytes(&self) -> Option<u64> {
        Some(0)
    }

    fn file_bytes(&self) -> Option<u64> {
        None
    }
}
