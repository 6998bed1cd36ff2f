//! VECTORS: rows of f32 or f16, each padded to whole cache lines; written once, then mapped.

use std::io::Write;
use std::ops::Range;

use half::f16;
use zerocopy::IntoBytes as _;

use super::{ALIGN, FormatFault, section};
use crate::error::{Error, Result};
use crate::kernels::{self, kernels};
use crate::model::Metric;
use crate::rows::{DenseRows, ExactRows, VectorRows};
use crate::storage::MmapFile;

const PART: &str = "VECTORS";
/// Values that are widened to f32 at a time.
const WIDENED: usize = 256;

/// Type of the stored values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[repr(u32)]
pub enum RowType {
    /// As the model made them.
    #[default]
    F32 = 0,
    /// Half the size: scores of unit vectors change by about 1e-5.
    F16 = 1,
}

impl RowType {
    /// The type that vectors are stored in where none is asked for. By [`Metric::L2`], what is near may differ in
    /// digits that float16 does not have, far from the origin above all.
    pub fn usual(metric: Metric) -> Self {
        match metric {
            Metric::Cosine | Metric::Dot => Self::F16,
            Metric::L2 => Self::F32,
        }
    }

    /// Bytes of a value.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }

    /// Name as in command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
        }
    }

    /// Values of a stored row: `dim` rounded up to a cache line.
    pub const fn stride(self, dim: usize) -> usize {
        dim.next_multiple_of(ALIGN as usize / self.bytes())
    }

    /// From its number in a header.
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::F32, Self::F16].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// Rows that are asked for while as many before them are written.
const READ_AHEAD: usize = 8_192;

/// Writes the section.
pub fn write(rows: &dyn VectorRows, kind: RowType, out: &mut impl Write) -> Result<()> {
    let (dim, stride) = (rows.dim(), kind.stride(rows.dim()));
    let mut wide = vec![0.0f32; stride];
    let mut narrow = vec![0u16; stride];
    for node in 0..rows.len() as u32 {
        if (node as usize).is_multiple_of(READ_AHEAD) {
            rows.read_ahead(node as usize + READ_AHEAD..node as usize + 2 * READ_AHEAD);
        }
        let row = rows.row(node);
        if row.len() != dim {
            let (expected, got) = (dim.to_string(), row.len().to_string());
            return Err(Error::Mismatch {
                what: "values of a row",
                expected,
                got,
            });
        }
        match kind {
            RowType::F32 => {
                wide.iter_mut().zip(row).for_each(|(slot, value)| *slot = *value);
                out.write_all(wide.as_bytes())?;
            }
            RowType::F16 => {
                for (slot, value) in narrow.iter_mut().zip(row) {
                    let half = f16::from_f32(*value);
                    if value.is_finite() && !half.is_finite() {
                        let expected = format!("values of at most {}, or rows stored as f32", f16::MAX);
                        return Err(Error::Mismatch {
                            what: "a row stored as f16",
                            expected,
                            got: value.to_string(),
                        });
                    }
                    *slot = half.to_bits();
                }
                out.write_all(narrow.as_bytes())?;
            }
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum RowValues<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
}

/// Mapped vectors.
#[derive(Debug, Clone, Copy)]
pub struct StoredRows<'a> {
    values: RowValues<'a>,
    dim: usize,
    stride: usize,
    n: usize,
    /// The file of which they are read, where it does not fit into memory.
    on_disk: Option<&'a MmapFile>,
}

impl<'a> StoredRows<'a> {
    /// Views the section of `n` vectors of `dim` values.
    pub fn new(bytes: &'a [u8], kind: RowType, dim: usize, n: usize) -> std::result::Result<Self, FormatFault> {
        let stride = kind.stride(dim);
        let expected = (n as u64).saturating_mul((stride * kind.bytes()) as u64);
        if bytes.len() as u64 != expected {
            return Err(FormatFault::new(PART, format!("{expected} bytes"), bytes.len()));
        }
        let values = match kind {
            RowType::F32 => RowValues::F32(section::as_slice(bytes, PART)?),
            RowType::F16 => RowValues::F16(half::slice::HalfBitsSliceExt::reinterpret_cast(
                section::as_slice::<u16>(bytes, PART)?,
            )),
        };
        Ok(Self {
            values,
            dim,
            stride,
            n,
            on_disk: None,
        })
    }

    /// The same of a file that does not fit into memory: rows are asked for from the disk before they are read.
    #[must_use]
    pub fn on_disk(self, file: Option<&'a MmapFile>) -> Self {
        Self { on_disk: file, ..self }
    }

    /// No rows.
    pub const fn empty() -> Self {
        Self {
            values: RowValues::F32(&[]),
            dim: 0,
            stride: 0,
            n: 0,
            on_disk: None,
        }
    }

    /// Values per row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.n
    }

    /// No rows at all.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// A row as f32; empty where there is none.
    pub fn decode(&self, node: u32, row: &mut Vec<f32>) {
        row.clear();
        match self.values {
            RowValues::F32(values) => row.extend_from_slice(self.cut(values, node)),
            RowValues::F16(values) => row.extend(self.cut(values, node).iter().map(|value| value.to_f32())),
        }
    }

    fn cut<T>(&self, values: &'a [T], node: u32) -> &'a [T] {
        let start = node as usize * self.stride;
        values.get(start..start + self.dim).unwrap_or(&[])
    }
}

impl ExactRows for StoredRows<'_> {
    fn count(&self) -> usize {
        self.n
    }

    fn score(&self, node: u32, query: &[f32], metric: Metric) -> f32 {
        match self.values {
            RowValues::F32(values) => metric.score(query, self.cut(values, node)),
            RowValues::F16(values) => {
                let row = self.cut(values, node);
                if row.is_empty() {
                    return f32::NAN;
                }
                match metric {
                    Metric::Cosine | Metric::Dot => (kernels().dot_f16)(query, row),
                    Metric::L2 => {
                        let mut wide = [0.0f32; WIDENED];
                        let pieces = query.chunks(WIDENED).zip(row.chunks(WIDENED)).map(|(query, row)| {
                            for (wide, value) in wide.iter_mut().zip(row) {
                                *wide = value.to_f32();
                            }
                            metric.score(query, &wide[..row.len()])
                        });
                        pieces.sum()
                    }
                }
            }
        }
    }

    fn is_valid(&self, node: u32) -> bool {
        let mut row = Vec::new();
        self.decode(node, &mut row);
        !row.is_empty() && row.iter().all(|value| value.is_finite())
    }

    fn prefetch(&self, node: u32) {
        let row = match self.values {
            RowValues::F32(values) => self.cut(values, node).as_bytes(),
            RowValues::F16(values) => {
                let bits: &[u16] = half::slice::HalfFloatSliceExt::reinterpret_cast(self.cut(values, node));
                bits.as_bytes()
            }
        };
        match self.on_disk {
            Some(file) => file.read_soon(row),
            None => kernels::prefetch(row),
        }
    }
}

