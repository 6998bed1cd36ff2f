//! Comma-separated values by RFC 4180 with a header line, whose columns have the names of JSON's fields.
//!
//! A field between double quotes may hold commas, line breaks, and quotes, which are doubled there. A record that has
//! several lines is named by the first. Values are texts; an empty one of a column of the metadata is absent, as a null
//! is in JSON. A column `metadata` holds objects of JSON.

use std::ops::Range;

use serde_json::{Map, Value};

use super::csv_header::CsvHeader;
use super::csv_record::{CsvRecords, RawRecord};
use super::field_notes::FieldNotes;
use super::input::InputStream;
use super::jsonl::{self, JsonRecord, Written};
use super::options::ReadOptions;
use super::record_source::{Numbered, RecordSource, SourceProgress};
use crate::document::Document;
use crate::error::Error;
use crate::problem::CorpusProblem;

/// The documents of one file.
#[derive(Debug)]
pub(super) struct CsvDocuments {
    records: CsvRecords,
    /// None until the first line was read.
    header: Option<CsvHeader>,
}

impl CsvDocuments {
    /// Over a file that is open, for records whose text may hold `max_text_bytes`.
    pub(super) fn new(input: InputStream, max_text_bytes: usize) -> Self {
        Self {
            records: CsvRecords::new(input, max_text_bytes),
            header: None,
        }
    }

    /// Reads the header line, where that is still to come; nothing in a file without a line.
    fn read_header(&mut self, options: &ReadOptions, notes: &mut FieldNotes) -> Result<(), Error> {
        let Some(RawRecord { line, content }) = self.records.advance()? else {
            return Ok(());
        };
        let header = content.and_then(|fields| CsvHeader::parse(&texts(&self.records, &fields, None)?, options));
        let header = header.map_err(|problem| Error::Header {
            path: self.records.path().to_owned(),
            line,
            problem,
        })?;
        header.unstored().for_each(|name| notes.unstored.add_name(name));
        notes.unseen.see_columns(header.names());
        self.header = Some(header);
        Ok(())
    }
}

impl RecordSource for CsvDocuments {
    fn advance(&mut self, options: &ReadOptions, notes: &mut FieldNotes) -> Result<Option<Numbered>, Error> {
        if self.header.is_none() {
            self.read_header(options, notes)?;
        }
        let Some(header) = &self.header else {
            return Ok(None);
        };
        let Some(RawRecord { line, content }) = self.records.advance()? else {
            return Ok(None);
        };
        let document = content.and_then(|fields| {
            let texts = texts(&self.records, &fields, Some(header))?;
            document(header, &texts, options, notes)
        });
        Ok(Some((line, document)))
    }

    fn progress(&self) -> SourceProgress<'_> {
        self.records.progress()
    }

    fn has_field_names(&self) -> bool {
        true
    }
}

/// The fields of a record as texts.
fn texts<'a>(
    records: &'a CsvRecords,
    fields: &[Range<usize>],
    header: Option<&CsvHeader>,
) -> Result<Vec<&'a str>, CorpusProblem> {
    let text = |(at, field): (usize, &Range<usize>)| {
        std::str::from_utf8(records.field(field)).map_err(|error| CorpusProblem::ColumnNotUtf8 {
            column: match header.and_then(|header| header.names().get(at)) {
                Some(name) => format!("column `{name}`"),
                None => format!("column {}", at + 1),
            },
            offset: error.valid_up_to(),
        })
    };
    fields.iter().enumerate().map(text).collect()
}

/// A record as a document, by the rules of JSON's fields.
fn document(
    header: &CsvHeader,
    texts: &[&str],
    options: &ReadOptions,
    notes: &mut FieldNotes,
) -> Result<Document, CorpusProblem> {
    if texts.len() != header.names().len() {
        return Err(CorpusProblem::Columns {
            expected: format!(
                "{} between commas, as the header has ({})",
                header.names().len(),
                header.listed()
            ),
            got: texts.len(),
        });
    }
    let mut record = Map::new();
    let mut metadata = None;
    for column in header.stored() {
        let text = texts.get(column.at).copied().unwrap_or_default();
        if column.is_metadata() && text.trim_start().starts_with('{') {
            let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| CorpusProblem::Json {
                message: format!("column `metadata`: {}", jsonl::message(&error)),
            })?;
            metadata = Some(text);
            record.insert(column.name.clone(), Value::Object(object));
        } else if column.is_needed || !text.is_empty() {
            record.insert(column.name.clone(), Value::from(text));
        }
    }
    let written = Written::Column(metadata);
    jsonl::document(JsonRecord(record), &options.fields, written, &mut notes.unstored)
}
