//! How values are stored: the rows of a part.
//!
//! Rows in fewer bits than f16 have no length: they are read as unit vectors, which those of a model are, and of other
//! metrics than cosine there are none. A value in int8 is `round(127 x / m)`, where m is the largest value of its row
//! without its sign; in uint8 128 more. A bit is one where a value is above 0, as in sentence-transformers'
//! `quantize_embeddings`. What is read and written again stays as it is to the bit.

use dyad_files::npy::{self, NpyDtype};
use serde::{Deserialize, Serialize};

/// The largest whole number of a value in int8.
const MOST: f32 = 127.0;
/// What a value in uint8 is more than one in int8; the highest bit of a byte.
const OFFSET: u8 = 0x80;
/// Bits of a byte.
const BITS: usize = 8;

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum), value(rename_all = "lowercase"))]
pub enum VectorType {
    /// 4 bytes.
    F32,
    /// 2 bytes (IEEE half); about three digits, enough for unit vectors.
    F16,
    /// A signed byte.
    Int8,
    /// A byte, 128 more than in int8.
    Uint8,
    /// A bit, the first of eight the highest of a signed byte, which is the byte of `ubinary` less 128.
    Binary,
    /// A bit, the first of eight the highest of a byte.
    Ubinary,
}

impl VectorType {
    /// Bytes of a row; none where they are more than can be counted.
    pub const fn row_bytes(self, dim: usize) -> Option<usize> {
        match self {
            Self::F32 => dim.checked_mul(4),
            Self::F16 => dim.checked_mul(2),
            Self::Int8 | Self::Uint8 => Some(dim),
            Self::Binary | Self::Ubinary => Some(dim.div_ceil(BITS)),
        }
    }

    /// Whether rows have lost their length.
    pub const fn is_quantized(self) -> bool {
        !matches!(self, Self::F32 | Self::F16)
    }

    /// Whether a value is one bit.
    pub const fn is_bits(self) -> bool {
        matches!(self, Self::Binary | Self::Ubinary)
    }

    /// The bytes before the values of a part: NumPy's, of a `[rows, dim]` array, or `[rows, dim / 8]` of bits.
    pub(super) fn header(self, rows: u64, dim: usize) -> Vec<u8> {
        let (dtype, columns) = match self {
            Self::F32 => (NpyDtype::F32, dim),
            Self::F16 => (NpyDtype::F16, dim),
            Self::Int8 => (NpyDtype::I8, dim),
            Self::Uint8 => (NpyDtype::U8, dim),
            Self::Binary => (NpyDtype::I8, dim.div_ceil(BITS)),
            Self::Ubinary => (NpyDtype::U8, dim.div_ceil(BITS)),
        };
        npy::header(dtype, &[rows, columns as u64])
    }

    /// What a row of finite values has that these cannot hold, and how it can be kept.
    pub(super) fn refusal(self, row: &[f32]) -> Option<String> {
        match self {
            Self::F32 => None,
            Self::F16 => {
                let at = row.iter().position(|value| !half::f16::from_f32(*value).is_finite())?;
                Some(format!(
                    "holds a value that f16 cannot hold at position {at}. Store f32"
                ))
            }
            Self::Int8 | Self::Uint8 | Self::Binary | Self::Ubinary => {
                let name = format!("{self:?}").to_lowercase();
                (largest(row) == 0.0).then(|| format!("holds only zeros, which {name} cannot hold. Store f32 or f16"))
            }
        }
    }

    /// Appends values in the representation of a part.
    pub(super) fn encode(self, row: &[f32], out: &mut Vec<u8>) {
        match self {
            Self::F32 => out.extend(row.iter().flat_map(|value| value.to_le_bytes())),
            Self::F16 => out.extend(row.iter().flat_map(|value| half::f16::from_f32(*value).to_le_bytes())),
            Self::Int8 => out.extend(whole_numbers(row)),
            Self::Uint8 => out.extend(whole_numbers(row).map(|byte| byte ^ OFFSET)),
            Self::Binary => out.extend(row.chunks(BITS).map(|values| packed_bits(values) ^ OFFSET)),
            Self::Ubinary => out.extend(row.chunks(BITS).map(packed_bits)),
        }
    }

    /// The `dim` values of one row from its bytes.
    pub(super) fn decode(self, bytes: &[u8], dim: usize) -> Vec<f32> {
        match self {
            Self::F32 => bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|value| f32::from_le_bytes(*value))
                .collect(),
            Self::F16 => bytes
                .as_chunks::<2>()
                .0
                .iter()
                .map(|value| half::f16::from_le_bytes(*value).to_f32())
                .collect(),
            Self::Int8 => unit(bytes.iter().map(|byte| f32::from(byte.cast_signed()))),
            Self::Uint8 => unit(bytes.iter().map(|byte| f32::from((byte ^ OFFSET).cast_signed()))),
            Self::Binary => unit(signs(bytes, OFFSET, dim)),
            Self::Ubinary => unit(signs(bytes, 0, dim)),
        }
    }
}

