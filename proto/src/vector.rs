//! Vectors as packed bytes: little-endian f32, one row after another. All packing and unpacking is done here. Of
//! vectors in fewer bits, how many bytes they have.

use crate::v1;

/// Bytes that are not the expected vectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// Not `rows * dim * 4` bytes.
    #[error("`{field}`: expected {expected} bytes ({rows} vectors of {dim} f32 values), got {got}")]
    Length {
        /// Field of the message.
        field: String,
        /// Vectors expected.
        rows: usize,
        /// Values per vector.
        dim: usize,
        /// Bytes expected.
        expected: usize,
        /// Bytes received.
        got: usize,
    },
    /// Not as many bytes as `rows` vectors take in a precision.
    #[error("`{field}`: expected {expected} bytes ({rows} vectors of {dim} values as {precision}), got {got}")]
    QuantizedLength {
        /// Field of the message.
        field: String,
        /// Vectors expected.
        rows: usize,
        /// Values per vector.
        dim: usize,
        /// How they are written.
        precision: &'static str,
        /// Bytes expected.
        expected: usize,
        /// Bytes received.
        got: usize,
    },
    /// NaN or infinity.
    #[error("`{field}`: vector {row} holds a value that is not finite at position {position}")]
    NotFinite {
        /// Field of the message.
        field: String,
        /// Vector, from 0.
        row: usize,
        /// Place in the vector, from 0.
        position: usize,
    },
}

/// Values to bytes.
pub fn pack(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Bytes of a vector of `dim` values.
pub fn bytes_per_vector(precision: v1::Precision, dim: usize) -> usize {
    match precision {
        v1::Precision::Float32 => dim.saturating_mul(4),
        v1::Precision::Int8 | v1::Precision::Uint8 => dim,
        v1::Precision::Binary | v1::Precision::Ubinary => dim.div_ceil(8),
    }
}

/// Checks that bytes are `rows` vectors of `dim` values in this precision; those of f32 are finite.
pub fn check(bytes: &[u8], rows: usize, dim: usize, precision: v1::Precision, field: &str) -> Result<(), VectorError> {
    if precision == v1::Precision::Float32 {
        return unpack(bytes, rows, dim, field).map(drop);
    }
    let expected = rows.saturating_mul(bytes_per_vector(precision, dim));
    if bytes.len() == expected && dim > 0 {
        return Ok(());
    }
    Err(VectorError::QuantizedLength {
        field: field.to_owned(),
        rows,
        dim,
        precision: precision.as_str_name(),
        expected,
        got: bytes.len(),
    })
}

/// Bytes to `rows * dim` finite values.
pub fn unpack(bytes: &[u8], rows: usize, dim: usize, field: &str) -> Result<Vec<f32>, VectorError> {
    let expected = rows.saturating_mul(dim).saturating_mul(4);
    if bytes.len() != expected || dim == 0 {
        return Err(VectorError::Length {
            field: field.to_owned(),
            rows,
            dim,
            expected,
            got: bytes.len(),
        });
    }
    let values: Vec<f32> = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|value| f32::from_le_bytes(*value))
        .collect();
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(VectorError::NotFinite {
            field: field.to_owned(),
            row: at / dim,
            position: at % dim,
        }),
        None => Ok(values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_little_endian_and_comes_back() {
        let values = [1.0, -0.5, f32::MIN_POSITIVE, 3.25e8];
        let bytes = pack(&values);
        assert_eq!(bytes[..4], [0, 0, 0x80, 0x3f]);
        assert_eq!(unpack(&bytes, 2, 2, "vectors").unwrap(), values);
    }

    #[test]
    fn wrong_lengths_are_named() {
        let error = unpack(&[0; 15], 2, 2, "vectors").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`vectors`: expected 16 bytes (2 vectors of 2 f32 values), got 15"
        );
        assert!(unpack(&[], 0, 0, "vectors").is_err());
        assert!(unpack(&[0; 4], usize::MAX, 8, "vectors").is_err());
    }

    #[test]
    fn quantized_vectors_have_as_many_bytes_as_their_precision_takes() {
        use v1::Precision::{Binary, Float32, Int8, Ubinary, Uint8};
        for (precision, bytes) in [(Float32, 40), (Int8, 10), (Uint8, 10), (Binary, 2), (Ubinary, 2)] {
            assert_eq!(bytes_per_vector(precision, 10), bytes, "{precision:?}");
            let check = |bytes: usize| check(&vec![0; 3 * bytes], 3, 10, precision, "vectors");
            assert_eq!(check(bytes), Ok(()), "{precision:?}");
            assert!(check(bytes + 1).is_err() && check(bytes - 1).is_err(), "{precision:?}");
        }
        let error = check(&[0; 7], 2, 4, Int8, "vectors").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`vectors`: expected 8 bytes (2 vectors of 4 values as PRECISION_INT8), got 7"
        );
        assert!(check(&[], 0, 0, Int8, "vectors").is_err());
        assert!(check(&pack(&[f32::NAN]), 1, 1, Float32, "vectors").is_err());
    }

    #[test]
    fn values_that_are_not_finite_are_named() {
        let error = unpack(&pack(&[1.0, 2.0, 3.0, f32::NAN]), 2, 2, "vectors").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`vectors`: vector 1 holds a value that is not finite at position 1"
        );
    }
}
