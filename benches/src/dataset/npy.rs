//! NumPy's `.npy`, versions 1 to 3, C order: vectors as f16, f32 or f64, ids as int32 or int64, latencies as f64.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use super::error::{Result, malformed};
use super::matrix::{Matrix, Neighbours};
use super::raw::{Source, Value, write_values};

const MAGIC: [u8; 6] = *b"\x93NUMPY";
/// Longest header read. NumPy itself refuses more than 10,000 characters.
const MAX_HEADER: usize = 1 << 16;

/// What the header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Type of the values, for example `<f4`.
    pub descr: String,
    /// Sizes of the dimensions.
    pub shape: Vec<usize>,
}

/// Reads a matrix of `<f2`, `<f4` or `<f8` as f32.
pub fn read_vectors(path: &Path) -> Result<Matrix> {
    let mut source = Source::open(path)?;
    let header = read_header(&mut source)?;
    let (n, dim) = two_dimensions(path, &header)?;
    let count = n * dim;
    let values = match header.descr.as_str() {
        "<f4" => body::<f32>(&mut source, count)?,
        "<f2" => body::<u16>(&mut source, count)?.into_iter().map(|bits| half::f16::from_bits(bits).to_f32()).collect(),
        "<f8" => body::<f64>(&mut source, count)?.into_iter().map(|value| value as f32).collect(),
        other => return Err(malformed(path, "descr", "<f2, <f4 or <f8", other)),
    };
    Ok(Matrix::new(dim, values))
}

/// Whether the file holds `<f4`, so that others can read it as it is.
pub fn is_f32(path: &Path) -> Result<bool> {
    Ok(read_header(&mut Source::open(path)?)?.descr == "<f4")
}

/// Reads neighbours: `<i4`, `<u4` or `<i8`, none of them negative.
pub fn read_neighbours(path: &Path) -> Result<Neighbours> {
    let (k, ids) = read_ids(path)?;
    let ids = ids.into_iter().map(|id| u32::try_from(id).map_err(|_| malformed(path, "ids", "ids of rows", id)));
    Ok(Neighbours::new(k, ids.collect::<Result<_>>()?))
}

/// Reads a matrix of ids: its columns and its values. -1 stands for no neighbour.
pub fn read_ids(path: &Path) -> Result<(usize, Vec<i64>)> {
    let mut source = Source::open(path)?;
    let header = read_header(&mut source)?;
    let (n, k) = two_dimensions(path, &header)?;
    let ids = match header.descr.as_str() {
        "<i4" => body::<i32>(&mut source, n * k)?.into_iter().map(i64::from).collect(),
        "<u4" => body::<u32>(&mut source, n * k)?.into_iter().map(i64::from).collect(),
        "<i8" => body::<i64>(&mut source, n * k)?,
        other => return Err(malformed(path, "descr", "<i4, <u4 or <i8", other)),
    };
    Ok((k, ids))
}

/// Reads one dimension of `<f8`.
pub fn read_f64(path: &Path) -> Result<Vec<f64>> {
    let mut source = Source::open(path)?;
    let header = read_header(&mut source)?;
    match (header.descr.as_str(), header.shape.as_slice()) {
        ("<f8", &[n]) => body(&mut source, n),
        (descr, shape) => Err(malformed(path, "header", "<f8 of one dimension", format!("{descr} of shape {shape:?}"))),
    }
}

/// Writes a matrix as `<f4`.
pub fn write_vectors(path: &Path, matrix: &Matrix) -> Result<()> {
    let mut out = create(path, "<f4", &[matrix.len(), matrix.dim()])?;
    write_values(&mut out, matrix.values())?;
    Ok(out.flush()?)
}

/// Writes ids as `<i4` of shape `[ids.len() / k, k]`.
pub fn write_ids(path: &Path, k: usize, ids: &[i32]) -> Result<()> {
    let mut out = create(path, "<i4", &[ids.len().checked_div(k).unwrap_or(0), k])?;
    write_values(&mut out, ids)?;
    Ok(out.flush()?)
}

/// Writes one dimension of `<f8`.
pub fn write_f64(path: &Path, values: &[f64]) -> Result<()> {
    let mut out = create(path, "<f8", &[values.len()])?;
    write_values(&mut out, values)?;
    Ok(out.flush()?)
}

