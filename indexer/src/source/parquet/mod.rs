//! Vectors that come from elsewhere as a Parquet file: a column of lists of float32, float64 or float16, and a column
//! of keys.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use half::f16;
use parquet::basic::LogicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};

use crate::error::Error;

pub(super) const HINT: &str = "Write it with a column `_id` of texts or integers and a column `vector` of lists of float32, none of \
                               them null, in the order of the documents";
/// Names of the column of keys, and of the column of vectors.
const KEY_NAMES: [&str; 3] = ["_id", "key", "id"];
const VECTOR_NAMES: [&str; 2] = ["vector", "embedding"];
/// Keys read at a time.
const KEYS: usize = 1 << 12;

/// One column, read through all row groups.
struct LeafColumn {
    path: PathBuf,
    file: SerializedFileReader<std::fs::File>,
    name: String,
    leaf: usize,
    /// Of a value that is there.
    levels: ColumnLevels,
    group: usize,
    reader: Option<ColumnReader>,
    /// Rows read.
    row: u64,
}

impl LeafColumn {
    /// The first column of these names, which holds lists or not; none where there is none.
    fn find(path: &Path, names: &[&str], lists: bool) -> Result<Option<Self>, Error> {
        let broken = |problem: RowProblem| refused(path, "file", problem.expected, problem.got);
        let file = fs_err::File::open(path)?.into_file();
        let file = caught(|| Ok(SerializedFileReader::new(file)?)).map_err(broken)?;
        let schema = file.metadata().file_metadata().schema_descr();
        let found = names.iter().find_map(|name| {
            let leaf = schema
                .columns()
                .iter()
                .position(|column| column.path().parts().first().is_some_and(|root| root == name))?;
            let column = schema.columns().get(leaf)?;
            let levels = ColumnLevels {
                defined: column.max_def_level(),
                repeated: column.max_rep_level(),
            };
            (levels.repeated == i16::from(lists)).then(|| ((*name).to_owned(), leaf, levels))
        });
        Ok(found.map(|(name, leaf, levels)| Self {
            path: path.to_owned(),
            file,
            name,
            leaf,
            levels,
            group: 0,
            reader: None,
            row: 0,
        }))
    }

    fn logical_type(&self) -> Option<&LogicalType> {
        self.file
            .metadata()
            .file_metadata()
            .schema_descr()
            .columns()
            .get(self.leaf)?
            .logical_type_ref()
    }

    fn refused(&self, RowProblem { expected, got, row }: RowProblem) -> Error {
        let row = self.row + row as u64 + 1;
        refused(&self.path, &format!("column `{}`, row {row}", self.name), expected, got)
    }

    /// Calls `read` with the column of each row group, until that has read some rows; false at the end.
    fn next_rows(
        &mut self,
        mut read: impl FnMut(&mut ColumnReader) -> Result<usize, RowProblem>,
    ) -> Result<bool, Error> {
        loop {
            if let Some(reader) = &mut self.reader {
                let rows = caught(|| read(reader)).map_err(|problem| self.refused(problem))?;
                self.row += rows as u64;
                if rows > 0 {
                    return Ok(true);
                }
            }
            if self.group >= self.file.num_row_groups() {
                return Ok(false);
            }
            let next = caught(|| Ok(self.file.get_row_group(self.group)?.get_column_reader(self.leaf)?));
            self.reader = Some(next.map_err(|problem| self.refused(problem))?);
            self.group += 1;
        }
    }
}

/// What is wrong with a row, counted from the first of those that are read.
struct RowProblem {
    expected: &'static str,
    got: String,
    row: usize,
}

impl From<ParquetError> for RowProblem {
    fn from(error: ParquetError) -> Self {
        Self {
            expected: "values that can be read",
            got: error.to_string(),
            row: 0,
        }
    }
}

const TEXTS_OR_INTEGERS: &str = "texts or integers";

fn wrong_type(expected: &'static str) -> RowProblem {
    RowProblem {
        expected,
        got: "another type".to_owned(),
        row: 0,
    }
}

