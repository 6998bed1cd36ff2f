//! Codes of rows of any length, as of unit vectors of one more value, so that a graph can be built for inner products.
//!
//! By inner product the longest rows are near to all others, and rows are not near to themselves: links to the nearest rows by it lead to
//! the longest ones only. With M the longest length, a row x becomes (x / M, sqrt(1 - |x|^2 / M^2)), which has length 1, and a question q
//! becomes (q, 0): every inner product of the two is <q, x> / M, so that the ranking is the same, and rows are near to each other as unit
//! vectors are (Bachrach et al. 2014, "Speeding up the Xbox recommender system using a Euclidean transformation for inner-product
//! spaces", section 4; Neyshabur and Srebro 2015, "On symmetric and asymmetric LSHs for inner product search", equation 4).
//!
//! Only a graph's builder sees these rows. A search compares a question with the rows as they are, which gives the same ranking, so that
//! M is needed nowhere else, and longer rows may come later.

use dyad_index::Metric;
use dyad_index::quant::{Codec, Codes};
use dyad_index::search::{DenseRows, VectorRows};
use rayon::prelude::*;

use super::encode::BLOCK;
use crate::control::JobControl;
use crate::error::Error;

/// Codes of all rows, augmented, on the current rayon pool; `codec` is that of the rows as they are. Advances progress by one per row.
///
/// Returns [`Error::Cancelled`] soon after it is cancelled.
pub(super) fn encode(rows: &dyn VectorRows, codec: &Codec, control: JobControl<'_>) -> Result<Codes, Error> {
    let (n, dim) = (rows.len(), rows.dim());
    let squares = squared_lengths(rows, control)?;
    let longest = squares.iter().copied().fold(0.0, f64::max).sqrt();
    // Rows of zeros only are one point.
    let inverse = if longest > 0.0 { 1.0 / longest } else { 0.0 };
    let height = |square: f64| (1.0 - square * inverse * inverse).max(0.0).sqrt();
    let mean_height = squares.iter().map(|square| height(*square)).sum::<f64>() / (n as f64).max(1.0);
    let scaled = |value: &f32| (f64::from(*value) * inverse) as f32;
    let centre = codec.centre().iter().map(scaled).chain([mean_height as f32]).collect();

    let mut codes = Codes::with_capacity(Codec::new(centre, Metric::Cosine, codec.seed()), n);
    let mut block = vec![0.0f32; BLOCK.min(n) * (dim + 1)];
    for first in (0..n).step_by(BLOCK) {
        control.check()?;
        rows.read_ahead(first + BLOCK..first + 2 * BLOCK);
        let squares = squares.get(first..n.min(first + BLOCK)).unwrap_or(&[]);
        block.truncate(squares.len() * (dim + 1));
        block.par_chunks_exact_mut(dim + 1).zip(squares).enumerate().for_each(|(at, (augmented, square))| {
            let row = rows.row((first + at) as u32).iter().map(scaled).chain([height(*square) as f32]);
            augmented.iter_mut().zip(row).for_each(|(place, value)| *place = value);
        });
        codes.append(&Codes::encode(&DenseRows::new(&block, dim + 1), codes.codec.clone()));
        control.progress.advance(squares.len() as u64);
    }
    Ok(codes)
}

/// In f64: the difference to the longest row's is what becomes the additional value.
fn squared_lengths(rows: &dyn VectorRows, control: JobControl<'_>) -> Result<Vec<f64>, Error> {
    let mut squares = Vec::with_capacity(rows.len());
    for first in (0..rows.len()).step_by(BLOCK) {
        control.check()?;
        rows.read_ahead(first + BLOCK..first + 2 * BLOCK);
        let block = (first..rows.len().min(first + BLOCK)).into_par_iter();
        let square = |row: usize| rows.row(row as u32).iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
        squares.par_extend(block.map(square));
    }
    Ok(squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_build::tests::{cancelled, synthetic::Rows};

    /// Rows of lengths from 1 to 5, in another order than that of their directions.
    fn of_many_lengths(n: usize) -> (Vec<f32>, usize) {
        let rows = Rows::clustered(n, 8, 5, 0.5, 1);
        let scaled = |node: usize| {
            let length = 1.0 + 4.0 * ((node * 37 % n) as f32 / n as f32);
            rows.row(node as u32).iter().map(move |value| value * length).collect::<Vec<f32>>()
        };
        ((0..n).flat_map(scaled).collect(), 8)
    }

    #[test]
    fn codes_are_those_of_unit_vectors_that_rank_as_inner_products_do() {
        let (values, dim) = of_many_lengths(2 * BLOCK + 3);
        let rows = DenseRows::new(&values, dim);
        let codec = Codec::fit(&rows, Metric::Dot, 3);
        let codes = encode(&rows, &codec, JobControl::silent()).unwrap();
        assert_eq!((codes.codec.dim(), codes.codec.metric()), (dim + 1, Metric::Cosine));

        // The slow way, all at once.
        let length = |row: &[f32]| row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        let longest = (0..rows.len()).map(|node| length(rows.row(node as u32))).fold(0.0, f64::max);
        let augmented: Vec<f32> = (0..rows.len() as u32)
            .flat_map(|node| {
                let row: Vec<f64> = rows.row(node).iter().map(|value| f64::from(*value) / longest).collect();
                let height = (1.0 - row.iter().map(|value| value * value).sum::<f64>()).max(0.0).sqrt();
                row.into_iter().chain([height]).map(|value| value as f32)
            })
            .collect();
        let unit = DenseRows::new(&augmented, dim + 1);
        assert!((0..unit.len()).all(|node| (length(unit.row(node as u32)) - 1.0).abs() < 1e-6));
        assert_eq!(codes.rows, Codes::encode(&unit, codes.codec.clone()).rows);

        let question: Vec<f32> = rows.row(77).iter().map(|value| value * 0.3).collect();
        let lifted: Vec<f32> = question.iter().copied().chain([0.0]).collect();
        let nearest = |rows: &DenseRows<'_>, question: &[f32], metric| -> Vec<u32> {
            dyad_index::search::flat(rows, question, 20, metric, None).into_iter().map(|hit| hit.node).collect()
        };
        assert_eq!(nearest(&rows, &question, Metric::Dot), nearest(&unit, &lifted, Metric::Cosine));
    }

    #[test]
    fn rows_of_zeros_and_no_rows_have_codes() {
        for n in [0, 1, 5] {
            let values = vec![0.0; 3 * n];
            let rows = DenseRows::new(&values, 3);
            let codes = encode(&rows, &Codec::fit(&rows, Metric::Dot, 3), JobControl::silent()).unwrap();
            assert_eq!(codes.rows.len(), n * dyad_index::quant::row_bytes(4));
        }
    }

    #[test]
    fn encoding_can_be_cancelled() {
        let (values, dim) = of_many_lengths(10);
        let rows = DenseRows::new(&values, dim);
        let control = JobControl { cancel: &cancelled(), ..JobControl::silent() };
        assert!(matches!(encode(&rows, &Codec::fit(&rows, Metric::Dot, 3), control), Err(Error::Cancelled)));
    }
}
