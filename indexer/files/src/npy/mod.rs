//! NumPy's `.npy`: a magic, a version, the length of a header, a Python dictionary as text, the values.
//!
//! Versions 1 to 3 are read and version 1 is written; in C order, of little-endian numbers. A file's length is compared
//! with its header before anything is allocated.

mod dtype;

use std::fmt::Display;
use std::io::{self, BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use half::f16;
use zerocopy::IntoBytes;

pub use dtype::{NpyDtype, NpyValue};

// Values are read and written in the representation in memory.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "NumPy's arrays are read on little-endian machines"
);

const MAGIC: &[u8] = b"\x93NUMPY";
/// Longest header that is read. NumPy itself refuses more than 10,000 characters.
const LONGEST_HEADER: usize = 1 << 16;
/// Bytes of the write buffer.
const BUFFER: usize = 1 << 20;

/// A file that is not such an array, or an array of another type or shape.
#[derive(Debug, thiserror::Error)]
pub enum NpyError {
    /// A part of it is wrong.
    #[error("`{}`: {part}: expected {expected}, got {got}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Which part of it.
        part: &'static str,
        /// What was expected.
        expected: String,
        /// What was found.
        got: String,
    },
    /// The operating system refused; its message names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
}

type Result<T> = std::result::Result<T, NpyError>;

/// The bytes before the values of an array, padded so that the values start at a multiple of 64.
pub fn header(dtype: NpyDtype, shape: &[u64]) -> Vec<u8> {
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    let (name, sizes) = (dtype.name(), sizes.join(", "));
    let mut text = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': ({sizes}{comma}), }}");
    let unpadded = MAGIC.len() + 4 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    [MAGIC, &[1, 0], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
}

/// A new file with its header; as many values as `shape` says are to follow. For arrays larger than memory.
pub fn create(path: &Path, dtype: NpyDtype, shape: &[usize]) -> io::Result<BufWriter<fs_err::File>> {
    let shape: Vec<u64> = shape.iter().map(|size| *size as u64).collect();
    let mut out = BufWriter::with_capacity(BUFFER, fs_err::File::create(path)?);
    out.write_all(&header(dtype, &shape))?;
    Ok(out)
}

/// Writes an array whole.
pub fn write<T: NpyValue>(path: &Path, shape: &[usize], values: &[T]) -> io::Result<()> {
    let mut out = create(path, T::DTYPE, shape)?;
    out.write_all(values.as_bytes())?;
    out.flush()
}

/// An array in a file of the right length.
#[derive(Debug)]
pub struct NpyFile {
    path: PathBuf,
    file: fs_err::File,
    dtype: NpyDtype,
    shape: Vec<usize>,
    /// Where the values begin in the file.
    start: u64,
}

impl NpyFile {
    /// Opens an array and compares the file's length with its header.
    pub fn open(path: &Path) -> Result<Self> {
        let mut file = fs_err::File::open(path)?;
        let length = file.metadata()?.len();
        let NpyHeader {
            dtype,
            shape,
            bytes: start,
        } = NpyHeader::read(path, &mut file)?;
        let bytes = shape
            .iter()
            .try_fold(dtype.bytes() as u64, |product, size| product.checked_mul(*size as u64));
        let expected = bytes.and_then(|bytes| bytes.checked_add(start));
        if expected != Some(length) {
            let expected = expected.map_or_else(
                || "more bytes than any file has".to_owned(),
                |all| format!("{all} bytes"),
            );
            let expected = format!("{expected} ({} of shape {shape:?})", dtype.name());
            return Err(malformed(path, "file size", expected, length));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            dtype,
            shape,
            start,
        })
    }

    /// Type of the values.
    pub fn dtype(&self) -> NpyDtype {
        self.dtype
    }

    /// Sizes of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Rows and columns of an array of two dimensions.
    pub fn rows_and_columns(&self) -> Result<(usize, usize)> {
        match self.shape.as_slice() {
            &[rows, columns] => Ok((rows, columns)),
            shape => Err(malformed(&self.path, "shape", "two dimensions", format!("{shape:?}"))),
        }
    }

    /// Number of all values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// No values at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the values begin in the file, in bytes.
    pub fn start(&self) -> usize {
        self.start as usize
    }

    /// Refuses another type than one of these.
    pub fn check_dtype(&self, dtypes: &[NpyDtype]) -> Result<()> {
        if dtypes.contains(&self.dtype) {
            return Ok(());
        }
        Err(malformed(&self.path, "descr", one_of(dtypes), self.dtype.name()))
    }

    /// All values, which must be of this type.
    pub fn read<T: NpyValue>(&mut self) -> Result<Vec<T>> {
        self.check_dtype(&[T::DTYPE])?;
        self.values(0..self.len())
    }

    /// Some values, by their places in C order, as f32; of `<f2`, `<f4` or `<f8`.
    pub fn read_f32(&mut self, places: Range<usize>) -> Result<Vec<f32>> {
        self.check_dtype(&[NpyDtype::F16, NpyDtype::F32, NpyDtype::F64])?;
        Ok(match self.dtype {
            NpyDtype::F16 => self.values::<f16>(places)?.into_iter().map(f16::to_f32).collect(),
            NpyDtype::F64 => self
                .values::<f64>(places)?
                .into_iter()
                .map(|value| value as f32)
                .collect(),
            _ => self.values(places)?,
        })
    }

    fn values<T: NpyValue>(&mut self, places: Range<usize>) -> Result<Vec<T>> {
        if places.start > places.end || places.end > self.len() {
            return Err(malformed(
                &self.path,
                "values",
                format!("{places:?}"),
                format!("{} values", self.len()),
            ));
        }
        let mut values = vec![T::default(); places.len()];
        self.file
            .seek(SeekFrom::Start(self.start + (places.start * size_of::<T>()) as u64))?;
        self.file.read_exact(values.as_mut_bytes())?;
        Ok(values)
    }
}

