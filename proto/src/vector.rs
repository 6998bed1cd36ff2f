//! Vectors as packed bytes: little-endian f32, one row after another. All packing and unpacking is done here.

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
    fn values_that_are_not_finite_are_named() {
        let error = unpack(&pack(&[1.0, 2.0, 3.0, f32::NAN]), 2, 2, "vectors").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`vectors`: vector 1 holds a value that is not finite at position 1"
        );
    }
}