/// Damaged metadata end in failed assertions of the reader.
fn caught<T>(work: impl FnOnce() -> Result<T, RowProblem>) -> Result<T, RowProblem> {
    let damaged = |_| {
        Err(RowProblem {
            expected: "a Parquet file that is whole",
            got: "damage".to_owned(),
            row: 0,
        })
    };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(damaged)
}

fn refused(path: &Path, part: &str, expected: &str, got: String) -> Error {
    Error::Vectors {
        path: path.to_owned(),
        part: part.to_owned(),
        expected: expected.to_owned(),
        got,
        hint: HINT,
    }
}

/// Rows of a column.
struct ColumnBlock<T> {
    rows: usize,
    values: Vec<T>,
    /// For each value whether a row begins with it: 0 where it does.
    repetition: Vec<i16>,
}

impl<T> ColumnBlock<T> {
    fn map<U>(self, convert: impl Fn(T) -> U) -> ColumnBlock<U> {
        let Self {
            rows,
            values,
            repetition,
        } = self;
        ColumnBlock {
            rows,
            values: values.into_iter().map(convert).collect(),
            repetition,
        }
    }
}

/// The greatest levels of a column's values.
#[derive(Debug, Clone, Copy)]
struct ColumnLevels {
    defined: i16,
    repeated: i16,
}

/// At most `most` rows, in which nothing is null.
fn read<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    ColumnLevels { defined, repeated }: ColumnLevels,
    most: usize,
) -> Result<ColumnBlock<T::T>, RowProblem> {
    let (mut definition, mut repetition, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let levels = (defined > 0).then_some(&mut definition);
    let (rows, ..) = reader.read_records(most, levels, (repeated > 0).then_some(&mut repetition), &mut values)?;
    if let Some(at) = definition.iter().position(|level| *level != defined) {
        let row = row_of(&repetition, at);
        return Err(RowProblem {
            expected: "a value",
            got: "null, or an empty list".to_owned(),
            row,
        });
    }
    Ok(ColumnBlock {
        rows,
        values,
        repetition,
    })
}

/// A value of float16, which Parquet stores in two bytes.
fn half_of(value: &FixedLenByteArray) -> f32 {
    <[u8; 2]>::try_from(value.data()).map_or(f32::NAN, |bytes| f16::from_le_bytes(bytes).to_f32())
}

/// The row that a value belongs to.
fn row_of(repetition: &[i16], at: usize) -> usize {
    let starts = repetition.iter().take(at + 1).filter(|level| **level == 0).count();
    if repetition.is_empty() {
        at
    } else {
        starts.saturating_sub(1)
    }
}

/// The column of vectors.
pub(super) struct VectorColumn {
    column: LeafColumn,
    pub(super) rows: usize,
    pub(super) dim: usize,
}

impl std::fmt::Debug for VectorColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VectorColumn")
            .field("rows", &self.rows)
            .field("dim", &self.dim)
            .finish_non_exhaustive()
    }
}

