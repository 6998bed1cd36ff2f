//! VECTORS: rows of f32 or f16, each padded to whole cache lines, or where the int8 code of each vector is that stands
//! for it; written once, then mapped.

use std::io::Write;

use half::f16;
use zerocopy::IntoBytes as _;

use super::{ALIGN, FormatFault, section};
use crate::error::{Error, Result};
use crate::kernels::{self, kernels};
use crate::model::Metric;
use crate::quant::{CodeRows, CodesView};
use crate::rows::VectorRows;
use crate::search::ExactRows;
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
    /// No rows besides the int8 codes that every shard has, which stand for the vectors: scores of unit vectors change
    /// by about 3e-4.
    Int8 = 2,
}

impl RowType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Int8];

    /// The type that vectors are stored in where none is asked for. By [`Metric::L2`], what is near may differ in
    /// digits that float16 does not have, far from the origin above all.
    pub fn usual(metric: Metric) -> Self {
        match metric {
            Metric::Cosine | Metric::Dot => Self::F16,
            Metric::L2 => Self::F32,
        }
    }

    /// Bytes of a stored value: of [`Self::Int8`] the number of the slot that has the code.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::Int8 => 4,
            Self::F16 => 2,
        }
    }

    /// Name as in command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Int8 => "int8",
        }
    }

    /// From its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Values of a stored row: `dim` rounded up to a cache line; of [`Self::Int8`] one.
    pub const fn stride(self, dim: usize) -> usize {
        match self {
            Self::F32 | Self::F16 => dim.next_multiple_of(ALIGN as usize / self.bytes()),
            Self::Int8 => 1,
        }
    }

    /// How much a stored vector may differ from the one that was given, as a share of its length.
    pub(crate) const fn rounding(self) -> f32 {
        match self {
            Self::F32 => 1e-5,
            Self::F16 => 1e-3,
            Self::Int8 => 1e-2,
        }
    }

    /// From its number in a header.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// Rows that are asked for while as many before them are written.
const READ_AHEAD: usize = 8_192;

/// Writes the section of a shard whose slots have these nodes.
pub fn write(rows: &dyn VectorRows, kind: RowType, order: &[u32], out: &mut impl Write) -> Result<()> {
    if kind == RowType::Int8 {
        return Ok(out.write_all(slots_of(order).as_bytes())?);
    }
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
            RowType::Int8 => {}
        }
    }
    Ok(())
}

/// The slot of each node.
fn slots_of(order: &[u32]) -> Vec<u32> {
    let mut slots = vec![u32::MAX; order.len()];
    for (slot, node) in (0..).zip(order) {
        if let Some(place) = slots.get_mut(*node as usize) {
            *place = slot;
        }
    }
    slots
}

#[derive(Debug, Clone, Copy)]
enum RowValues<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    Int8(CodeRows<'a>),
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
    /// Views the section of `n` vectors, of which these are the codes.
    pub fn new(
        bytes: &'a [u8],
        kind: RowType,
        codes: CodesView<'a>,
        n: usize,
    ) -> std::result::Result<Self, FormatFault> {
        let dim = codes.codec().dim();
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
            RowType::Int8 => RowValues::Int8(CodeRows::new(section::as_slice(bytes, PART)?, codes)),
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

    /// The slot whose int8 code stands for the vector of a node; none where rows are stored.
    pub(crate) fn slot(&self, node: u32) -> Option<u32> {
        match self.values {
            RowValues::Int8(codes) => codes.slots().get(node as usize).copied(),
            RowValues::F32(_) | RowValues::F16(_) => None,
        }
    }

    /// A row as f32; empty where there is none.
    pub fn decode(&self, node: u32, row: &mut Vec<f32>) {
        row.clear();
        match self.values {
            RowValues::F32(values) => row.extend_from_slice(self.cut(values, node)),
            RowValues::F16(values) => row.extend(self.cut(values, node).iter().map(|value| value.to_f32())),
            RowValues::Int8(codes) => codes.decode(node, row),
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
            RowValues::Int8(codes) => codes.score(node, &codes.prepare(query)),
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
        if let RowValues::Int8(codes) = self.values {
            return codes.is_valid(node);
        }
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
            RowValues::Int8(codes) => return codes.prefetch(node),
        };
        match self.on_disk {
            Some(file) => file.read_soon(row),
            None => kernels::prefetch(row),
        }
    }

    fn codes(&self) -> Option<CodeRows<'_>> {
        match self.values {
            RowValues::Int8(codes) => Some(codes),
            RowValues::F32(_) | RowValues::F16(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::{Codec, Codes};
    use crate::search::{DenseRows, RowQuestion};

    #[test]
    fn stored_rows_score_as_their_values_do() {
        for dim in [1, 63, 64, 65, 256, 257, 700] {
            let values: Vec<f32> = (0..3 * dim).map(|at| ((at * 37 % 101) as f32 - 50.0) / 40.0).collect();
            let query: Vec<f32> = (0..dim).map(|at| ((at * 53 % 97) as f32 - 48.0) / 40.0).collect();
            let (given, order) = (DenseRows::new(&values, dim), [2, 0, 1]);
            for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
                let codes = Codes::encode(&given, Codec::fit(&given, metric, 3)).reordered(&order);
                for kind in RowType::ALL {
                    let mut bytes = Vec::new();
                    write(&given, kind, &order, &mut bytes).unwrap();
                    bytes.resize(bytes.len().next_multiple_of(8), 0);
                    // Aligned as a mapped section is.
                    let words: Vec<u64> = bytes
                        .as_chunks::<8>()
                        .0
                        .iter()
                        .map(|chunk| u64::from_ne_bytes(*chunk))
                        .collect();
                    let section = &words.as_bytes()[..3 * kind.stride(dim) * kind.bytes()];
                    let rows = StoredRows::new(section, kind, codes.view(), 3).unwrap();
                    let mut row = Vec::new();
                    for node in 0..3 {
                        rows.decode(node, &mut row);
                        let (stored, plain) = (rows.score(node, &query, metric), metric.score(&query, &row));
                        let often = RowQuestion::new(&rows, &query, metric).score(node);
                        assert_eq!(stored.to_bits(), often.to_bits());
                        // The factors of int8 rows tell more than the row that is decoded.
                        let rounded = if kind == RowType::Int8 { 0.02 } else { 1e-5 };
                        assert!(
                            (stored - plain).abs() <= rounded * dim as f32,
                            "{kind:?} {metric:?} {dim}: {stored} {plain}"
                        );
                    }
                    assert!(rows.score(3, &query, metric).is_nan() && !rows.is_valid(3));
                }
            }
        }
    }

    #[test]
    fn values_too_large_for_f16_are_refused() {
        let values = [1.0, 70_000.0];
        let rows = DenseRows::new(&values, 2);
        let error = write(&rows, RowType::F16, &[0], &mut Vec::new())
            .unwrap_err()
            .to_string();
        assert!(error.contains("65504") && error.contains("70000"), "{error}");
        write(&rows, RowType::F32, &[0], &mut Vec::new()).unwrap();
    }
}
