//! What the reader of any format offers of one file: its records as documents, one after another.

use std::fmt;
use std::path::Path;

use super::field_notes::FieldNotes;
use super::options::ReadOptions;
use super::sections::Section;
use crate::document::Document;
use crate::error::Error;
use crate::problem::CorpusProblem;

/// A record, and its line or row, from 1.
pub(super) type Numbered = (u64, Result<Document, CorpusProblem>);

/// A file, and how far it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceProgress<'a> {
    /// The file, or `standard input`.
    pub(super) path: &'a Path,
    /// Bytes read of it on disk.
    pub(super) bytes_read: u64,
    /// Whether the text is compressed on disk.
    pub(super) is_packed: bool,
}

/// A file that is being read.
pub(super) trait RecordSource: fmt::Debug + Send {
    /// The next record; nothing at the end.
    fn advance(&mut self, options: &ReadOptions, notes: &mut FieldNotes) -> Result<Option<Numbered>, Error>;

    /// How far the reading has come.
    fn progress(&self) -> SourceProgress<'_>;

    /// Sections of the document that was returned last, in formats that have headings.
    fn sections(&self) -> &[Section] {
        &[]
    }

    /// Whether its fields have the names that [`FieldNames`](super::FieldNames) may give.
    fn has_field_names(&self) -> bool {
        false
    }

    /// What else a user should hear of the file, at its end.
    fn warning(&self) -> Option<String> {
        None
    }
}
