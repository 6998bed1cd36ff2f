//! Flawed records of a corpus: skipped up to a number, listed in a file, and reported together.
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::error::Error;
use crate::problem::CorpusProblem;

/// Most flawed records that an error lists.
const TOLD: usize = 20;

/// The flawed records of one reading.
#[derive(Debug)]
pub(super) struct Flaws {
    path: PathBuf,
    /// `None` where the reader's command has no option that says so, and none may be skipped.
    allowed: Option<u64>,
    total: u64,
    first: Vec<Error>,
    rejects: Option<BufWriter<fs_err::File>>,
}

impl Flaws {
    /// Of the corpus in `path`, which consists of `files`; `rejects` is created, or emptied.
    pub(super) fn open(
        path: &Path,
        files: &[PathBuf],
        allowed: Option<u64>,
        rejects: Option<&Path>,
    ) -> Result<Self, Error> {
        let rejects = match rejects {
            Some(rejects) if files.iter().any(|file| is_same(file, rejects)) => {
                let reason = format!(
                    "`{}` is the corpus itself. Give `--rejects` another file",
                    rejects.display()
                );
                return Err(std::io::Error::other(reason).into());
            }
            Some(rejects) => Some(BufWriter::new(fs_err::File::create(rejects)?)),
            None => None,
        };
        Ok(Self {
            path: path.to_owned(),
            allowed,
            total: 0,
            first: Vec::new(),
            rejects,
        })
    }

    /// Counts a flawed record; returns errors that are not about one record.
    pub(super) fn take(&mut self, error: Error) -> Result<(), Error> {
        let Error::Line { path, line, problem } = &error else {
            return Err(error);
        };
        // Nothing of such a file can be read.
        if matches!(problem, CorpusProblem::JsonArray) && *line == 1 {
            return Err(error);
        }
        if let Some(rejects) = &mut self.rejects {
            let record = json!({ "file": path.display().to_string(), "line": line, "reason": problem.to_string() });
            writeln!(rejects, "{record}")?;
        }
        self.total += 1;
        if self.first.len() < TOLD {
            self.first.push(error);
        }
        Ok(())
    }

    /// The corpus, or its only file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// All so far.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// More than may be skipped.
    pub(super) fn too_many(&self) -> bool {
        self.total > self.allowed.unwrap_or(0)
    }

    /// All of them as one error; `end` is what ended the reading before the end of the corpus.
    pub(super) fn refusal(&mut self, end: Option<Error>) -> Error {
        let mut first = std::mem::take(&mut self.first);
        match (first.pop(), end) {
            (Some(only), None) if self.total == 1 && self.allowed.unwrap_or(0) == 0 => only,
            (last, end) => {
                first.extend(last);
                let (path, total, allowed) = (self.path.clone(), self.total, self.allowed);
                Error::Flaws {
                    path,
                    total,
                    allowed,
                    first,
                    end: end.map(Box::new),
                }
            }
        }
    }

    /// A message on the skipped records; none where there were none.
    pub(super) fn skipped(&self) -> Option<String> {
        let first = self.first.first()?;
        let records = if self.total == 1 { "record" } else { "records" };
        Some(format!("skipped {} bad {records}; the first: {first}", self.total))
    }

    /// Completes the list of rejects.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.rejects.as_mut().map_or(Ok(()), |rejects| Ok(rejects.flush()?))
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs_err::canonicalize(one), fs_err::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}
