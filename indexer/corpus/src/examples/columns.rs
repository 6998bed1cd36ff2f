//! Tab-separated examples: question, answer, negatives.
use std::borrow::Cow;

use super::example::{Example, Passage};
use super::pairs::{NEGATIVE_FIELDS, POSITIVE_FIELDS, QUESTION_FIELDS};
use crate::problem::Problem;
use crate::read::quoted_fields;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
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
    Header(Vec<Column>),
}

/// What a column of a header holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column(Role);

impl Roles {
    /// The columns that a first line announces, if all its names are known.
    pub(super) fn from_header(line: &str) -> Option<Self> {
        let roles: Vec<Column> = line.split('\t').map(role).collect::<Option<_>>()?;
        let count = |role| roles.iter().filter(|other| other.0 == role).count();
        (count(Role::Question) == 1 && count(Role::Positive) >= 1).then_some(Self::Header(roles))
    }

    /// Reads one line. Empty negatives at its end are left out: rows of a table may have fewer.
    pub(super) fn example(&self, line: &str) -> Result<Example, Problem> {
        let mut fields: Vec<Cow<'_, str>> = match self {
            Self::Plain => line.split('\t').map(Cow::Borrowed).collect(),
            Self::Header(_) => quoted_fields(line),
        };
        let role = |column: usize| match self {
            Self::Plain => [Role::Question, Role::Positive].get(column).copied().or(Some(Role::Negative)),
            Self::Header(roles) => roles.get(column).map(|role| role.0),
        };
        while fields.len() > 2 && fields.last().is_some_and(|field| field.trim().is_empty()) {
            if role(fields.len() - 1) != Some(Role::Negative) {
                break;
            }
            fields.pop();
        }
        let expected = match self {
            Self::Plain => "2 or more between tabs: question<TAB>answer[<TAB>negative ...]".to_owned(),
            Self::Header(roles) => format!("{} between tabs, as the header has", roles.len()),
        };
        if fields.len() < 2 || (0..fields.len()).any(|column| role(column).is_none()) {
            return Err(Problem::Columns { expected, got: fields.len() });
        }
        let mut example = Example::default();
        for (column, field) in fields.into_iter().enumerate() {
            match role(column) {
                Some(Role::Question) => example.question = field.into_owned(),
                Some(Role::Positive) => example.positives.push(Passage::of(field)),
                _ => example.negatives.push(Passage::of(field)),
            }
        }
        Ok(example)
    }
}

fn role(name: &str) -> Option<Column> {
    let name = name.trim().to_ascii_lowercase();
    let numbered = name.strip_prefix("negative_").is_some_and(|number| number.parse::<u32>().is_ok());
    let is = |names: &[&str]| names.contains(&name.as_str());
    if is(QUESTION_FIELDS) {
        Some(Column(Role::Question))
    } else if is(POSITIVE_FIELDS) {
        Some(Column(Role::Positive))
    } else if numbered || is(NEGATIVE_FIELDS) {
        Some(Column(Role::Negative))
    } else {
        None
    }
}
