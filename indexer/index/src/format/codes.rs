//! CODES: centre and seed of the quantiser, sketches and int8 rows by slot; written once, then mapped.

use std::io::{self, Write};

use zerocopy::IntoBytes;

use super::{FormatFault, align, section};
use crate::model::Metric;
use crate::quant::{Codec, Codes, CodesView, line_words, row_bytes};

const PART: &str = "CODES";
/// Bytes before the centre.
const HEAD: u64 = 64;

/// Offsets of everything, from the start of the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CodeOffsets {
    lines_at: u64,
    rows_at: u64,
    end: u64,
}

fn places(n: u64, dim: u64) -> Option<CodeOffsets> {
    let lines_at = align(HEAD + dim * 4);
    let lines = n.checked_mul(line_words(dim as usize) as u64 * 8)?;
    let rows_at = align(lines_at.checked_add(lines)?);
    let end = rows_at.checked_add(n.checked_mul(row_bytes(dim as usize) as u64)?)?;
    Some(CodeOffsets { lines_at, rows_at, end })
}

/// Writes the section.
pub fn write(codes: &Codes, out: &mut impl Write) -> io::Result<()> {
    let mut head = vec![0; HEAD as usize];
    let dim = codes.codec.dim();
    let fields = [
        codes.codec.seed(),
        u64::from(dim as u32) | (line_words(dim) as u64) << 32,
        row_bytes(dim) as u64,
    ];
    for (slot, field) in head.chunks_exact_mut(8).zip(fields) {
        slot.copy_from_slice(&field.to_le_bytes());
    }
    let mut padded = |bytes: &[u8]| {
        out.write_all(bytes)?;
        let padding = align(bytes.len() as u64) as usize - bytes.len();
        out.write_all(&[0; super::ALIGN as usize][..padding])
    };
    head.extend_from_slice(codes.codec.centre().as_bytes());
    padded(&head)?;
    padded(codes.lines.as_bytes())?;
    out.write_all(&codes.rows)
}

/// The head of the section: the quantiser, and the offsets of the codes.
#[derive(Debug, Clone, PartialEq)]
pub struct CodesTable {
    codec: Codec,
    n: u64,
    places: CodeOffsets,
}

impl CodesTable {
    /// Reads the head of a section over `n` vectors of `dim` values and checks that its arrays fill the section.
    pub fn parse(bytes: &[u8], n: u64, dim: u32, metric: Metric) -> Result<Self, FormatFault> {
        let head = section::array::<u64>(bytes, 0, 3, PART)?;
        let at = |place: usize| head.get(place).copied().unwrap_or(0);
        let shape = (
            u64::from(dim) | (line_words(dim as usize) as u64) << 32,
            row_bytes(dim as usize) as u64,
        );
        if (at(1), at(2)) != shape {
            let say = |(first, bytes): (u64, u64)| {
                format!(
                    "dim {}, {} words a sketch, {bytes} bytes a row",
                    first as u32,
                    first >> 32
                )
            };
            return Err(FormatFault::new(PART, say(shape), say((at(1), at(2)))));
        }
        let places = places(n, u64::from(dim))
            .filter(|places| places.end == bytes.len() as u64)
            .ok_or_else(|| FormatFault::new(PART, format!("codes of {n} rows"), format!("{} bytes", bytes.len())))?;
        let centre = section::array::<f32>(bytes, HEAD, u64::from(dim), PART)?;
        if let Some(value) = centre.iter().find(|value| !value.is_finite()) {
            return Err(FormatFault::new(PART, "a finite centre", value));
        }
        Ok(Self {
            codec: Codec::new(centre.to_vec(), metric, at(0)),
            n,
            places,
        })
    }

    /// A view of the section. `bytes` is what the head was read from.
    pub fn view<'a>(&'a self, bytes: &'a [u8]) -> CodesView<'a> {
        let dim = self.codec.dim();
        let lines = section::array(bytes, self.places.lines_at, self.n * line_words(dim) as u64, PART).unwrap_or(&[]);
        let rows = bytes
            .get(self.places.rows_at as usize..self.places.end as usize)
            .unwrap_or(&[]);
        CodesView::new(&self.codec, lines, rows)
    }
}
