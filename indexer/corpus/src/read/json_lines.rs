//! A file with one JSON object per line, as documents.

use super::field_notes::FieldNotes;
use super::jsonl::{self, JsonRecord, Written};
use super::lines::InputLines;
use super::options::ReadOptions;
use super::record_source::{Numbered, RecordSource, SourceProgress};
use crate::error::Error;

/// The documents of one file.
#[derive(Debug)]
pub(super) struct JsonDocuments {
    lines: InputLines,
}

impl JsonDocuments {
    pub(super) fn new(lines: InputLines) -> Self {
        Self { lines }
    }
}

impl RecordSource for JsonDocuments {
    fn advance(&mut self, options: &ReadOptions, notes: &mut FieldNotes) -> Result<Option<Numbered>, Error> {
        let Some((line, text)) = self.lines.advance()? else {
            return Ok(None);
        };
        let document = |record: JsonRecord| {
            notes.unseen.see(&record.0);
            let written = Written::Line(text);
            if options.metadata_only {
                jsonl::metadata(record, &options.fields, written)
            } else {
                jsonl::document(record, &options.fields, written, &mut notes.unstored)
            }
        };
        Ok(Some((line, JsonRecord::parse(text).and_then(document))))
    }

    fn progress(&self) -> SourceProgress<'_> {
        self.lines.progress()
    }

    fn has_field_names(&self) -> bool {
        true
    }
}
