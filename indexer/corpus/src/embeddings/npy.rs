//! NumPy's `.npy` format, version 1.0: a magic, the length of a header, a Python dictionary as text, the values.

use super::record::VectorType;

const MAGIC: &[u8] = b"\x93NUMPY\x01\x00";

/// The bytes before the values of a `[rows, dim]` array in C order, padded so that the values start at a multiple of 64.
pub(super) fn header(rows: u64, dim: usize, vectors: VectorType) -> Vec<u8> {
    let descr = match vectors {
        VectorType::F32 => "<f4",
        VectorType::F16 => "<f2",
    };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({rows}, {dim}), }}");
    let unpadded = MAGIC.len() + 2 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    text.push('\n');
    [MAGIC, &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
}

/// Whether a finite value stays finite in the file.
pub(super) fn holds(value: f32, vectors: VectorType) -> bool {
    vectors == VectorType::F32 || half::f16::from_f32(value).is_finite()
}

/// Values as they lie in the file.
pub(super) fn encode(row: &[f32], vectors: VectorType, out: &mut Vec<u8>) {
    match vectors {
        VectorType::F32 => out.extend(row.iter().flat_map(|value| value.to_le_bytes())),
        VectorType::F16 => out.extend(row.iter().flat_map(|value| half::f16::from_f32(*value).to_le_bytes())),
    }
}

/// Values of one row from its bytes.
pub(super) fn decode(bytes: &[u8], vectors: VectorType) -> Vec<f32> {
    match vectors {
        VectorType::F32 => bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect(),
        VectorType::F16 => {
            bytes.as_chunks::<2>().0.iter().map(|value| half::f16::from_le_bytes(*value).to_f32()).collect()
        }
    }
}
