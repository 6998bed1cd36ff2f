//! Vectors beside those of the first engine.

use crate::dataset::Matrix;

/// The smallest cosine between rows of the same number. Rows of no length, and values that are not finite, count as -1.
///
/// An error says in words how the shapes differ.
pub(super) fn smallest_cosine(first: &Matrix, other: &Matrix) -> Result<f64, String> {
    if (first.len(), first.dim()) != (other.len(), other.dim()) {
        return Err(format!("{} vectors of {} values", first.len(), first.dim()));
    }
    Ok(first.rows().zip(other.rows()).map(|(left, right)| cosine(left, right)).fold(1.0, f64::min))
}

fn cosine(left: &[f32], right: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let cosine = dot(left, right) / (dot(left, left).sqrt() * dot(right, right).sqrt());
    if cosine.is_finite() { cosine.clamp(-1.0, 1.0) } else { -1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_row_counts() {
        let first = Matrix::new(2, vec![1.0, 0.0, 0.0, 2.0]);
        assert!((smallest_cosine(&first, &first).unwrap() - 1.0).abs() < 1e-12);
        let turned = Matrix::new(2, vec![3.0, 0.0, 1.0, 1.0]);
        assert!((smallest_cosine(&first, &turned).unwrap() - 0.5f64.sqrt()).abs() < 1e-9);
        for broken in [0.0, f32::NAN] {
            let broken = Matrix::new(2, vec![1.0, 0.0, broken, broken]);
            assert!((smallest_cosine(&first, &broken).unwrap() + 1.0).abs() < 1e-12);
        }
        let fewer = Matrix::new(2, vec![1.0, 0.0]);
        assert_eq!(smallest_cosine(&first, &fewer), Err("2 vectors of 2 values".to_owned()));
    }
}
