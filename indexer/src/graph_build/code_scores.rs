//! Scores of any two rows from their int8 codes alone, for a builder that compares pairs of rows rather than one row
//! with many.

use dyad_index::kernels;
use dyad_index::quant::{Codes, line_words, row_bytes};

/// Signed codes of all rows next to the unsigned ones, and the terms that each row adds to its scores.
#[derive(Debug)]
pub(super) struct CodeScores<'a> {
    codes: &'a Codes,
    signed: Vec<i8>,
    factors: Vec<CodeFactors>,
    width: usize,
    centre_squared: f32,
    dot: fn(&[i8], &[u8]) -> i32,
}

#[derive(Debug, Clone, Copy)]
struct CodeFactors {
    /// Steps of the int8 row.
    scale: f32,
    /// Inner product of row and centre.
    bias: f32,
    /// 128 times the sum of the codes: the other row of a product is stored with 128 added.
    offset: i32,
}

impl<'a> CodeScores<'a> {
    /// Makes the signed copy.
    pub(super) fn new(codes: &'a Codes) -> Self {
        let (dim, centre) = (codes.codec.dim(), codes.codec.centre());
        let (width, words, bits) = (row_bytes(dim), line_words(dim), dim.div_ceil(64));
        let signed: Vec<i8> = codes.rows.iter().map(|code| (code ^ 0x80).cast_signed()).collect();
        let factors = codes
            .lines
            .chunks_exact(words)
            .zip(signed.chunks_exact(width))
            .map(|(line, row)| {
                // `Codes::lines`: bits, then sketch factor and error, then scale and bias.
                let word = line.get(bits + 1).copied().unwrap_or(0);
                CodeFactors {
                    scale: f32::from_bits(word as u32),
                    bias: f32::from_bits((word >> 32) as u32),
                    offset: 128 * row.iter().map(|value| i32::from(*value)).sum::<i32>(),
                }
            });
        let factors = factors.collect();
        let kernels = kernels::kernels();
        Self {
            codes,
            signed,
            factors,
            width,
            centre_squared: (kernels.dot)(centre, centre),
            dot: kernels.dot_i8,
        }
    }

    /// Bytes per row of this copy.
    pub(super) fn node_bytes(dim: usize) -> u64 {
        (row_bytes(dim) + size_of::<CodeFactors>()) as u64
    }

    /// The approximate score of two rows: with `r` the residual of a row from the centre `c`, for cosine
    /// `<a, b> = <ra, rb> + <a, c> + <b, c> - <c, c>`. NaN where there is no such row.
    pub(super) fn score(&self, left: u32, right: u32) -> f32 {
        let (left, right) = (left as usize, right as usize);
        let rows = (
            self.signed.get(left * self.width..(left + 1) * self.width),
            self.codes.rows.get(right * self.width..(right + 1) * self.width),
        );
        let ((Some(a), Some(b)), Some(of_a), Some(of_b)) = (rows, self.factors.get(left), self.factors.get(right))
        else {
            return f32::NAN;
        };
        let product = (self.dot)(a, b).wrapping_sub(of_a.offset);
        product as f32 * (of_a.scale * of_b.scale) + of_a.bias + of_b.bias - self.centre_squared
    }
}

#[cfg(test)]
mod tests {
    use dyad_index::Metric;
    use dyad_index::quant::Codec;
    use dyad_index::search::VectorRows as _;

    use super::*;
    use crate::graph_build::tests::synthetic::Rows;

    #[test]
    fn scores_are_those_of_the_vectors_to_a_hundredth_and_symmetric() {
        for dim in [8, 63, 64, 100] {
            let rows = Rows::clustered(60, dim, 5, 0.6, 1);
            let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 3));
            let scores = CodeScores::new(&codes);
            for left in 0..60 {
                for right in 0..60 {
                    let (score, exact) = (scores.score(left, right), kernels::dot(rows.row(left), rows.row(right)));
                    assert!((score - exact).abs() < 1e-2, "dim {dim}: {score}, exactly {exact}");
                    assert!((score - scores.score(right, left)).abs() < 1e-5);
                }
            }
            assert!(scores.score(0, 60).is_nan() && scores.score(60, 0).is_nan());
        }
    }
}
