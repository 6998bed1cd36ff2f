//! The files of a BEIR folder (Thakur et al. 2021, arXiv 2104.08663).
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::Error;

const SUFFIXES: [&str; 3] = ["", ".gz", ".zst"];

/// A folder with `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv`, each plain or with `.gz` or `.zst` after its
/// name.
///
/// Each file is located on request, so that a folder without a corpus still serves an evaluation. Where a file is
/// there in several forms the plain one counts, then gzip, then Zstandard.
#[derive(Debug, Clone)]
pub struct BeirFolder {
    root: PathBuf,
}

impl BeirFolder {
    /// Checks that `root` is a folder.
    pub fn open(root: &Path) -> Result<Self, Error> {
        match fs_err::metadata(root) {
            Ok(found) if found.is_dir() => Ok(Self { root: root.to_owned() }),
            Ok(_) => Err(Error::NotAFolder { path: root.to_owned() }),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::NoBeirFolder { path: root.to_owned() }),
            Err(error) => Err(error.into()),
        }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The corpus file.
    pub fn corpus(&self) -> Result<PathBuf, Error> {
        self.find("corpus.jsonl")
    }

    /// Whether it has questions or judgements.
    pub(super) fn has_questions(&self) -> bool {
        self.queries().is_ok() || self.root.join("qrels").is_dir()
    }

    /// The questions file.
    pub fn queries(&self) -> Result<PathBuf, Error> {
        self.find("queries.jsonl")
    }

    /// The judgements of one split, for example `test`; the error lists the splits that exist.
    pub fn qrels(&self, split: &str) -> Result<PathBuf, Error> {
        let found = self.splits()?;
        if found.iter().any(|name| name == split) {
            self.find(&format!("qrels/{split}.tsv"))
        } else {
            Err(Error::MissingSplit {
                folder: self.root.clone(),
                split: split.to_owned(),
                found,
            })
        }
    }

    /// The splits that have judgements, in alphabetical order.
    pub fn splits(&self) -> Result<Vec<String>, Error> {
        let folder = self.root.join("qrels");
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let mut splits = BTreeSet::new();
        for entry in fs_err::read_dir(folder)? {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            for suffix in SUFFIXES {
                if let Some(split) = name.strip_suffix(suffix).and_then(|name| name.strip_suffix(".tsv")) {
                    splits.insert(split.to_owned());
                }
            }
        }
        Ok(splits.into_iter().collect())
    }

    fn find(&self, name: &str) -> Result<PathBuf, Error> {
        SUFFIXES
            .iter()
            .map(|suffix| self.root.join(format!("{name}{suffix}")))
            .find(|path| path.is_file())
            .ok_or_else(|| Error::MissingFile {
                folder: self.root.clone(),
                name: name.to_owned(),
            })
    }
}
