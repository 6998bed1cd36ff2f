//! Exact neighbours by comparing every query with every row.
//!
//! Rows are taken in blocks that stay in the cache while all queries pass over them. The f32 scores of a block choose
//! some more candidates than wanted; those are scored again in f64, so that the order does not hang on rounding.

use dyad_command::Cancellation;
use dyad_index::kernels;
use dyad_index::search::{Scored, TopK};
use rayon::prelude::*;

use super::error::{Error, Result};
use super::matrix::{Matrix, Metric, Neighbours};

/// Bytes of rows that are compared with all queries before the next ones: half of a usual second-level cache.
const BLOCK_BYTES: usize = 512 << 10;
/// Candidates beyond k that f32 rounding may have put in the wrong order.
const SPARE: usize = 32;
/// Queries that one task carries.
const QUERIES: usize = 64;

/// The `k` nearest rows of every query (all rows where there are fewer), nearest first, ties by row, and their scores.
/// Runs on the current rayon pool.
pub fn exact(base: &Matrix, queries: &Matrix, k: usize, metric: Metric) -> (Neighbours, Vec<f32>) {
    // Nobody ends it.
    exact_unless(base, queries, k, metric, &Cancellation::new()).unwrap_or_default()
}

/// The same; [`Error::Cancelled`] soon after it is cancelled.
pub fn exact_unless(
    base: &Matrix,
    queries: &Matrix,
    k: usize,
    metric: Metric,
    cancel: &Cancellation,
) -> Result<(Neighbours, Vec<f32>)> {
    let k = k.min(base.len());
    let offsets: Vec<f32> = match metric {
        Metric::Ip => Vec::new(),
        // |q - x|^2 = |q|^2 - 2 (q x - |x|^2 / 2): the part in brackets orders as the distance does.
        Metric::L2 => base.rows().map(|row| 0.5 * kernels::dot(row, row)).collect(),
    };
    let groups: Vec<usize> = (0..queries.len()).step_by(QUERIES).collect();
    let scan = |first: usize| -> Result<Vec<(u32, f64)>> {
        let members = first..(first + QUERIES).min(queries.len());
        let mut best: Vec<TopK<Scored>> = members.clone().map(|_| TopK::new(k + SPARE)).collect();
        let block = (BLOCK_BYTES / (4 * base.dim().max(1))).max(1);
        for start in (0..base.len()).step_by(block) {
            if cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            for (query, best) in members.clone().zip(&mut best) {
                let query = queries.row(query);
                for row in start..(start + block).min(base.len()) {
                    let score = kernels::dot(query, base.row(row)) - offsets.get(row).copied().unwrap_or(0.0);
                    best.offer(Scored { node: row as u32, score });
                }
            }
        }
        let rescore = |(query, best): (usize, &mut TopK<Scored>)| {
            let exact = |hit: Scored| (hit.node, metric.score(queries.row(query), base.row(hit.node as usize)));
            let mut hits: Vec<(u32, f64)> = best.drain_sorted().into_iter().map(exact).collect();
            hits.sort_unstable_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
            hits.truncate(k);
            hits
        };
        Ok(members.zip(&mut best).flat_map(rescore).collect())
    };
    let found: Vec<Vec<(u32, f64)>> = groups.into_par_iter().map(scan).collect::<Result<_>>()?;
    let (ids, scores) = found.into_iter().flatten().map(|(id, score)| (id, score as f32)).unzip();
    Ok((Neighbours::new(k, ids), scores))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(n: usize, dim: usize, seed: u32) -> Matrix {
        let value = |at: usize| (((at as u32 + 1).wrapping_mul(2_654_435_761) ^ seed) % 1_009) as f32 / 100.0 - 5.0;
        Matrix::new(dim, (0..n * dim).map(value).collect())
    }

    /// A plain f64 sort of everything.
    fn oracle(base: &Matrix, query: &[f32], k: usize, metric: Metric) -> Vec<u32> {
        let mut all: Vec<(u32, f64)> =
            base.rows().enumerate().map(|(row, values)| (row as u32, metric.score(query, values))).collect();
        all.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        all.into_iter().take(k).map(|(row, _)| row).collect()
    }

    #[test]
    fn every_list_is_that_of_a_full_sort() {
        // Blocks of 512 KiB: 3,000 rows of 100 values are more than two; 130 queries are more than two groups.
        let (base, queries) = (matrix(3_000, 100, 7), matrix(130, 100, 99));
        for metric in [Metric::Ip, Metric::L2] {
            let (found, scores) = exact(&base, &queries, 12, metric);
            assert_eq!((found.len(), found.k(), scores.len()), (130, 12, 130 * 12));
            for (number, query) in queries.rows().enumerate() {
                assert_eq!(found.row(number), oracle(&base, query, 12, metric), "{metric:?} {number}");
            }
        }
    }

    #[test]
    fn a_scan_can_be_ended() {
        let rows = matrix(3, 2, 7);
        let cancel = Cancellation::new();
        cancel.cancel();
        let ended = exact_unless(&rows, &rows, 1, Metric::L2, &cancel);
        assert!(matches!(ended, Err(Error::Cancelled)));
    }

    #[test]
    fn fewer_rows_than_wanted_are_all_given_and_equal_ones_by_number() {
        let base = Matrix::new(2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
        let (found, _) = exact(&base, &Matrix::new(2, vec![1.0, 0.0]), 10, Metric::Ip);
        assert_eq!((found.k(), found.row(0)), (3, &[0, 2, 1][..]));
    }
}