/// The header before the values.
struct NpyHeader {
    dtype: NpyDtype,
    shape: Vec<usize>,
    bytes: u64,
}

impl NpyHeader {
    fn read(path: &Path, file: &mut fs_err::File) -> Result<Self> {
        let magic = take(file, MAGIC.len() + 2)?;
        let (length, prefix) = match magic.strip_prefix(MAGIC) {
            Some([1, _]) => (take(file, 2)?, 2),
            Some([2 | 3, _]) => (take(file, 4)?, 4),
            Some([version, _]) => return Err(malformed(path, "version", "1, 2 or 3", version)),
            _ => {
                let got = format!("`{}`", magic.escape_ascii());
                return Err(malformed(
                    path,
                    "magic",
                    "a NumPy file, which begins with \\x93NUMPY",
                    got,
                ));
            }
        };
        let length = match length.as_slice() {
            [a, b] => usize::from(u16::from_le_bytes([*a, *b])),
            [a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
            _ => {
                return Err(malformed(
                    path,
                    "header length",
                    format!("{prefix} bytes"),
                    "the end of the file",
                ));
            }
        };
        if length > LONGEST_HEADER {
            return Err(malformed(
                path,
                "header length",
                format!("at most {LONGEST_HEADER}"),
                length,
            ));
        }
        let text = take(file, length)?;
        if text.len() < length {
            return Err(malformed(
                path,
                "header",
                format!("{length} bytes"),
                "the end of the file",
            ));
        }
        let (dtype, shape) = parse(path, &String::from_utf8_lossy(&text))?;
        Ok(Self {
            dtype,
            shape,
            bytes: (MAGIC.len() + 2 + prefix + length) as u64,
        })
    }
}

/// The next bytes; fewer at the end of the file.
fn take(file: &mut fs_err::File, bytes: usize) -> io::Result<Vec<u8>> {
    let mut taken = Vec::with_capacity(bytes);
    Read::take(file, bytes as u64).read_to_end(&mut taken)?;
    Ok(taken)
}

/// Reads the Python dictionary of a header.
fn parse(path: &Path, text: &str) -> Result<(NpyDtype, Vec<usize>)> {
    let after = |name: &str| {
        let found = [format!("'{name}':"), format!("\"{name}\":")]
            .into_iter()
            .find_map(|key| text.split_once(key.as_str()).map(|(_, rest)| rest.trim_start()));
        found.ok_or_else(|| malformed(path, "header", format!("the key '{name}'"), text.trim().escape_debug()))
    };
    let descr = after("descr")?;
    let mark = descr.chars().next().filter(|mark| *mark == '\'' || *mark == '"');
    let name = mark
        .and_then(|mark| descr.get(1..)?.split_once(mark))
        .map(|(name, _)| name);
    let dtype = name.and_then(|name| NpyDtype::ALL.into_iter().find(|dtype| dtype.name() == name));
    let other = || name.map_or_else(|| "a compound type".to_owned(), |name| name.escape_debug().to_string());
    let dtype = dtype.ok_or_else(|| malformed(path, "descr", one_of(&NpyDtype::ALL), other()))?;
    if !after("fortran_order")?.starts_with("False") {
        return Err(malformed(
            path,
            "fortran_order",
            "False (C order: numpy.ascontiguousarray)",
            "True",
        ));
    }
    let shape = after("shape")?;
    let inside = shape
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(')'))
        .map(|(inside, _)| inside);
    let sizes = inside
        .unwrap_or("?")
        .split(',')
        .map(str::trim)
        .filter(|size| !size.is_empty());
    let sizes: std::result::Result<Vec<usize>, _> = sizes.map(str::parse).collect();
    let sizes = sizes.map_err(|_| malformed(path, "shape", "whole numbers", shape.trim().escape_debug()))?;
    Ok((dtype, sizes))
}

fn one_of(dtypes: &[NpyDtype]) -> String {
    let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

fn malformed(path: &Path, part: &'static str, expected: impl Display, got: impl Display) -> NpyError {
    NpyError::Malformed {
        path: path.to_owned(),
        part,
        expected: expected.to_string(),
        got: got.to_string(),
    }
}

#[cfg(test)]
mod tests;
