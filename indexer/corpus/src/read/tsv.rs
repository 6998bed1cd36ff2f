//! Tab-separated columns: `key<TAB>text` as MS MARCO writes it, or the columns that a header names.
//!
//! Without a header a line is a key, a tab and the text, taken literally. A first line made only of known column names
//! is a header: it gives the order, may add a title, and its fields follow the quoting of Python's `csv` module, by
//! which DPR's `psgs_w100.tsv` (`id`, `text`, `title`) was written: a field between double quotes may hold tabs, and a
//! doubled quote in it is one quote. A quote that is never closed is taken literally.
use std::borrow::Cow;
use std::path::Path;

use super::field_notes::FieldNotes;
use super::format::ending;
use super::lines::InputLines;
use super::options::ReadOptions;
use super::record_source::{Numbered, RecordSource, SourceProgress};
use crate::document::Document;
use crate::error::Error;
use crate::problem::CorpusProblem;

/// The role of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TsvColumn {
    Key,
    Text,
    Title,
}

fn known(name: &str) -> Option<TsvColumn> {
    match name.trim().to_ascii_lowercase().as_str() {
        "id" | "_id" | "docid" | "pid" | "qid" | "key" => Some(TsvColumn::Key),
        "text" | "contents" | "passage" | "query" => Some(TsvColumn::Text),
        "title" => Some(TsvColumn::Title),
        _ => None,
    }
}

/// The columns of one file.
#[derive(Debug)]
pub(crate) struct Columns {
    order: Vec<TsvColumn>,
    header: bool,
}

impl Columns {
    /// The columns that `first_line` announces, if it is a header.
    pub(crate) fn from_header(first_line: &str) -> Option<Self> {
        let order: Vec<TsvColumn> = first_line.split('\t').map(known).collect::<Option<_>>()?;
        let count = |column| order.iter().filter(|&&other| other == column).count();
        let intact = count(TsvColumn::Key) == 1 && count(TsvColumn::Text) == 1 && count(TsvColumn::Title) <= 1;
        intact.then_some(Self { order, header: true })
    }

    /// `key<TAB>text`.
    pub(crate) fn plain() -> Self {
        Self {
            order: vec![TsvColumn::Key, TsvColumn::Text],
            header: false,
        }
    }

    /// Reads one line.
    pub(crate) fn document(&self, line: &str) -> Result<Document, CorpusProblem> {
        let fields: Vec<Cow<'_, str>> = if self.header {
            quoted_fields(line)
        } else {
            line.split('\t').map(Cow::Borrowed).collect()
        };
        if fields.len() != self.order.len() {
            return Err(CorpusProblem::Columns {
                expected: self.spelled_out(),
                got: fields.len(),
            });
        }
        let mut document = Document::default();
        for (column, field) in self.order.iter().zip(fields) {
            match column {
                TsvColumn::Key => document.key = field.into_owned(),
                TsvColumn::Text => document.text = field.into_owned(),
                TsvColumn::Title => document.title = field.into_owned(),
            }
        }
        Ok(document)
    }

    fn spelled_out(&self) -> String {
        let names: Vec<&str> = self
            .order
            .iter()
            .map(|column| match column {
                TsvColumn::Key => "key",
                TsvColumn::Text => "text",
                TsvColumn::Title => "title",
            })
            .collect();
        let hint = if self.header {
            ""
        } else {
            " (other columns need a header line such as id<TAB>text<TAB>title)"
        };
        format!("{} between tabs: {}{hint}", names.len(), names.join("<TAB>"))
    }
}

/// The documents of one file.
#[derive(Debug)]
pub(super) struct TsvDocuments {
    lines: InputLines,
    /// None until the first line was seen.
    columns: Option<Columns>,
}

impl TsvDocuments {
    pub(super) fn new(lines: InputLines) -> Self {
        Self { lines, columns: None }
    }
}

impl RecordSource for TsvDocuments {
    fn advance(&mut self, _: &ReadOptions, _: &mut FieldNotes) -> Result<Option<Numbered>, Error> {
        loop {
            let Some((line, text)) = self.lines.advance()? else {
                return Ok(None);
            };
            if self.columns.is_none() {
                self.columns = Columns::from_header(text);
                if self.columns.is_some() {
                    continue;
                }
            }
            let document = self.columns.get_or_insert_with(Columns::plain).document(text);
            let document = document.map_err(|problem| maybe_text(problem, self.lines.path()));
            return Ok(Some((line, document)));
        }
    }

    fn progress(&self) -> SourceProgress<'_> {
        self.lines.progress()
    }
}

/// Says of a file that may be no columns how it is read as text.
fn maybe_text(problem: CorpusProblem, path: &Path) -> CorpusProblem {
    match problem {
        CorpusProblem::Columns { .. } if ending(path).is_some_and(|ending| ending == "txt") => CorpusProblem::Advised {
            problem: Box::new(problem),
            advice: "If each file is a document, use `--format text`".to_owned(),
        },
        other => other,
    }
}

/// The columns of one line by the rules of Python's `csv` module.
pub(crate) fn quoted_fields(line: &str) -> Vec<Cow<'_, str>> {
    let mut fields = Vec::with_capacity(3);
    let mut rest = Some(line);
    while let Some(text) = rest {
        let (field, after) = match (quoted_field(text), text.split_once('\t')) {
            (Some((field, after)), _) => (Cow::Owned(field), after),
            (None, Some((field, after))) => (Cow::Borrowed(field), Some(after)),
            (None, None) => (Cow::Borrowed(text), None),
        };
        fields.push(field);
        rest = after;
    }
    fields
}

/// The quoted field at the start of `text`, unquoted, and what follows its tab; `None` where there is none or it never
/// ends.
fn quoted_field(text: &str) -> Option<(String, Option<&str>)> {
    let body = text.strip_prefix('"')?;
    let mut field = String::new();
    let mut rest = body;
    loop {
        let (before, after) = rest.split_once('"')?;
        field.push_str(before);
        if let Some(after_pair) = after.strip_prefix('"') {
            field.push('"');
            rest = after_pair;
        } else if after.is_empty() {
            return Some((field, None));
        } else {
            return after.strip_prefix('\t').map(|after| (field, Some(after)));
        }
    }
}
