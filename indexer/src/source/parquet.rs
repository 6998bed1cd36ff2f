//! Vectors that come from elsewhere as a Parquet file: a column of lists of float32 or float64, and a column of keys.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parquet::basic::LogicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
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
struct Column {
    path: PathBuf,
    file: SerializedFileReader<std::fs::File>,
    name: String,
    leaf: usize,
    /// Of a value that is there.
    levels: (i16, i16),
    group: usize,
    reader: Option<ColumnReader>,
    /// Rows read.
    row: u64,
}

impl Column {
    /// The first column of these names, which holds lists or not; none where there is none.
    fn find(path: &Path, names: &[&str], lists: bool) -> Result<Option<Self>, Error> {
        let broken = |problem: Problem| refused(path, "file", problem.expected, problem.got);
        let file = fs_err::File::open(path)?.into_file();
        let file = caught(|| Ok(SerializedFileReader::new(file)?)).map_err(broken)?;
        let schema = file.metadata().file_metadata().schema_descr();
        let found = names.iter().find_map(|name| {
            let leaf = schema
                .columns()
                .iter()
                .position(|column| column.path().parts().first().is_some_and(|root| root == name))?;
            let column = schema.columns().get(leaf)?;
            let levels = (column.max_def_level(), column.max_rep_level());
            (levels.1 == i16::from(lists)).then(|| ((*name).to_owned(), leaf, levels))
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

    fn refused(&self, Problem { expected, got, row }: Problem) -> Error {
        let row = self.row + row as u64;
        refused(&self.path, &format!("column `{}`, row {row}", self.name), expected, got)
    }

    /// Calls `read` with the column of each row group, until that has read some rows; false at the end.
    fn next_rows(&mut self, mut read: impl FnMut(&mut ColumnReader) -> Result<usize, Problem>) -> Result<bool, Error> {
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
struct Problem {
    expected: &'static str,
    got: String,
    row: usize,
}

impl From<ParquetError> for Problem {
    fn from(error: ParquetError) -> Self {
        Self { expected: "values that can be read", got: error.to_string(), row: 0 }
    }
}

const TEXTS_OR_INTEGERS: &str = "texts or integers";

fn wrong_type(expected: &'static str) -> Problem {
    Problem { expected, got: "another type".to_owned(), row: 0 }
}

/// Damaged metadata end in failed assertions of the reader.
fn caught<T>(work: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    let damaged = |_| Err(Problem { expected: "a Parquet file that is whole", got: "damage".to_owned(), row: 0 });
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(damaged)
}

fn refused(path: &Path, part: &str, expected: &str, got: String) -> Error {
    Error::Vectors { path: path.to_owned(), part: part.to_owned(), expected: expected.to_owned(), got, hint: HINT }
}

/// Rows of a column.
struct Block<T> {
    rows: usize,
    values: Vec<T>,
    /// For each value whether a row begins with it: 0 where it does.
    repetition: Vec<i16>,
}

impl<T> Block<T> {
    fn map<U>(self, convert: impl Fn(T) -> U) -> Block<U> {
        let Self { rows, values, repetition } = self;
        Block { rows, values: values.into_iter().map(convert).collect(), repetition }
    }
}

/// At most `most` rows, in which nothing is null.
fn read<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    (defined, repeated): (i16, i16),
    most: usize,
) -> Result<Block<T::T>, Problem> {
    let (mut definition, mut repetition, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let levels = (defined > 0).then_some(&mut definition);
    let (rows, ..) = reader.read_records(most, levels, (repeated > 0).then_some(&mut repetition), &mut values)?;
    if let Some(at) = definition.iter().position(|level| *level != defined) {
        let row = row_of(&repetition, at);
        return Err(Problem { expected: "a value", got: "null, or an empty list".to_owned(), row });
    }
    Ok(Block { rows, values, repetition })
}

/// The row that a value belongs to.
fn row_of(repetition: &[i16], at: usize) -> usize {
    let starts = repetition.iter().take(at + 1).filter(|level| **level == 0).count();
    if repetition.is_empty() { at } else { starts.saturating_sub(1) }
}

/// The column of vectors.
pub(super) struct VectorColumn {
    column: Column,
    pub(super) rows: usize,
    pub(super) dim: usize,
}

impl std::fmt::Debug for VectorColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VectorColumn").field("rows", &self.rows).field("dim", &self.dim).finish_non_exhaustive()
    }
}

impl VectorColumn {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let open = || {
            let column = Column::find(path, &VECTOR_NAMES, true)?;
            column
                .ok_or_else(|| refused(path, "columns", "lists in a column `vector` or `embedding`", "none".to_owned()))
        };
        // The first row says how long all are.
        let mut first = Self { column: open()?, rows: 1, dim: 0 };
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
        self.column.next_rows(|reader| {
            let Block { rows, values, repetition } = match reader {
                ColumnReader::FloatColumnReader(reader) => read(reader, levels, most)?,
                ColumnReader::DoubleColumnReader(reader) => read(reader, levels, most)?.map(|value| value as f32),
                _ => return Err(wrong_type("lists of float32 or float64")),
            };
            let starts = |at: usize| if dim > 0 { at.is_multiple_of(dim) } else { at == 0 };
            let other = repetition.iter().enumerate().position(|(at, level)| (*level == 0) != starts(at));
            let short = (dim > 0 && values.len() != rows * dim).then(|| repetition.len().saturating_sub(1));
            if let Some(at) = other.or(short) {
                let row = row_of(&repetition, at);
                return Err(Problem { expected: "lists of one length", got: format!("others than {dim} values"), row });
            }
            block = values;
            Ok(rows)
        })?;
        Ok(block)
    }
}

/// The column of keys, row by row.
pub(super) struct KeyColumn {
    column: Column,
    /// Integers are unsigned.
    unsigned: bool,
    block: std::vec::IntoIter<String>,
}

impl std::fmt::Debug for KeyColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyColumn").field("column", &self.column.name).finish_non_exhaustive()
    }
}

