//! Parquet files as records: rows of named columns, read row group by row group. Columns that are no field are not
//! read.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyad_files::is_lfs_pointer_file;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde_json::{Map, Number, Value};

use super::field_notes::FieldNotes;
use super::jsonl::{self, JsonRecord, Names, Written};
use super::missing_field::fields_there;
use super::options::{FieldNames, ReadOptions};
use super::record_source::{Numbered, RecordSource, SourceProgress};
use crate::error::Error;
use crate::problem::CorpusProblem;

/// Most characters of what the reader says is wrong: it may hold a whole value.
const TOLD_CHARS: usize = 200;

/// A row as named values, and its number, from 1.
type NumberedFields = (u64, Result<Map<String, Value>, CorpusProblem>);

/// The rows of one file.
pub(super) struct ParquetRows {
    path: PathBuf,
    rows: RowIter<'static>,
    row: u64,
    total_rows: u64,
    file_bytes: u64,
    /// Names of columns that are read.
    stored: Vec<String>,
    /// Names of columns that are not read.
    unstored: Vec<String>,
    failed: bool,
    /// The column `metadata` of the last row, where it is JSON as text.
    metadata_text: Option<String>,
}

impl std::fmt::Debug for ParquetRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetRows")
            .field("path", &self.path)
            .field("row", &self.row)
            .finish_non_exhaustive()
    }
}

impl ParquetRows {
    pub(super) fn open(path: &Path, fields: &FieldNames) -> Result<Self, Error> {
        if is_lfs_pointer_file(path)? {
            return Err(Error::LfsPointer { path: path.to_owned() });
        }
        let file = fs_err::File::open(path)?.into_file();
        let file_bytes = file.metadata()?.len();
        let broken = |reason: String| Error::Read {
            path: path.to_owned(),
            line: 0,
            reason: std::io::Error::other(format!("not a Parquet file that can be read: {reason}")),
        };
        let names = Names::from_fields(fields);
        let wanted: Vec<&str> = [&names.key, &names.title, &names.text]
            .into_iter()
            .flatten()
            .copied()
            .chain(["metadata"])
            .chain(fields.metadata.iter().map(String::as_str))
            .collect();
        let opened = caught(|| {
            let reader = SerializedFileReader::new(file)?;
            let metadata = reader.metadata().file_metadata();
            let (schema, rows) = (metadata.schema().clone(), metadata.num_rows());
            let (kept, left): (Vec<_>, Vec<_>) = schema
                .get_fields()
                .iter()
                .cloned()
                .partition(|column| wanted.contains(&column.name()));
            let kept: Vec<Arc<Type>> = kept;
            let (stored, unstored) = (column_names(&kept), column_names(&left));
            let projection = Type::group_type_builder(schema.name()).with_fields(kept).build()?;
            let rows_of = RowIter::from_file_into(Box::new(reader)).project(Some(projection))?;
            Ok((rows_of, u64::try_from(rows).unwrap_or_default(), stored, unstored))
        });
        let (rows, total_rows, stored, unstored) = opened.map_err(broken)?;
        Ok(Self {
            path: path.to_owned(),
            rows,
            row: 0,
            total_rows,
            file_bytes,
            stored,
            unstored,
            failed: false,
            metadata_text: None,
        })
    }

    /// The next row as named values, with its number from 1; nothing at the end. A file that turns out to be damaged
    /// ends the reading.
    fn next_row(&mut self) -> Result<Option<NumberedFields>, Error> {
        if self.failed {
            return Ok(None);
        }
        let rows = &mut self.rows;
        match caught(|| rows.next().transpose()) {
            Ok(None) => Ok(None),
            Ok(Some(row)) => {
                self.row += 1;
                let mut fields = row.get_column_iter();
                self.metadata_text = fields
                    .find_map(|(name, field)| json_text(name, field))
                    .map(str::to_owned);
                Ok(Some((self.row, columns(row))))
            }
            Err(reason) => {
                self.failed = true;
                let reason: String = reason.chars().take(TOLD_CHARS).collect();
                let reason = std::io::Error::other(format!(
                    "row {} of the Parquet file cannot be read: {reason}",
                    self.row + 1
                ));
                Err(Error::Read {
                    path: self.path.clone(),
                    line: self.row,
                    reason,
                })
            }
        }
    }

    /// Lists the columns that are there where one is missing.
    fn with_columns(&self, problem: CorpusProblem) -> CorpusProblem {
        match problem {
            CorpusProblem::MissingField { .. } if !self.unstored.is_empty() => CorpusProblem::Advised {
                problem: Box::new(problem),
                advice: format!(
                    "Other columns are {}: name the one that is meant with `--key-field` or `--text-field`",
                    fields_there(self.unstored.iter().map(String::as_str))
                ),
            },
            other => other,
        }
    }

