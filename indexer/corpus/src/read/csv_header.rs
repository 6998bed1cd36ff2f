//! The header line of comma-separated values: which column is which field.

use super::jsonl::Names;
use super::missing_field::{alternatives, fields_there};
use super::options::ReadOptions;
use crate::problem::CorpusProblem;

/// Field of the metadata as an object of JSON.
const METADATA: &str = "metadata";

/// A column that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CsvColumn {
    /// Its place, from 0.
    pub(super) at: usize,
    pub(super) name: String,
    /// Whether it may be key, title or text, and its value counts though it is empty.
    pub(super) is_needed: bool,
}

impl CsvColumn {
    /// Whether it holds the metadata as an object of JSON.
    pub(super) fn is_metadata(&self) -> bool {
        self.name == METADATA
    }
}

/// The columns of a file.
#[derive(Debug)]
pub(super) struct CsvHeader {
    names: Vec<String>,
    stored: Vec<CsvColumn>,
}

impl CsvHeader {
    /// Refuses a first line that does not say where keys and texts are.
    pub(super) fn parse(names: &[&str], options: &ReadOptions) -> Result<Self, CorpusProblem> {
        let fields = Names::from_fields(&options.fields);
        // Spaces around a name are of no meaning.
        let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
        for (expected, option) in [(&fields.key, "--key-field"), (&fields.text, "--text-field")] {
            if !expected.iter().any(|name| names.contains(name)) {
                return Err(no_column(expected, option, &names));
            }
        }
        let is_needed = |name: &str| {
            let needed = [&fields.key, &fields.title, &fields.text];
            needed.into_iter().flatten().any(|needed| *needed == name)
        };
        let is_named = |name: &str| options.fields.metadata.iter().any(|named| named == name);
        let mut stored: Vec<CsvColumn> = Vec::new();
        for (at, name) in names.iter().copied().enumerate() {
            if !is_needed(name) && !is_named(name) && name != METADATA {
                continue;
            }
            if stored.iter().any(|column| column.name == name) {
                return Err(CorpusProblem::ColumnTwice {
                    column: name.to_owned(),
                });
            }
            stored.push(CsvColumn {
                at,
                name: name.to_owned(),
                is_needed: is_needed(name),
            });
        }
        Ok(Self {
            names: names.into_iter().map(str::to_owned).collect(),
            stored,
        })
    }

    /// The names of all columns.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The columns that are read.
    pub(super) fn stored(&self) -> &[CsvColumn] {
        &self.stored
    }

    /// The names of columns that are not read. One without a name is that of row numbers, as pandas writes them.
    pub(super) fn unstored(&self) -> impl Iterator<Item = &str> {
        let is_stored = |name: &str| self.stored.iter().any(|column| column.name == name);
        let names = self.names.iter().map(String::as_str);
        names.filter(move |name| !name.is_empty() && !is_stored(name))
    }

    /// The names of the first columns, between commas.
    pub(super) fn listed(&self) -> String {
        fields_there(self.names.iter().map(String::as_str))
    }
}

/// The fault where no column has one of the expected names.
fn no_column(expected: &[&str], option: &str, names: &[&str]) -> CorpusProblem {
    let separator = [("a semicolon", ';'), ("a tab", '\t')]
        .into_iter()
        .find(|(_, separator)| names.len() == 1 && names.concat().contains(*separator));
    let fix = match separator {
        Some((separator, _)) => format!("Separate columns by commas, not by {separator}"),
        None => format!("Let the first line name the columns, such as id,title,text, or name this one with `{option}`"),
    };
    CorpusProblem::NoColumn {
        expected: alternatives(expected),
        got: fields_there(names.iter().copied()),
        fix,
    }
}