impl KeyColumn {
    /// None where the file has no such column.
    pub(super) fn find(path: &Path) -> Result<Option<Self>, Error> {
        let Some(column) = Column::find(path, &KEY_NAMES, false)? else { return Ok(None) };
        let kind = column.file.metadata().file_metadata().schema_descr().column(column.leaf);
        let unsigned = match kind.logical_type_ref() {
            None | Some(LogicalType::String) => false,
            Some(LogicalType::Integer(kind)) => !kind.is_signed,
            // Dates, times, decimals.
            Some(_) => return Err(column.refused(wrong_type(TEXTS_OR_INTEGERS))),
        };
        Ok(Some(Self { column, unsigned, block: Vec::new().into_iter() }))
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
                            return Err(Problem { expected: "UTF-8", got: "other bytes".to_owned(), row });
                        }
                        found.map(|key| String::from_utf8_lossy(key.data()).into_owned())
                    }
                    ColumnReader::Int64ColumnReader(reader) => read(reader, levels, KEYS)?
                        .map(|key| if unsigned { (key as u64).to_string() } else { key.to_string() }),
                    ColumnReader::Int32ColumnReader(reader) => read(reader, levels, KEYS)?
                        .map(|key| if unsigned { (key as u32).to_string() } else { key.to_string() }),
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
mod tests {
    use std::sync::Arc;

    use parquet::data_type::{FloatType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;

    /// Ten rows in groups of four, compressed with zstd: texts as keys, fixed-size lists of float32. Written by pyarrow:
    /// `pq.write_table(pa.table({"key": [f"k{i}" for i in range(10)], "vector": pa.FixedSizeListArray.from_arrays(pa.array(
    /// [float(i) for i in range(20)], pa.float32()), 2)}), "vectors.parquet", compression="zstd", row_group_size=4)`
    fn golden() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/vectors.parquet")
    }

    #[test]
    fn what_pyarrow_writes_is_read() {
        let mut vectors = VectorColumn::open(&golden()).unwrap();
        assert_eq!((vectors.rows, vectors.dim), (10, 2));
        let (mut all, mut blocks) = (Vec::new(), 0);
        loop {
            let block = vectors.block(3).unwrap();
            if block.is_empty() {
                break;
            }
            blocks += 1;
            all.extend(block);
        }
        assert_eq!(all, (0..20).map(|value| value as f32).collect::<Vec<_>>());
        assert_eq!(blocks, 5, "3 and 1 of two groups of 4, and 2");
        let mut keys = KeyColumn::find(&golden()).unwrap().unwrap();
        let keys: Vec<String> = std::iter::from_fn(|| keys.next().unwrap()).collect();
        assert_eq!(keys, (0..10).map(|number| format!("k{number}")).collect::<Vec<_>>());
    }

