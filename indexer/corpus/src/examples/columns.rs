//! Tab-separated examples: question, answer, negatives.
use std::borrow::Cow;

use super::example::{Passage, TrainingExample};
use super::pairs::{NEGATIVE_FIELDS, POSITIVE_FIELDS, QUESTION_FIELDS};
use crate::problem::CorpusProblem;
use crate::read::quoted_fields;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnRole {
    Question,
    Positive,
    Negative,
}

/// The columns of one file.
#[derive(Debug)]
pub(super) enum Roles {
    /// Question, answer, and any number of negatives.
    Plain,
    /// As a header line says; fields follow Python's `csv` module.
    Header(Vec<ExampleColumn>),
}

/// What a column of a header holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExampleColumn(ColumnRole);

impl Roles {
    /// The columns that a first line announces, if all its names are known.
    pub(super) fn from_header(line: &str) -> Option<Self> {
        let roles: Vec<ExampleColumn> = line.split('\t').map(role).collect::<Option<_>>()?;
        let count = |role| roles.iter().filter(|other| other.0 == role).count();
        (count(ColumnRole::Question) == 1 && count(ColumnRole::Positive) >= 1).then_some(Self::Header(roles))
    }

    /// Reads one line. Empty negatives at its end are left out: rows of a table may have fewer.
    pub(super) fn example(&self, line: &str) -> Result<TrainingExample, CorpusProblem> {
        let mut fields: Vec<Cow<'_, str>> = match self {
            Self::Plain => line.split('\t').map(Cow::Borrowed).collect(),
            Self::Header(_) => quoted_fields(line),
        };
        let role = |column: usize| match self {
            Self::Plain => [ColumnRole::Question, ColumnRole::Positive]
                .get(column)
                .copied()
                .or(Some(ColumnRole::Negative)),
            Self::Header(roles) => roles.get(column).map(|role| role.0),
        };
        while fields.len() > 2 && fields.last().is_some_and(|field| field.trim().is_empty()) {
            if role(fields.len() - 1) != Some(ColumnRole::Negative) {
                break;
            }
            fields.pop();
        }
        let expected = match self {
            Self::Plain => "2 or more between tabs: question<TAB>answer[<TAB>negative ...]".to_owned(),
            Self::Header(roles) => format!("{} between tabs, as the header has", roles.len()),
        };
        if fields.len() < 2 || (0..fields.len()).any(|column| role(column).is_none()) {
            return Err(CorpusProblem::Columns {
                expected,
                got: fields.len(),
            });
        }
        let mut example = TrainingExample::default();
        for (column, field) in fields.into_iter().enumerate() {
            match role(column) {
                Some(ColumnRole::Question) => example.question = field.into_owned(),
                Some(ColumnRole::Positive) => example.positives.push(Passage::from_text(field)),
                _ => example.negatives.push(Passage::from_text(field)),
            }
        }
        Ok(example)
    }
}

fn role(name: &str) -> Option<ExampleColumn> {
    let name = name.trim().to_ascii_lowercase();
    let numbered = name
        .strip_prefix("negative_")
        .is_some_and(|number| number.parse::<u32>().is_ok());
    let is = |names: &[&str]| names.contains(&name.as_str());
    if is(QUESTION_FIELDS) {
        Some(ExampleColumn(ColumnRole::Question))
    } else if is(POSITIVE_FIELDS) {
        Some(ExampleColumn(ColumnRole::Positive))
    } else if numbered || is(NEGATIVE_FIELDS) {
        Some(ExampleColumn(ColumnRole::Negative))
    } else {
        None
    }
}
