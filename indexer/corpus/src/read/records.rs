//! The records of one file, whatever its format.
use std::path::Path;

use serde_json::{Map, Value};

use super::ReadOptions;
use super::jsonl::{self, JsonRecord, Written};
use super::lines::InputLines;
use super::options::{CorpusFormat, ending};
use super::parquet::ParquetRows;
use super::sections::Section;
use super::text_file::TextFile;
use super::trec::{Numbered, TrecDocuments};
use super::tsv::Columns;
use super::unseen::UnseenFields;
use super::unstored::Unstored;
use crate::error::Error;
use crate::problem::CorpusProblem;

/// A file that is being read.
#[derive(Debug)]
pub(super) enum CorpusRecords {
    Jsonl(InputLines),
    /// `None` until the first line was seen.
    Tsv(InputLines, Option<Columns>),
    Trec(TrecDocuments),
    Parquet(Box<ParquetRows>),
    Text(Box<TextFile>),
}

impl CorpusRecords {
    /// Opens a file of a format that is known, in a corpus whose folder is `root`.
    pub(super) fn open(path: &Path, format: CorpusFormat, root: &Path, options: &ReadOptions) -> Result<Self, Error> {
        let lines = || InputLines::open(path, options.max_text_bytes);
        if options.metadata_only && !matches!(format, CorpusFormat::Jsonl) {
            return Err(Error::UnknownFormat { path: path.to_owned() });
        }
        Ok(match format {
            CorpusFormat::Tsv => Self::Tsv(lines()?, None),
            CorpusFormat::Trec => Self::Trec(TrecDocuments::new(lines()?, options.max_text_bytes)),
            CorpusFormat::Parquet => Self::Parquet(Box::new(ParquetRows::open(path, &options.fields)?)),
            CorpusFormat::Markdown | CorpusFormat::Text => {
                Self::Text(Box::new(TextFile::open(path, format, root, options.max_text_bytes)?))
            }
            CorpusFormat::Auto | CorpusFormat::Jsonl | CorpusFormat::Beir => Self::Jsonl(lines()?),
        })
    }

    /// The next record; nothing at the end.
    pub(super) fn advance(
        &mut self,
        options: &ReadOptions,
        unstored: &mut Unstored,
        unseen: &mut UnseenFields,
    ) -> Result<Option<Numbered>, Error> {
        match self {
            Self::Jsonl(lines) => Ok(lines.advance()?.map(|(line, text)| {
                let parsed = JsonRecord::parse(text).and_then(|record| {
                    unseen.see(&record.0);
                    let written = Written::Line(text);
                    if options.metadata_only {
                        jsonl::metadata(record, &options.fields, written)
                    } else {
                        jsonl::document(record, &options.fields, written, unstored)
                    }
                });
                (line, parsed)
            })),
            Self::Tsv(lines, columns) => loop {
                let Some((line, text)) = lines.advance()? else {
                    return Ok(None);
                };
                if columns.is_none() {
                    *columns = Columns::from_header(text);
                    if columns.is_some() {
                        continue;
                    }
                }
                let document = columns.get_or_insert_with(Columns::plain).document(text);
                return Ok(Some((
                    line,
                    document.map_err(|problem| maybe_text(problem, lines.path())),
                )));
            },
            Self::Trec(documents) => documents.advance(),
            Self::Text(file) => file.advance(unstored),
            Self::Parquet(rows) => {
                let Some((row, fields)) = rows.advance()? else {
                    return Ok(None);
                };
                rows.unstored().iter().for_each(|name| unstored.add(&only(name)));
                unseen.see_columns(rows.stored());
                let written = Written::Column(rows.metadata_text());
                let document = |fields| {
                    unseen.see(&fields);
                    jsonl::document(JsonRecord(fields), &options.fields, written, unstored)
                };
                Ok(Some((row, fields.and_then(document))))
            }
        }
    }

    /// An error at a line or row.
    pub(super) fn refuse(&self, line: u64, problem: CorpusProblem) -> Error {
        Error::Line {
            path: self.path().to_owned(),
            line,
            problem,
        }
    }

    /// Sections of the document that was returned last, in formats that have headings.
    pub(super) fn sections(&self) -> &[Section] {
        match self {
            Self::Text(file) => file.sections(),
            Self::Jsonl(_) | Self::Tsv(..) | Self::Trec(_) | Self::Parquet(_) => &[],
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Jsonl(lines) | Self::Tsv(lines, _) => lines.path(),
            Self::Trec(documents) => documents.lines().path(),
            Self::Parquet(rows) => rows.path(),
            Self::Text(file) => file.path(),
        }
    }

    /// Bytes read of the file on disk.
    pub(super) fn bytes_read(&self) -> u64 {
        match self {
            Self::Jsonl(lines) | Self::Tsv(lines, _) => lines.bytes_read(),
            Self::Trec(documents) => documents.lines().bytes_read(),
            Self::Parquet(rows) => rows.bytes_read(),
            Self::Text(file) => file.bytes_read(),
        }
    }

    /// What else a user should hear of the file, at its end.
    pub(super) fn warning(&self) -> Option<String> {
        match self {
            Self::Trec(documents) => documents.warning(),
            Self::Jsonl(_) | Self::Tsv(..) | Self::Parquet(_) | Self::Text(_) => None,
        }
    }

    /// Whether the text is compressed on disk.
    pub(super) fn is_packed(&self) -> bool {
        match self {
            Self::Jsonl(lines) | Self::Tsv(lines, _) => lines.is_packed(),
            Self::Trec(documents) => documents.lines().is_packed(),
            Self::Parquet(_) => true,
            Self::Text(file) => file.is_packed(),
        }
    }
}

/// A field by its name alone.
fn only(name: &str) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), Value::Bool(true))])
}

/// Says of a file that may be no columns how it is read as text.
fn maybe_text(problem: CorpusProblem, path: &Path) -> CorpusProblem {
    match problem {
        CorpusProblem::Columns { expected, got } if ending(path).is_some_and(|ending| ending == "txt") => {
            CorpusProblem::Columns {
                expected: format!("{expected}, or `--format text` for a file that is one document"),
                got,
            }
        }
        other => other,
    }
}