    const SCHEMA: &str = "message m { required int64 id; optional group vector (LIST) { repeated group list { optional float element; } } }";

    /// Values with definition and repetition levels.
    type Lists<'a> = (&'a [f32], &'a [i16], &'a [i16]);

    /// A file of keys, and of lists by their definition and repetition levels.
    fn write(path: &Path, schema: &str, ids: &[i64], (values, definition, repetition): Lists<'_>) {
        let (schema, properties) =
            (Arc::new(parse_message_type(schema).unwrap()), Arc::new(WriterProperties::default()));
        let file = fs_err::File::create(path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(ids, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<FloatType>().write_batch(values, Some(definition), Some(repetition)).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
    }

    fn all(path: &Path) -> Result<Vec<f32>, Error> {
        VectorColumn::open(path)?.block(100)
    }

    #[test]
    fn lists_of_other_lengths_nulls_and_other_columns_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.parquet");
        write(&path, SCHEMA, &[7, -8], (&[1.0, 2.0, 3.0, 4.0], &[3; 4], &[0, 1, 0, 1]));
        assert_eq!(all(&path).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        let mut keys = KeyColumn::find(&path).unwrap().unwrap();
        assert_eq!(
            [keys.next().unwrap(), keys.next().unwrap(), keys.next().unwrap()],
            [Some("7".into()), Some("-8".into()), None]
        );
        for (kind, first) in [("INTEGER(64, false)", Some("18446744073709551608")), ("TIMESTAMP(MICROS, true)", None)] {
            let schema = SCHEMA.replace(" id;", &format!(" id ({kind});"));
            write(&path, &schema, &[-8], (&[1.0], &[3], &[0]));
            let key = KeyColumn::find(&path).and_then(|keys| keys.unwrap().next());
            assert!(first.map_or(key.is_err(), |first| key.is_ok_and(|key| key.as_deref() == Some(first))), "{kind}");
        }
        let cases: [(Lists<'_>, &str); 5] = [
            ((&[1.0, 2.0, 3.0], &[3; 3], &[0, 1, 0]), "lists of one length"),
            ((&[1.0, 2.0, 3.0], &[3; 3], &[0, 0, 1]), "lists of one length"),
            ((&[1.0, 2.0, 3.0], &[3, 3, 3, 2], &[0, 1, 0, 1]), "got null"),
            ((&[1.0, 2.0], &[3, 3, 1], &[0, 1, 0]), "got null, or an empty list"),
            ((&[1.0, 2.0], &[3, 3, 0], &[0, 1, 0]), "got null"),
        ];
        for (lists, expected) in cases {
            write(&path, SCHEMA, &[7, 8], lists);
            let error = all(&path).unwrap_err().to_string();
            for part in ["v.parquet", "column `vector`, row 1", expected, "lists of float32"] {
                assert!(error.contains(part), "`{part}` in: {error}");
            }
        }
        let other = SCHEMA.replace("vector", "v").replace(" id", " number");
        write(&path, &other, &[7], (&[1.0], &[3], &[0]));
        assert!(KeyColumn::find(&path).unwrap().is_none());
        let error = all(&path).unwrap_err().to_string();
        assert!(error.contains("lists in a column `vector` or `embedding`"), "{error}");
    }

    /// Reads both columns to their ends.
    fn read_all(path: &Path) -> Result<(), Error> {
        let mut vectors = VectorColumn::open(path)?;
        while !vectors.block(3)?.is_empty() {}
        if let Some(mut keys) = KeyColumn::find(path)? {
            while keys.next()?.is_some() {}
        }
        Ok(())
    }

    /// Every byte of a file is changed in turn: it is read, or refused.
    #[test]
    fn damage_is_no_panic() {
        let whole = fs_err::read(golden()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.parquet");
        let (mut read, mut refused) = (0, 0);
        for at in 0..whole.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= flip;
                fs_err::write(&path, damaged).unwrap();
                *if read_all(&path).is_ok() { &mut read } else { &mut refused } += 1;
            }
        }
        // Some bytes are statistics, which are not used.
        assert!(read > 0 && refused > whole.len(), "{read} read, {refused} refused");
    }
}
