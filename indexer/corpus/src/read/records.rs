//! The reader of a file by its format.

use std::path::Path;

use super::csv::CsvDocuments;
use super::format::{CorpusFormat, endings_of};
use super::input::InputStream;
use super::json_lines::JsonDocuments;
use super::lines::InputLines;
use super::options::ReadOptions;
use super::parquet::ParquetRows;
use super::record_source::RecordSource;
use super::text_file::{TextFile, TextForm};
use super::trec::TrecDocuments;
use super::tsv::TsvDocuments;
use crate::error::Error;

/// Opens a file of a format that is known, in a corpus whose folder is `root`.
pub(super) fn open(
    path: &Path,
    format: CorpusFormat,
    root: &Path,
    options: &ReadOptions,
) -> Result<Box<dyn RecordSource>, Error> {
    if options.metadata_only && format != CorpusFormat::Jsonl {
        return Err(Error::UnknownFormat {
            path: path.to_owned(),
            expected: format!(
                "JSON lines, of which alone metadata are read without texts. Give it a name ending in {}",
                endings_of(CorpusFormat::Jsonl)
            ),
        });
    }
    let lines = || InputLines::open(path, options.max_text_bytes);
    let text = |form| -> Result<Box<dyn RecordSource>, Error> {
        Ok(Box::new(TextFile::open(path, form, root, options.max_text_bytes)?))
    };
    Ok(match format {
        CorpusFormat::Auto | CorpusFormat::Jsonl | CorpusFormat::Beir => Box::new(JsonDocuments::new(lines()?)),
        CorpusFormat::Tsv => Box::new(TsvDocuments::new(lines()?)),
        CorpusFormat::Csv => Box::new(CsvDocuments::new(InputStream::open(path)?, options.max_text_bytes)),
        CorpusFormat::Trec => Box::new(TrecDocuments::new(lines()?, options.max_text_bytes)),
        CorpusFormat::Parquet => Box::new(ParquetRows::open(path, &options.fields)?),
        CorpusFormat::Markdown => text(TextForm::Markdown)?,
        CorpusFormat::Html => text(TextForm::Html)?,
        CorpusFormat::Text => text(TextForm::Plain)?,
    })
}
