//! Errors of corpora, question sets, judgements, runs and embeddings directories.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::problem::{CorpusProblem, EmbeddingsProblem};

/// An error. Each names the file, what was expected, what was found, and the fix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the operating system, whose message names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A file could not be read or decompressed.
    #[error("cannot read `{}` after line {line}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The last line that was read whole.
        line: u64,
        /// The message of the decompressor or the operating system.
        reason: io::Error,
    },
    /// A compressed file ends in the middle of its stream.
    #[error(
        "`{}` is cut short: its {compression} stream ends in the middle, after line {line}. Fetch the file or compress it again",
        path.display()
    )]
    CutShort {
        /// The file.
        path: PathBuf,
        /// The last line that was read whole.
        line: u64,
        /// `gzip` or `zstd`.
        compression: &'static str,
    },
    /// A file of another kind than any that is read.
    #[error("`{}` is {what}. {fix}", path.display())]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// The command or option that helps.
        fix: &'static str,
    },
    /// A file that Git LFS did not fetch.
    #[error("`{}` is a Git LFS pointer and not the file itself. Run `git lfs pull` in its repository", path.display())]
    LfsPointer {
        /// The file.
        path: PathBuf,
    },
    /// An invalid line of a text file.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        problem: CorpusProblem,
    },
    /// A header line without which nothing of a file can be read.
    #[error("{}:{line}: {problem}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        problem: CorpusProblem,
    },
    /// More bad records than may be skipped.
    #[error("{}", FlawsMessage { path, total: *total, allowed: *allowed, first, end: end.as_deref() })]
    Flaws {
        /// The corpus.
        path: PathBuf,
        /// How many.
        total: u64,
        /// How many may be skipped; `None` where no option says so.
        allowed: Option<u64>,
        /// The first of them, each an [`Error::Line`].
        first: Vec<Error>,
        /// What ended the reading before the end of the corpus.
        end: Option<Box<Error>>,
    },
    /// Documents that passages were cut from, of a stream.
    #[error("`--documents {}`: expected a file, which is read for each pass over the corpus, got a stream", path.display())]
    DocumentsOfStream {
        /// As it was named.
        path: PathBuf,
    },
    /// A document without a name.
    #[error(
        "`{}` is a stream, and has no name that could be the key of its document: give a file or a folder with `--format {formats}`",
        path.display()
    )]
    TextOfStream {
        /// The formats whose files are a document each.
        formats: String,
        /// As it was named.
        path: PathBuf,
    },
    /// A folder that is no corpus.
    #[error(
        "`{}` has no documents: expected corpus.jsonl (a BEIR folder), or in it or its folders files whose names end in {endings} \
         (with .gz or .zst after it where compressed), got {found}. Name files of another kind by a pattern such as `{}/*.jsonl`",
        folder.display(),
        folder.display()
    )]
    NoTexts {
        /// The folder.
        folder: PathBuf,
        /// The endings of names that documents have in a folder.
        endings: String,
        /// What is in it.
        found: String,
    },
    /// A pattern that finds nothing.
    #[error("no file matches `{pattern}`")]
    NoMatch {
        /// The pattern that was given.
        pattern: String,
    },
    /// The path does not exist.
    #[error("no file or directory `{}`", path.display())]
    NotFound {
        /// The path that was given.
        path: PathBuf,
    },
    /// One question of a BEIR folder cannot be learned from.
    #[error("`{}`, split `{split}`, question `{key}`: {problem}", folder.display())]
    Question {
        /// The BEIR folder.
        folder: PathBuf,
        /// Whose judgements were read.
        split: String,
        /// Key of the question.
        key: String,
        /// What is wrong.
        problem: Box<CorpusProblem>,
    },
    /// Judgements of a question that is not there.
    #[error(
        "`{}` judges query `{query}`, which `{}` does not hold; queries missing in all: {missing}. \
         Take both files from the same release of the set",
        qrels.display(),
        queries.display()
    )]
    MissingQuery {
        /// The judgements.
        qrels: PathBuf,
        /// The questions.
        queries: PathBuf,
        /// The first query that is missing, in key order.
        query: String,
        /// How many are missing.
        missing: usize,
    },
    /// Examples that name their passages by key, without the passages.
    #[error("`{}` names its passages by key. Also name the corpus that holds them", path.display())]
    NoCorpus {
        /// The file of examples.
        path: PathBuf,
    },
    /// The destination exists already.
    #[error("`{}` already exists. Use another folder, or move the existing one away", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// Neither the options nor the file's name say what is in it.
    #[error("cannot tell the format of `{}`: expected {expected}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// The formats that it could have, by their names, and the fix.
        expected: String,
    },
    /// A file that must hold at least one record holds none.
    #[error("`{}` holds no {expected}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What it should hold, in the plural.
        expected: &'static str,
    },
    /// A field that was named is in no record.
    #[error(
        "no record of `{}` has the field {fields}, and what it should hold would be lost. Fields there that are not stored: {others}. Name one that is there, or leave the option out",
        path.display()
    )]
    UnseenFields {
        /// The corpus, or its only file.
        path: PathBuf,
        /// The fields that were named.
        fields: String,
        /// Fields of the records that nothing reads.
        others: String,
    },
    /// A BEIR folder was expected where nothing is.
    #[error("no BEIR folder at `{}`: expected corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv", path.display())]
    NoBeirFolder {
        /// The path that was given.
        path: PathBuf,
    },
    /// A folder was expected.
    #[error("`{}` is not a folder: expected a BEIR folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv", path.display())]
    NotAFolder {
        /// The path that was given.
        path: PathBuf,
    },
    /// A BEIR folder lacks one of its files.
    #[error("`{}` has no {name}: expected {name}, {name}.gz or {name}.zst", folder.display())]
    MissingFile {
        /// The BEIR folder.
        folder: PathBuf,
        /// The file's plain name.
        name: String,
    },
    /// A BEIR folder has no judgements under this name.
    #[error("`{}` has no split `{split}`. The splits there: {}", folder.display(), listed(found))]
    MissingSplit {
        /// The BEIR folder.
        folder: PathBuf,
        /// The split asked for.
        split: String,
        /// The splits that exist.
        found: Vec<String>,
    },
    /// An identifier that a whitespace-separated TREC run cannot hold.
    #[error(
        "{what} `{key}` cannot be written to a TREC run: it is empty or contains whitespace. Use keys without whitespace"
    )]
    RunKey {
        /// `query` or `document`.
        what: &'static str,
        /// The identifier.
        key: String,
    },
    /// A score is not a number that can be ranked.
    #[error("the score of document `{key}` for query `{query}` is not finite: {score}")]
    RunScore {
        /// The query.
        query: String,
        /// The document.
        key: String,
        /// The score.
        score: f32,
    },
    /// An invalid embeddings directory.
    #[error("embeddings in `{}`: {problem}", dir.display())]
    Embeddings {
        /// The directory.
        dir: PathBuf,
        /// What is wrong.
        problem: EmbeddingsProblem,
    },
}

/// The text of [`Error::Flaws`].
struct FlawsMessage<'a> {
    path: &'a Path,
    total: u64,
    allowed: Option<u64>,
    first: &'a [Error],
    end: Option<&'a Error>,
}

impl fmt::Display for FlawsMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = if self.total == 1 { "bad record" } else { "bad records" };
        write!(f, "{} {records} in `{}`", self.total, self.path.display())?;
        if let Some(allowed) = self.allowed.filter(|allowed| *allowed > 0) {
            write!(f, ", and `--max-bad` allows {allowed}")?;
        }
        f.write_str(":")?;
        for flaw in self.first {
            write!(f, "\n  {flaw}")?;
        }
        let more = self.total - self.first.len() as u64;
        if more > 0 {
            write!(f, "\n  and {more} more")?;
        }
        if let Some(end) = self.end {
            write!(f, "\n  and nothing could be read after these: {end}")?;
        }
        match self.allowed {
            Some(_) => write!(f, "\nCorrect them, or skip them with `--max-bad {}`", self.total)?,
            None => f.write_str("\nCorrect them")?,
        }
        if more > 0 && self.allowed.is_some() {
            f.write_str("; `--rejects FILE` lists them all")?;
        }
        Ok(())
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