/// Rows of f32 in a mapped file.
#[derive(Debug, Clone, Copy)]
pub struct MappedRows<'a> {
    map: &'a MmapFile,
    rows: DenseRows<'a>,
}

impl<'a> MappedRows<'a> {
    /// Views a file of rows of `dim` values. An error where it does not hold whole values.
    pub fn new(map: &'a MmapFile, dim: usize) -> std::result::Result<Self, FormatFault> {
        Ok(Self {
            map,
            rows: DenseRows::new(section::as_slice(map, "rows")?, dim),
        })
    }
}

impl VectorRows for MappedRows<'_> {
    fn dim(&self) -> usize {
        self.rows.dim()
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn row(&self, node: u32) -> &[f32] {
        self.rows.row(node)
    }

    fn read_ahead(&self, rows: Range<usize>) {
        let bytes = (self.dim() * size_of::<f32>()) as u64;
        let (start, end) = (rows.start.min(self.len()) as u64, rows.end.min(self.len()) as u64);
        self.map.advise_needed(start * bytes, end.saturating_sub(start) * bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_rows_score_as_their_values_do() {
        for dim in [1, 63, 64, 65, 256, 257, 700] {
            let values: Vec<f32> = (0..3 * dim).map(|at| ((at * 37 % 101) as f32 - 50.0) / 40.0).collect();
            let query: Vec<f32> = (0..dim).map(|at| ((at * 53 % 97) as f32 - 48.0) / 40.0).collect();
            for kind in [RowType::F32, RowType::F16] {
                let mut bytes = Vec::new();
                write(&DenseRows::new(&values, dim), kind, &mut bytes).unwrap();
                // Aligned as a mapped section is.
                let words: Vec<u64> = bytes
                    .as_chunks::<8>()
                    .0
                    .iter()
                    .map(|chunk| u64::from_ne_bytes(*chunk))
                    .collect();
                let rows = StoredRows::new(words.as_bytes(), kind, dim, 3).unwrap();
                let mut row = Vec::new();
                for node in 0..3 {
                    rows.decode(node, &mut row);
                    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
                        let (stored, plain) = (rows.score(node, &query, metric), metric.score(&query, &row));
                        assert!(
                            (stored - plain).abs() <= 1e-5 * dim as f32,
                            "{kind:?} {metric:?} {dim}: {stored} {plain}"
                        );
                    }
                }
                assert!(rows.score(3, &query, Metric::L2).is_nan());
            }
        }
    }

    #[test]
    fn values_too_large_for_f16_are_refused() {
        let values = [1.0, 70_000.0];
        let rows = DenseRows::new(&values, 2);
        let error = write(&rows, RowType::F16, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("65504") && error.contains("70000"), "{error}");
        write(&rows, RowType::F32, &mut Vec::new()).unwrap();
    }
}