impl VectorColumn {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let open = || {
            let column = LeafColumn::find(path, &VECTOR_NAMES, true)?;
            column.ok_or_else(|| {
                refused(
                    path,
                    "columns",
                    "lists in a column `vector` or `embedding`",
                    "none".to_owned(),
                )
            })
        };
        // The first row says how long all are.
        let mut first = Self {
            column: open()?,
            rows: 1,
            dim: 0,
        };
        let dim = first.block(1)?.len();
        if dim == 0 {
            return Err(refused(path, "rows", "at least one", "none".to_owned()));
        }
        let column = open()?;
        let rows = usize::try_from(column.file.metadata().file_metadata().num_rows()).unwrap_or_default();
        Ok(Self { column, rows, dim })
    }

    /// At most that many next rows, one after the other; none at the end.
    pub(super) fn block(&mut self, most: usize) -> Result<Vec<f32>, Error> {
        let (mut block, levels, dim) = (Vec::new(), self.column.levels, self.dim);
        let is_half = self.column.logical_type() == Some(&LogicalType::Float16);
        self.column.next_rows(|reader| {
            let ColumnBlock {
                rows,
                values,
                repetition,
            } = match reader {
                ColumnReader::FloatColumnReader(reader) => read(reader, levels, most)?,
                ColumnReader::DoubleColumnReader(reader) => read(reader, levels, most)?.map(|value| value as f32),
                ColumnReader::FixedLenByteArrayColumnReader(reader) if is_half => {
                    read(reader, levels, most)?.map(|value| half_of(&value))
                }
                _ => return Err(wrong_type("lists of float32, float64 or float16")),
            };
            let starts = |at: usize| if dim > 0 { at.is_multiple_of(dim) } else { at == 0 };
            let other = repetition
                .iter()
                .enumerate()
                .position(|(at, level)| (*level == 0) != starts(at));
            let short = (dim > 0 && values.len() != rows * dim).then(|| repetition.len().saturating_sub(1));
            if let Some(at) = other.or(short) {
                let row = row_of(&repetition, at);
                return Err(RowProblem {
                    expected: "lists of one length",
                    got: format!("others than {dim} values"),
                    row,
                });
            }
            block = values;
            Ok(rows)
        })?;
        Ok(block)
    }
}

/// The column of keys, row by row.
pub(super) struct KeyColumn {
    column: LeafColumn,
    /// Integers are unsigned.
    unsigned: bool,
    block: std::vec::IntoIter<String>,
}

impl std::fmt::Debug for KeyColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyColumn")
            .field("column", &self.column.name)
            .finish_non_exhaustive()
    }
}

impl KeyColumn {
    /// None where the file has no such column.
    pub(super) fn find(path: &Path) -> Result<Option<Self>, Error> {
        let Some(column) = LeafColumn::find(path, &KEY_NAMES, false)? else {
            return Ok(None);
        };
        let kind = column
            .file
            .metadata()
            .file_metadata()
            .schema_descr()
            .column(column.leaf);
        let unsigned = match kind.logical_type_ref() {
            None | Some(LogicalType::String) => false,
            Some(LogicalType::Integer(kind)) => !kind.is_signed,
            // Dates, times, decimals.
            Some(_) => return Err(column.refused(wrong_type(TEXTS_OR_INTEGERS))),
        };
        Ok(Some(Self {
            column,
            unsigned,
            block: Vec::new().into_iter(),
        }))
    }

    /// The next key; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<String>, Error> {
        if self.block.len() == 0 {
            let (levels, unsigned) = (self.column.levels, self.unsigned);
            let mut keys = Vec::new();
            self.column.next_rows(|reader| {
                let found = match reader {
                    ColumnReader::ByteArrayColumnReader(reader) => {
                        let found = read(reader, levels, KEYS)?;
                        let utf8 = |key: &ByteArray| std::str::from_utf8(key.data()).is_ok();
                        if let Some(row) = found.values.iter().position(|key| !utf8(key)) {
                            return Err(RowProblem {
                                expected: "UTF-8",
                                got: "other bytes".to_owned(),
                                row,
                            });
                        }
                        found.map(|key| String::from_utf8_lossy(key.data()).into_owned())
                    }
                    ColumnReader::Int64ColumnReader(reader) => read(reader, levels, KEYS)?.map(|key| {
                        if unsigned {
                            (key as u64).to_string()
                        } else {
                            key.to_string()
                        }
                    }),
                    ColumnReader::Int32ColumnReader(reader) => read(reader, levels, KEYS)?.map(|key| {
                        if unsigned {
                            (key as u32).to_string()
                        } else {
                            key.to_string()
                        }
                    }),
                    _ => return Err(wrong_type(TEXTS_OR_INTEGERS)),
                };
                keys = found.values;
                Ok(found.rows)
            })?;
            self.block = keys.into_iter();
        }
        Ok(self.block.next())
    }
}

#[cfg(test)]
mod tests;
