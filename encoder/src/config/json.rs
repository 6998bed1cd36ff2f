//! Reading small JSON files of a model directory, with errors that name the file and the field.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dyad_files::is_lfs_pointer;
use serde_json::{Map, Value};

use crate::error::Error;

/// The largest size that a file may name.
const LARGEST_SIZE: usize = 1 << 30;

/// An object read from a file of a model directory.
#[derive(Debug)]
pub(crate) struct JsonFile {
    path: PathBuf,
    fields: Map<String, Value>,
}

impl JsonFile {
    /// Reads `path`; `None` where it does not exist.
    pub(crate) fn open_if_present(path: &Path) -> Result<Option<Self>, Error> {
        read_value(path)?
            .map(|value| Self::new(path.to_owned(), value))
            .transpose()
    }

    /// The JSON content of the file at `path`.
    pub(crate) fn new(path: PathBuf, value: Value) -> Result<Self, Error> {
        match value {
            Value::Object(fields) => Ok(Self { path, fields }),
            other => {
                let (expected, got) = ("a JSON object".into(), shortened(&other));
                Err(Error::Field {
                    path,
                    field: "(whole file)",
                    expected,
                    got,
                })
            }
        }
    }

    /// The fields, in their order.
    pub(crate) fn into_fields(self) -> Map<String, Value> {
        self.fields
    }

    /// The same with these fields in place of its own.
    pub(crate) fn with(mut self, overrides: Map<String, Value>) -> Self {
        self.fields.extend(overrides);
        self
    }

    /// An object inside; empty where it is absent.
    pub(crate) fn object(&self, field: &'static str) -> Result<Map<String, Value>, Error> {
        match self.get(field) {
            None => Ok(Map::new()),
            Some(Value::Object(fields)) => Ok(fields.clone()),
            Some(_) => Err(self.wrong(field, "an object")),
        }
    }

    /// Names of all fields.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads `path`, which has to be there.
    pub(crate) fn required(path: &Path) -> Result<Self, Error> {
        let fix = "Fetch the whole model directory again";
        Self::open_if_present(path)?.ok_or_else(|| Error::MissingFile {
            path: path.to_owned(),
            fix,
        })
    }

    /// The field, with `null` counting as absent.
    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// A whole number that fits `usize`, or nothing.
    pub(crate) fn count(&self, field: &'static str) -> Result<Option<usize>, Error> {
        self.read(field, "a whole number", whole_number)
    }

    /// A whole number from 1 to [`LARGEST_SIZE`]: a size, and no model's size is so large that products of two do not
    /// fit.
    pub(crate) fn positive(&self, field: &'static str) -> Result<usize, Error> {
        match self.count(field)? {
            Some(number) if (1..=LARGEST_SIZE).contains(&number) => Ok(number),
            _ => Err(self.wrong(field, &format!("a whole number from 1 to {LARGEST_SIZE}"))),
        }
    }

    pub(crate) fn number(&self, field: &'static str) -> Result<Option<f64>, Error> {
        self.read(field, "a number", Value::as_f64)
    }

    pub(crate) fn flag(&self, field: &'static str) -> Result<Option<bool>, Error> {
        self.read(field, "`true` or `false`", Value::as_bool)
    }

    pub(crate) fn text(&self, field: &'static str) -> Result<Option<&str>, Error> {
        match self.get(field) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or_else(|| self.wrong(field, "a string")),
        }
    }

    /// The error that says what the field should be.
    pub(crate) fn wrong(&self, field: &'static str, expected: &str) -> Error {
        let got = self.fields.get(field).map_or_else(|| "nothing".into(), shortened);
        Error::Field {
            path: self.path.clone(),
            field,
            expected: expected.into(),
            got,
        }
    }

    /// The error that says what a value inside the field should be.
    pub(crate) fn wrong_inside(&self, field: &'static str, expected: &str, got: &Value) -> Error {
        Error::Field {
            path: self.path.clone(),
            field,
            expected: expected.into(),
            got: shortened(got),
        }
    }

    /// The error for a valid value that this crate cannot run.
    pub(crate) fn unsupported(&self, what: &'static str, supported: &'static str, got: &str) -> Error {
        Error::Unsupported {
            path: self.path.clone(),
            what,
            supported,
            got: got.into(),
        }
    }

    fn read<T>(
        &self,
        field: &'static str,
        expected: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        match self.get(field) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| self.wrong(field, expected)),
        }
    }
}

/// Any JSON from a file; `None` where it does not exist.
pub(crate) fn read_value(path: &Path) -> Result<Option<Value>, Error> {
    let bytes = match fs_err::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if is_lfs_pointer(&bytes) {
        return Err(Error::LfsPointer { path: path.to_owned() });
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|source| Error::Json {
        path: path.to_owned(),
        source,
    })
}

fn shortened(value: &Value) -> String {
    const SHOWN: usize = 80;
    let text = value.to_string();
    if text.chars().count() <= SHOWN {
        text
    } else {
        format!("{}...", text.chars().take(SHOWN).collect::<String>())
    }
}

fn whole_number(value: &Value) -> Option<usize> {
    // Tokenizers without a limit write 1e30 as their longest input.
    let number = value
        .as_u64()
        .or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(|x| x as u64))?;
    usize::try_from(number).ok()
}