    /// The file's size by the share of rows that were read.
    fn bytes_read(&self) -> u64 {
        let share = self.row as f64 / self.total_rows.max(1) as f64;
        (self.file_bytes as f64 * share.min(1.0)) as u64
    }
}

impl RecordSource for ParquetRows {
    fn advance(&mut self, options: &ReadOptions, notes: &mut FieldNotes) -> Result<Option<Numbered>, Error> {
        let Some((row, fields)) = self.next_row()? else {
            return Ok(None);
        };
        self.unstored.iter().for_each(|name| notes.unstored.add_name(name));
        notes.unseen.see_columns(&self.stored);
        let written = Written::Column(self.metadata_text.as_deref());
        let document = |fields| {
            notes.unseen.see(&fields);
            jsonl::document(JsonRecord(fields), &options.fields, written, &mut notes.unstored)
        };
        let document = fields.and_then(document).map_err(|problem| self.with_columns(problem));
        Ok(Some((row, document)))
    }

    fn progress(&self) -> SourceProgress<'_> {
        SourceProgress {
            path: &self.path,
            bytes_read: self.bytes_read(),
            is_packed: true,
        }
    }

    fn has_field_names(&self) -> bool {
        true
    }
}

/// The names of columns.
fn column_names(columns: &[Arc<Type>]) -> Vec<String> {
    columns.iter().map(|column| column.name().to_owned()).collect()
}

/// Damaged metadata end in failed assertions of the reader.
fn caught<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("its metadata contradict themselves".to_owned()),
    }
}

/// The text of a column that is an object of JSON.
fn json_text<'a>(name: &str, field: &'a Field) -> Option<&'a str> {
    match field {
        Field::Str(text) if name == "metadata" && text.trim_start().starts_with('{') => Some(text),
        _ => None,
    }
}

/// Columns by name; those that are null are absent. The text of an object of JSON is that object.
fn columns(row: Row) -> Result<Map<String, Value>, CorpusProblem> {
    let object = |(name, field): (&String, &Field)| {
        let object = serde_json::from_str(json_text(name, field)?).ok()?;
        Some((name.clone(), object))
    };
    let objects: Vec<(String, Value)> = row.get_column_iter().filter_map(object).collect();
    let mut columns = values(row)?;
    columns.extend(objects);
    Ok(columns)
}

/// Values of a row, or of a group in it, by name; those that are null are absent.
fn values(row: Row) -> Result<Map<String, Value>, CorpusProblem> {
    let columns = row
        .into_columns()
        .into_iter()
        .filter(|(_, field)| !matches!(field, Field::Null));
    columns.map(|(name, field)| Ok((name, json(field)?))).collect()
}

fn json(field: Field) -> Result<Value, CorpusProblem> {
    let float = |value: f64| Number::from_f64(value).map_or(Value::Null, Value::Number);
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => value.into(),
        Field::Byte(value) => value.into(),
        Field::Short(value) => value.into(),
        Field::Int(value) => value.into(),
        Field::Long(value) => value.into(),
        Field::UByte(value) => value.into(),
        Field::UShort(value) => value.into(),
        Field::UInt(value) => value.into(),
        Field::ULong(value) => value.into(),
        Field::Float16(value) => float(f64::from(f32::from(value))),
        Field::Float(value) => float(f64::from(value)),
        Field::Double(value) => float(value),
        Field::Str(text) => Value::String(text),
        // Texts of writers that do not say that they are.
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => Value::String(text.to_owned()),
            Err(error) => {
                return Err(CorpusProblem::NotUtf8 {
                    offset: error.valid_up_to(),
                });
            }
        },
        Field::Group(row) => Value::Object(values(row)?),
        Field::ListInternal(list) => Value::Array(
            list.elements()
                .iter()
                .map(|item| json(item.clone()))
                .collect::<Result<_, _>>()?,
        ),
        // Dates, times, decimals and maps as they are printed.
        other => Value::String(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_json_is_an_object_and_a_field_inside_of_others_stays_a_text() {
        let text = || ("metadata".to_owned(), Field::Str(r#"{"a": 1}"#.to_owned()));
        let row = Row::new(vec![
            text(),
            ("inside".to_owned(), Field::Group(Row::new(vec![text()]))),
        ]);
        let expected = serde_json::json!({ "metadata": { "a": 1 }, "inside": { "metadata": r#"{"a": 1}"# } });
        assert_eq!(Value::Object(columns(row).unwrap()), expected);
    }
}