/// The largest value without its sign.
fn largest(row: &[f32]) -> f32 {
    row.iter().fold(0.0, |most: f32, value| most.max(value.abs()))
}

/// The values of a row as whole numbers from -127 to 127.
fn whole_numbers(row: &[f32]) -> impl Iterator<Item = u8> {
    let most = f64::from(largest(row));
    row.iter()
        .map(move |value| (f64::from(*value) / most * f64::from(MOST)).round() as i8)
        .map(i8::cast_unsigned)
}

/// Up to eight values as the bits of a byte, the first one highest: whether each is above 0.
pub fn packed_bits(values: &[f32]) -> u8 {
    let mut byte = 0;
    for (place, value) in values.iter().take(BITS).enumerate() {
        if *value > 0.0 {
            byte |= OFFSET >> place;
        }
    }
    byte
}

/// The bits of bytes, which differ from those of `ubinary` by a mask, as 1 and -1.
fn signs(bytes: &[u8], mask: u8, dim: usize) -> impl Iterator<Item = f32> {
    let sign_at = move |at: usize| {
        let byte = bytes.get(at / BITS).copied().unwrap_or_default() ^ mask;
        let is_set = byte & (OFFSET >> (at % BITS)) != 0;
        if is_set { 1.0 } else { -1.0 }
    };
    (0..dim).map(sign_at)
}

/// Values as a vector of length 1; zeros, of which nothing wrote a row, stay zeros.
fn unit(values: impl Iterator<Item = f32>) -> Vec<f32> {
    let mut row: Vec<f32> = values.collect();
    let squares: f64 = row.iter().map(|value| f64::from(*value).powi(2)).sum();
    if squares > 0.0 {
        let length = squares.sqrt();
        for value in &mut row {
            *value = (f64::from(*value) / length) as f32;
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const QUANTIZED: [VectorType; 4] = [
        VectorType::Int8,
        VectorType::Uint8,
        VectorType::Binary,
        VectorType::Ubinary,
    ];

    fn encoded(kind: VectorType, row: &[f32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        kind.encode(row, &mut bytes);
        assert_eq!(bytes.len(), kind.row_bytes(row.len()).unwrap());
        bytes
    }

    /// By NumPy:
    ///
    /// ```text
    /// x = np.array([.5, -.25, 0, 1, .125, -1, .75, .0625, -.5], np.float32)
    /// np.round(x * 127).astype(np.int8)
    /// np.packbits(x > 0), np.packbits(x > 0).astype(int) - 128
    /// ```
    #[test]
    fn rows_are_those_of_numpy() {
        let row = [0.5, -0.25, 0.0, 1.0, 0.125, -1.0, 0.75, 0.0625, -0.5];
        let signed = |kind| -> Vec<i8> { encoded(kind, &row).into_iter().map(u8::cast_signed).collect() };
        assert_eq!(signed(VectorType::Int8), [64, -32, 0, 127, 16, -127, 95, 8, -64]);
        assert_eq!(
            encoded(VectorType::Uint8, &row),
            [192, 96, 128, 255, 144, 1, 223, 136, 64]
        );
        assert_eq!(encoded(VectorType::Ubinary, &row), [0b1001_1011, 0]);
        assert_eq!(
            signed(VectorType::Binary),
            [0b1001_1011_u8.wrapping_sub(128).cast_signed(), -128]
        );
    }

    #[test]
    fn zeros_have_no_direction() {
        for kind in QUANTIZED {
            let refused = kind.refusal(&[0.0, -0.0]).unwrap();
            assert!(
                refused.contains("holds only zeros, which") && refused.contains("Store f32"),
                "{refused}"
            );
            assert!(kind.refusal(&[0.0, f32::MIN_POSITIVE]).is_none());
        }
        assert!(VectorType::F16.refusal(&[1e6]).unwrap().contains("at position 0"));
        assert!(VectorType::F16.refusal(&[0.0]).is_none() && VectorType::F32.refusal(&[1e30]).is_none());
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_as_it_was(row in proptest::collection::vec(-1.0f32..1.0, 1..70)) {
            prop_assume!(largest(&row) > 0.0);
            for kind in QUANTIZED {
                let bytes = encoded(kind, &row);
                let read = kind.decode(&bytes, row.len());
                prop_assert_eq!(read.len(), row.len());
                let length: f32 = read.iter().map(|value| value * value).sum();
                prop_assert!((length - 1.0).abs() < 1e-5);
                prop_assert_eq!(encoded(kind, &read), bytes);
            }
        }

        #[test]
        fn a_value_in_int8_is_within_half_a_step(row in proptest::collection::vec(-1.0f32..1.0, 1..70)) {
            let most = largest(&row);
            prop_assume!(most > 0.0);
            for (value, byte) in row.iter().zip(encoded(VectorType::Int8, &row)) {
                let read = f32::from(byte.cast_signed()) * most / MOST;
                prop_assert!((read - value).abs() <= 0.501 * most / MOST);
            }
        }
    }
}
