//! Vectors and neighbours in the field's binary formats, and files by their endings.
//!
//! | ending | layout, little-endian |
//! |---|---|
//! | `.fbin`, `.ibin` (big-ann-benchmarks) | `uint32 n, uint32 d`, then rows of f32 or int32; exact neighbours are all ids, then all f32 scores |
//! | `.fvecs`, `.ivecs` (TEXMEX, SIFT1M) | every row begins with its length as int32 |
//! | `.npy` | [`npy`] |
//! | a directory | vectors that `dyad-encoder embed` has made: parts, each checked against its checksum |
//!
//! Every length is checked before anything is allocated.

use std::io::{BufWriter, Read as _, Write};
use std::path::Path;

use dyad_corpus::embeddings::EmbeddingsReader;
use dyad_files::npy::NpyValue;
use zerocopy::IntoBytes as _;

use super::matrix::{Matrix, Neighbours, RowMatrix, of_rows};
use super::npy;
use crate::error::{BenchError, BenchResult};

// Vectors are read and written as they lie in memory.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "the data readers expect a little-endian machine"
);

/// Reads vectors: `.npy` (f16, f32, f64), `.fbin` or `.fvecs`, or a directory of `dyad-encoder embed`.
pub fn read_vectors(path: &Path) -> BenchResult<Matrix> {
    if path.is_dir() {
        return read_directory(path);
    }
    match ending(path) {
        "npy" => npy::read_vectors(path),
        "fbin" => read_bin(path, false),
        "fvecs" => read_vecs(path, "float32"),
        other => Err(BenchError::malformed(
            path,
            "ending",
            ".npy, .fbin or .fvecs, or a directory of embeddings",
            format!("`{other}`"),
        )),
    }
}

/// The vectors of a complete directory of embeddings, in the order of its documents.
fn read_directory(dir: &Path) -> BenchResult<Matrix> {
    let fail = |error: dyad_corpus::Error| BenchError::file(dir, error);
    let reader = EmbeddingsReader::open(dir).map_err(fail)?;
    let (rows, dim) = (reader.rows(), reader.dim());
    if dim == 0 || rows == 0 {
        return Err(BenchError::malformed(
            dir,
            "rows, values",
            "at least 1 of each",
            format!("{rows}, {dim}"),
        ));
    }
    let mut values = Vec::new();
    for row in reader {
        values.extend(row.map_err(fail)?.1);
    }
    Ok(Matrix::new(dim, values))
}

/// Reads exact neighbours: `.ibin` with scores or without, `.ivecs` or `.npy`.
pub fn read_neighbours(path: &Path) -> BenchResult<Neighbours> {
    let ids: RowMatrix<i32> = match ending(path) {
        "npy" => return npy::read_neighbours(path),
        "ibin" => read_bin(path, true)?,
        "ivecs" => read_vecs(path, "int32")?,
        other => {
            return Err(BenchError::malformed(
                path,
                "ending",
                ".ibin, .ivecs or .npy",
                format!("`{other}`"),
            ));
        }
    };
    of_rows(path, ids.k(), ids.values().iter().copied())
}

fn ending(path: &Path) -> &str {
    path.extension().and_then(|ending| ending.to_str()).unwrap_or("")
}

/// Writes k-NN truth as `.ibin`; `scores` has one value per id.
pub fn write_neighbours(path: &Path, neighbours: &Neighbours, scores: &[f32]) -> BenchResult<()> {
    let mut out = create_bin(path, neighbours.len(), neighbours.k())?;
    write_values(&mut out, neighbours.values())?;
    write_values(&mut out, scores)?;
    Ok(out.flush()?)
}

/// A new `.fbin` or `.ibin` with its sizes; the rows follow. For matrices larger than memory.
pub(super) fn create_bin(path: &Path, n: usize, dim: usize) -> BenchResult<BufWriter<fs_err::File>> {
    let size = |field: &str, size: usize| {
        u32::try_from(size)
            .map_err(|_| BenchError::malformed(path, field, "fewer than 2^32 (the format's limit)", size))
    };
    let sizes = [size("n", n)?, size("d", dim)?];
    let mut out = BufWriter::with_capacity(1 << 20, fs_err::File::create(path)?);
    write_values(&mut out, &sizes)?;
    Ok(out)
}

