//! Exact neighbours by comparing every query with every row.
//!
//! The index's scan finds some more candidates than wanted by f32 scores; those are scored again in f64, so that the
//! order does not hang on rounding.

use dyad_command::JobCancellation;
use dyad_index::search::{Completeness, DenseRows, NodeSet, Scored, SearchHits, exact_scan};
use rayon::prelude::*;

use super::matrix::{Matrix, Neighbours, VectorMetric};
use crate::error::{BenchError, BenchResult};

/// Candidates beyond k that f32 rounding may have put in the wrong order.
const SPARE: usize = 32;
/// Queries that one pass over the rows compares.
const QUERIES: usize = 64;

/// The `k` nearest rows of every query (all rows where there are fewer), nearest first, ties by row, and their scores.
/// Runs on the current rayon pool; [`BenchError::Interrupted`] soon after it is cancelled.
pub fn exact(
    base: &Matrix,
    queries: &Matrix,
    k: usize,
    metric: VectorMetric,
    cancel: &JobCancellation,
) -> BenchResult<(Neighbours, Vec<f32>)> {
    exact_among(base, queries, k, metric, None, cancel)
}

/// The `k` nearest of the rows that are allowed, as [`exact`] gives them; of all rows where there is no such set.
pub fn exact_among(
    base: &Matrix,
    queries: &Matrix,
    k: usize,
    metric: VectorMetric,
    allowed: Option<&NodeSet>,
    cancel: &JobCancellation,
) -> BenchResult<(Neighbours, Vec<f32>)> {
    let k = k.min(allowed.map_or(base.len(), NodeSet::len));
    let rows = DenseRows::new(base.values(), base.dim());
    let scan = ExactScan {
        base,
        rows: &rows,
        k,
        metric,
        allowed,
        cancel,
    };
    let queries: Vec<&[f32]> = queries.rows().collect();
    let found: Vec<Vec<(u32, f64)>> = queries
        .par_chunks(QUERIES)
        .map(|queries| scan.run(queries))
        .collect::<BenchResult<_>>()?;
    let (ids, scores) = found
        .into_iter()
        .flatten()
        .map(|(id, score)| (id, score as f32))
        .unzip();
    Ok((Neighbours::new(k, ids), scores))
}

/// A comparison of queries with all rows, or with those that are allowed.
struct ExactScan<'a> {
    base: &'a Matrix,
    rows: &'a DenseRows<'a>,
    k: usize,
    metric: VectorMetric,
    allowed: Option<&'a NodeSet>,
    cancel: &'a JobCancellation,
}

impl ExactScan<'_> {
    /// The `k` nearest rows of each query, with their scores.
    fn run(&self, queries: &[&[f32]]) -> BenchResult<Vec<(u32, f64)>> {
        let should_continue = |_| !self.cancel.is_cancelled();
        let found = exact_scan(
            self.rows,
            queries,
            self.k + SPARE,
            self.metric.into(),
            self.allowed,
            should_continue,
        );
        if found.iter().any(|found| found.completeness == Completeness::Cancelled) {
            return Err(BenchError::Interrupted);
        }
        let mut nearest = Vec::with_capacity(queries.len() * self.k);
        for (query, found) in queries.iter().zip(found) {
            let mut hits = rescore(self.base, query, self.metric, &found);
            hits.truncate(self.k);
            nearest.extend(hits);
        }
        Ok(nearest)
    }
}

/// Rows that a scan has found, with their scores in f64: the nearest first, equal ones by number.
fn rescore(base: &Matrix, query: &[f32], metric: VectorMetric, found: &SearchHits<Scored>) -> Vec<(u32, f64)> {
    let score = |hit: &Scored| (hit.node, metric.score(query, base.row(hit.node as usize)));
    let mut hits: Vec<(u32, f64)> = found.hits.iter().map(score).collect();
    hits.sort_unstable_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(n: usize, dim: usize, seed: u32) -> Matrix {
        let value = |at: usize| (((at as u32 + 1).wrapping_mul(2_654_435_761) ^ seed) % 1_009) as f32 / 100.0 - 5.0;
        Matrix::new(dim, (0..n * dim).map(value).collect())
    }

    /// A plain f64 sort of everything.
    fn oracle(base: &Matrix, query: &[f32], k: usize, metric: VectorMetric) -> Vec<u32> {
        let mut all: Vec<(u32, f64)> = base
            .rows()
            .enumerate()
            .map(|(row, values)| (row as u32, metric.score(query, values)))
            .collect();
        all.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        all.into_iter().take(k).map(|(row, _)| row).collect()
    }

    #[test]
    fn every_list_is_that_of_a_full_sort() {
        // 130 queries are more than two groups.
        let (base, queries) = (matrix(3_000, 100, 7), matrix(130, 100, 99));
        for metric in [VectorMetric::Ip, VectorMetric::Dot, VectorMetric::L2] {
            let (found, scores) = exact(&base, &queries, 12, metric, &JobCancellation::new()).unwrap();
            assert_eq!((found.len(), found.k(), scores.len()), (130, 12, 130 * 12));
            for (number, query) in queries.rows().enumerate() {
                assert_eq!(
                    found.row(number),
                    oracle(&base, query, 12, metric),
                    "{metric:?} {number}"
                );
            }
        }
    }

    #[test]
    fn among_some_rows_lists_are_those_of_a_full_sort_without_the_others() {
        let (base, queries) = (matrix(900, 20, 7), matrix(70, 20, 99));
        let mut allowed = NodeSet::new(base.len());
        allowed.extend((0..900).filter(|row| row % 7 == 3));
        for (k, expected) in [(12, 12), (200, 129)] {
            let (found, _) = exact_among(
                &base,
                &queries,
                k,
                VectorMetric::L2,
                Some(&allowed),
                &JobCancellation::new(),
            )
            .unwrap();
            assert_eq!((found.len(), found.k()), (70, expected));
            for (number, query) in queries.rows().enumerate() {
                let mut all = oracle(&base, query, base.len(), VectorMetric::L2);
                all.retain(|row| row % 7 == 3);
                assert_eq!(found.row(number), &all[..expected], "{k} {number}");
            }
        }
    }

    #[test]
    fn a_scan_can_be_ended() {
        let rows = matrix(3, 2, 7);
        let cancel = JobCancellation::new();
        cancel.cancel();
        let ended = exact(&rows, &rows, 1, VectorMetric::L2, &cancel);
        assert!(matches!(ended, Err(BenchError::Interrupted)));
    }

    #[test]
    fn fewer_rows_than_wanted_are_all_given_and_equal_ones_by_number() {
        let base = Matrix::new(2, vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
        let (found, _) = exact(
            &base,
            &Matrix::new(2, vec![1.0, 0.0]),
            10,
            VectorMetric::Ip,
            &JobCancellation::new(),
        )
        .unwrap();
        assert_eq!((found.k(), found.row(0)), (3, &[0, 2, 1][..]));
    }
}