/// A new file with its header; the values follow. For matrices larger than memory.
pub fn create(path: &Path, descr: &str, shape: &[usize]) -> Result<BufWriter<fs_err::File>> {
    let mut out = BufWriter::with_capacity(1 << 20, fs_err::File::create(path)?);
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}", sizes.join(", "));
    let unpadded = MAGIC.len() + 4 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    out.write_all(&MAGIC)?;
    out.write_all(&[1, 0])?;
    out.write_all(&(text.len() as u16).to_le_bytes())?;
    out.write_all(text.as_bytes())?;
    Ok(out)
}

fn body<T: Value>(source: &mut Source<'_>, count: usize) -> Result<Vec<T>> {
    source.values(count, "values")
}

fn two_dimensions(path: &Path, header: &Header) -> Result<(usize, usize)> {
    match header.shape.as_slice() {
        &[n, dim] if n > 0 && dim > 0 => Ok((n, dim)),
        shape => Err(malformed(path, "shape", "two dimensions, none of them 0", format!("{shape:?}"))),
    }
}

/// Reads the header and checks the file's length against it.
fn read_header(source: &mut Source<'_>) -> Result<Header> {
    let path = source.path();
    let magic: Vec<u8> = source.values(8, "magic")?;
    let (start, version) = magic.split_at(6);
    if start != MAGIC {
        return Err(malformed(path, "magic", "\\x93NUMPY", String::from_utf8_lossy(start).escape_default()));
    }
    let (len, prefix) = match version.first() {
        Some(1) => (usize::from(source.values::<u16>(1, "header length")?[0]), 10),
        Some(2 | 3) => (source.values::<u32>(1, "header length")?[0] as usize, 12),
        other => return Err(malformed(path, "version", "1, 2 or 3", format!("{other:?}"))),
    };
    if len > MAX_HEADER {
        return Err(malformed(path, "header length", format!("at most {MAX_HEADER}"), len));
    }
    let text = String::from_utf8_lossy(&source.values::<u8>(len, "header")?).into_owned();
    let header = parse(path, &text)?;
    let bytes = header
        .shape
        .iter()
        .try_fold(value_bytes(path, &header.descr)? as u128, |product, size| product.checked_mul(*size as u128));
    let what = format!("{} of shape {:?}", header.descr, header.shape);
    source.expect_len((prefix as u128 + len as u128).saturating_add(bytes.unwrap_or(u128::MAX)), &what)?;
    Ok(header)
}

fn value_bytes(path: &Path, descr: &str) -> Result<usize> {
    match descr {
        "|u1" | "|i1" => Ok(1),
        "<f2" => Ok(2),
        "<f4" | "<i4" | "<u4" => Ok(4),
        "<f8" | "<i8" | "<u8" => Ok(8),
        _ => Err(malformed(path, "descr", "a little-endian number", descr)),
    }
}

/// Reads the Python dictionary of a header.
fn parse(path: &Path, text: &str) -> Result<Header> {
    let after = |name: &str| {
        let quoted = [format!("'{name}':"), format!("\"{name}\":")];
        let found = quoted.iter().find_map(|key| text.find(key.as_str()).map(|at| &text[at + key.len()..]));
        found.map(str::trim_start).ok_or_else(|| malformed(path, "header", format!("the key '{name}'"), text.trim()))
    };
    let descr = after("descr")?;
    let quote = descr.chars().next().filter(|mark| *mark == '\'' || *mark == '"');
    let descr = quote.and_then(|mark| descr[1..].split_once(mark)).map(|(inside, _)| inside.to_owned());
    let descr = descr.ok_or_else(|| malformed(path, "descr", "a simple type", text.trim()))?;
    if !after("fortran_order")?.starts_with("False") {
        return Err(malformed(path, "fortran_order", "False (C order: numpy.ascontiguousarray)", "True"));
    }
    let shape = after("shape")?;
    let inside = shape.strip_prefix('(').and_then(|rest| rest.split_once(')')).map(|(inside, _)| inside);
    let sizes = inside.unwrap_or("?").split(',').map(str::trim).filter(|size| !size.is_empty());
    let sizes: std::result::Result<Vec<usize>, _> = sizes.map(str::parse).collect();
    let shape = sizes.map_err(|_| malformed(path, "shape", "whole numbers", shape.trim()))?;
    Ok(Header { descr, shape })
}
