//! Codes of rows of any length for the graph of inner products: with their lengths evened out in part.
//!
//! By inner product the longest rows are near to all others, so that most links of a graph of nearest rows lead to them
//! (Morozov and Babenko 2018, "Non-metric similarity graphs for maximum inner product search"); and where directions
//! alone count, links do not lead to the long rows that answers are. Between both, a row of length l gets the length
//! l^0.8 while the graph is built. Adjusting norms for edges alone is the idea of Tan et al. 2021, "Norm adjusted
//! proximity graph for fast inner product retrieval".
//!
//! Measured on 40,000 made-up embeddings of 384 values whose lengths are log-normal with a deviation of 0.3, recall@10
//! for estimates at ef 64: exponent 1 .965 for 2,140; 0.9 .983 for 2,119; 0.8 .984 for 2,195; 0.7 .985 for 2,269; 0.5
//! .982 for 2,280; 0 .833 for 1,922. Unit vectors of one more value, by which inner products rank as cosines do
//! (Bachrach et al. 2014), .341 for 915. On MiniLM sentences with a deviation of 0.1, exponents from 0.5 to 1 are alike
//! (.986 to .989).
//!
//! Only a graph's builder sees these rows. A search compares a question with the rows as they are.

use dyad_index::Metric;
use dyad_index::quant::{Codec, Codes};
use dyad_index::search::{DenseRows, VectorRows};
use rayon::prelude::*;

use super::encode::BLOCK;
use crate::control::JobControl;
use crate::error::Error;

/// Exponent of the lengths.
const EXPONENT: f64 = 0.8;
/// Most rows that the mean is taken of, as in [`Codec::fit`].
const FIT_ROWS: usize = 1 << 16;

/// Codes of all rows, their lengths evened out, on the current rayon pool. Advances progress by one per row.
///
/// Returns [`Error::Cancelled`] soon after it is cancelled.
pub(super) fn encode(rows: &dyn VectorRows, seed: u64, control: JobControl<'_>) -> Result<Codes, Error> {
    let (n, dim) = (rows.len(), rows.dim());
    let mut codes = Codes::with_capacity(Codec::new(centre(rows), Metric::Dot, seed), n);
    let mut block = vec![0.0f32; BLOCK.min(n) * dim];
    for first in (0..n).step_by(BLOCK) {
        control.check()?;
        rows.read_ahead(first + BLOCK..first + 2 * BLOCK);
        let count = BLOCK.min(n - first);
        block.truncate(count * dim);
        block.par_chunks_exact_mut(dim).enumerate().for_each(|(at, evened)| {
            let row = rows.row((first + at) as u32);
            let factor = factor(row);
            evened
                .iter_mut()
                .zip(row)
                .for_each(|(place, value)| *place = (f64::from(*value) * factor) as f32);
        });
        codes.append(&Codes::encode(&DenseRows::new(&block, dim), codes.codec.clone()));
        control.progress.advance(count as u64);
    }
    Ok(codes)
}

/// The mean of evenly spaced rows, their lengths evened out.
fn centre(rows: &dyn VectorRows) -> Vec<f32> {
    let (n, mut sums) = (rows.len(), vec![0.0f64; rows.dim()]);
    let sampled = (0..n).step_by(n.div_ceil(FIT_ROWS).max(1));
    let count = sampled.len().max(1) as f64;
    for node in sampled {
        let row = rows.row(node as u32);
        let factor = factor(row);
        sums.iter_mut()
            .zip(row)
            .for_each(|(sum, value)| *sum += f64::from(*value) * factor);
    }
    sums.into_iter().map(|sum| (sum / count) as f32).collect()
}

/// What a row is multiplied with; 0 for one of zeros.
fn factor(row: &[f32]) -> f64 {
    let length = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 { length.powf(EXPONENT - 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph_build::tests::{cancelled, synthetic::Rows};

    const DIM: usize = 8;

    /// Rows of lengths from 1 to 5, in another order than that of their directions; the first is one of zeros.
    fn of_many_lengths(n: usize) -> Vec<f32> {
        let rows = Rows::clustered(n, DIM, 5, 0.5, 1);
        let scaled = |node: usize| {
            let length = if node == 0 {
                0.0
            } else {
                1.0 + 4.0 * ((node * 37 % n) as f32 / n as f32)
            };
            rows.row(node as u32)
                .iter()
                .map(move |value| value * length)
                .collect::<Vec<f32>>()
        };
        (0..n).flat_map(scaled).collect()
    }

    #[test]
    fn codes_are_those_of_rows_whose_lengths_are_a_power_of_their_own() {
        let values = of_many_lengths(2 * BLOCK + 3);
        let codes = encode(&DenseRows::new(&values, DIM), 3, JobControl::silent()).unwrap();
        assert_eq!(
            (codes.codec.dim(), codes.codec.metric(), codes.codec.seed()),
            (DIM, Metric::Dot, 3)
        );
        let length = |row: &[f32]| row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        let evened: Vec<f32> = values
            .chunks(DIM)
            .flat_map(|row| {
                row.iter()
                    .map(|value| (f64::from(*value) * length(row).max(1e-30).powf(-0.2)) as f32)
            })
            .collect();
        let rows = DenseRows::new(&evened, DIM);
        for (node, row) in values.chunks(DIM).enumerate() {
            assert!((length(rows.row(node as u32)) - length(row).powf(0.8)).abs() < 1e-5);
        }
        let fitted = Codec::fit(&rows, Metric::Dot, 3);
        assert!(
            codes
                .codec
                .centre()
                .iter()
                .zip(fitted.centre())
                .all(|(a, b)| (a - b).abs() < 1e-6)
        );
        assert_eq!(codes.rows, Codes::encode(&rows, codes.codec.clone()).rows);
    }

    #[test]
    fn rows_of_zeros_and_no_rows_have_codes() {
        for n in [0, 1, 5] {
            let values = vec![0.0; 3 * n];
            let codes = encode(&DenseRows::new(&values, 3), 3, JobControl::silent()).unwrap();
            assert_eq!(codes.rows.len(), n * dyad_index::quant::row_bytes(3));
        }
    }

    #[test]
    fn encoding_can_be_cancelled() {
        let values = of_many_lengths(10);
        let control = JobControl {
            cancel: &cancelled(),
            ..JobControl::silent()
        };
        assert!(matches!(
            encode(&DenseRows::new(&values, DIM), 3, control),
            Err(Error::Cancelled)
        ));
    }
}