/// Writes values as they lie in memory.
pub(super) fn write_values(out: &mut impl Write, values: &[impl NpyValue]) -> std::io::Result<()> {
    out.write_all(values.as_bytes())
}

/// The rows of an `.fbin`; or the ids of an `.ibin`, which scores may follow.
fn read_bin<T: NpyValue>(path: &Path, neighbours: bool) -> BenchResult<RowMatrix<T>> {
    let mut source = BinaryFile::open(path)?;
    let sizes: Vec<u32> = source.values(2, "sizes")?;
    let (width, rows) = if neighbours { ("k", "ids") } else { ("d", "rows") };
    if let Some((name, _)) = ["n", width].into_iter().zip(&sizes).find(|(_, size)| **size == 0) {
        return Err(BenchError::malformed(path, name, "at least 1", 0));
    }
    let (n, dim) = (sizes[0] as usize, sizes[1] as usize);
    let (len, cells) = (u128::from(source.len), n as u128 * dim as u128);
    if len != 8 + 4 * cells && !(neighbours && len == 8 + 8 * cells) {
        let expected = if neighbours {
            format!(
                "{} bytes ({n} lists of {dim} int32 ids and as many float32 scores)",
                8 + 8 * cells
            )
        } else {
            format!("{} bytes ({n} rows of {dim} float32)", 8 + 4 * cells)
        };
        return Err(BenchError::malformed(path, "file size", expected, len));
    }
    Ok(RowMatrix::new(dim, source.values(n * dim, rows)?))
}

/// The rows of an `.fvecs` or `.ivecs`; each must be as long as the first.
fn read_vecs<T: NpyValue>(path: &Path, kind: &str) -> BenchResult<RowMatrix<T>> {
    let mut source = BinaryFile::open(path)?;
    let first: i32 = source.values(1, "d of row 0")?[0];
    let dim = usize::try_from(first).ok().filter(|dim| *dim > 0);
    let dim = dim.ok_or_else(|| BenchError::malformed(path, "d of row 0", "at least 1", first))?;
    let row_bytes = 4 + 4 * dim as u64;
    if source.len % row_bytes != 0 {
        let expected = format!("a multiple of {row_bytes} bytes (rows of d and {dim} {kind})");
        return Err(BenchError::malformed(path, "file size", expected, source.len));
    }
    let mut values = vec![T::default(); (source.len / row_bytes) as usize * dim];
    for (number, row) in values.chunks_exact_mut(dim).enumerate() {
        let mut got = [first];
        if number > 0 {
            source.fill(&mut got, "d")?;
        }
        if got != [first] {
            return Err(BenchError::malformed(
                path,
                format!("d of row {number}"),
                format!("{dim}, as in row 0"),
                got[0],
            ));
        }
        source.fill(row, "values")?;
    }
    Ok(RowMatrix::new(dim, values))
}

/// An open file and its length, read front to back.
struct BinaryFile<'a> {
    path: &'a Path,
    file: fs_err::File,
    len: u64,
}

impl<'a> BinaryFile<'a> {
    fn open(path: &'a Path) -> BenchResult<Self> {
        let file = fs_err::File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { path, file, len })
    }

    /// The next `count` values; a lying header cannot ask for more than the file has.
    fn values<T: NpyValue>(&mut self, count: usize, field: &str) -> BenchResult<Vec<T>> {
        let bytes = count as u128 * size_of::<T>() as u128;
        if bytes > u128::from(self.len) {
            return Err(BenchError::malformed(
                self.path,
                field,
                format!("{bytes} bytes"),
                format!("a file of {}", self.len),
            ));
        }
        let mut values = vec![T::default(); count];
        self.fill(&mut values, field)?;
        Ok(values)
    }

    /// Fills a slice.
    fn fill<T: NpyValue>(&mut self, values: &mut [T], field: &str) -> BenchResult<()> {
        let bytes = values.as_mut_bytes();
        let wanted = bytes.len();
        self.file.read_exact(bytes).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                BenchError::malformed(self.path, field, format!("{wanted} bytes"), "the end of the file")
            }
            _ => error.into(),
        })
    }
}
