//! Recall, with ties counted for nobody and against nobody.

use crate::dataset::{Matrix, Neighbours, VectorMetric};

/// Scores this much below the k-th true score still count as equal to it (relative to scores larger than 1).
const TIE: f64 = 1e-6;

/// For every query the score that a hit must have: that of its k-th true neighbour.
#[derive(Debug, Clone)]
pub struct RecallJudge<'a> {
    base: &'a Matrix,
    pub(super) queries: &'a Matrix,
    metric: VectorMetric,
    pub(super) k: usize,
    /// Hits of a query that can be right.
    wanted: usize,
    floors: Vec<f64>,
}

impl<'a> RecallJudge<'a> {
    /// Takes the scores of the true neighbours from the vectors themselves, so that rounding in the truth file cannot
    /// count.
    pub fn new(base: &'a Matrix, queries: &'a Matrix, truth: &Neighbours, k: usize, metric: VectorMetric) -> Self {
        let floor = |query: usize| {
            let score = |id: &u32| metric.score(queries.row(query), base.row(*id as usize));
            let worst = truth.row(query).iter().take(k).map(score).fold(f64::INFINITY, f64::min);
            worst - TIE * worst.abs().max(1.0)
        };
        let floors = (0..queries.len()).map(floor).collect();
        Self {
            base,
            queries,
            metric,
            k,
            wanted: k.min(truth.k()).max(1),
            floors,
        }
    }

    /// Mean over the queries of the share of the `k` wanted that were found. `ids` holds `k` per query; -1 and
    /// duplicates count as nothing. Ids outside of the data are counted as nothing too: see [`RecallJudge::foreign`].
    pub fn recall(&self, ids: &[i64]) -> f64 {
        let mut found = 0;
        for ((query, floor), hits) in self.queries.rows().zip(&self.floors).zip(ids.chunks(self.k.max(1))) {
            for (at, id) in hits.iter().enumerate() {
                let repeated = hits[..at].contains(id);
                let row = usize::try_from(*id)
                    .ok()
                    .filter(|row| *row < self.base.len() && !repeated);
                let near = |row: usize| self.metric.score(query, self.base.row(row)) >= *floor;
                found += usize::from(row.is_some_and(near));
            }
        }
        found as f64 / (self.wanted * self.queries.len().max(1)) as f64
    }

    /// An id that names no row, if there is one: a reply that cannot be right.
    pub fn foreign(&self, ids: &[i64]) -> Option<i64> {
        ids.iter().copied().find(|id| *id < -1 || *id >= self.base.len() as i64)
    }

    /// Exact distances of ids in the unit of ann-benchmarks: 1 - cosine, or the Euclidean distance; infinite for no
    /// row.
    pub fn distances(&self, ids: &[i64]) -> Vec<f32> {
        let hits = self.queries.rows().zip(ids.chunks(self.k.max(1)));
        hits.flat_map(|(query, ids)| ids.iter().map(move |id| self.distance(query, *id)))
            .collect()
    }

    fn distance(&self, query: &[f32], id: i64) -> f32 {
        let row = usize::try_from(id).ok().filter(|row| *row < self.base.len());
        let Some(row) = row else { return f32::INFINITY };
        let score = self.metric.score(query, self.base.row(row));
        let distance = match self.metric {
            VectorMetric::Ip | VectorMetric::Dot => 1.0 - score,
            VectorMetric::L2 => (-score).max(0.0).sqrt(),
        };
        distance as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Matrix {
        // Rows at 0, 1, 2, 2, 3, 9 on a line.
        Matrix::new(1, vec![0.0, 1.0, 2.0, 2.0, 3.0, 9.0])
    }

    #[test]
    fn ties_count_for_everybody_and_duplicates_once() {
        let (base, queries) = (line(), Matrix::new(1, vec![0.0, 9.0]));
        // The third nearest of 0 is row 2, tied with row 3.
        let truth = Neighbours::new(3, vec![0, 1, 2, 5, 4, 2]);
        let judge = RecallJudge::new(&base, &queries, &truth, 3, VectorMetric::L2);
        let recall = |ids: [i64; 6]| judge.recall(&ids);
        assert!((recall([0, 1, 2, 5, 4, 2]) - 1.0).abs() < 1e-12);
        assert!((recall([3, 1, 0, 5, 4, 3]) - 1.0).abs() < 1e-12, "a tie at the cut");
        assert!((recall([1, 1, 1, 5, 4, 3]) - 4.0 / 6.0).abs() < 1e-12, "duplicates");
        assert!(
            (recall([0, -1, -1, 5, 0, 1]) - 2.0 / 6.0).abs() < 1e-12,
            "padding and far rows"
        );
        assert!((recall([0, 1, 77, -5, 4, 2]) - 4.0 / 6.0).abs() < 1e-12, "no such rows");
        assert_eq!(
            (judge.foreign(&[0, -1, 5]), judge.foreign(&[0, 6]), judge.foreign(&[-2])),
            (None, Some(6), Some(-2))
        );
    }

    #[test]
    fn fewer_rows_than_k_can_be_found_completely() {
        let (base, queries) = (Matrix::new(1, vec![1.0, 2.0]), Matrix::new(1, vec![0.0]));
        let judge = RecallJudge::new(&base, &queries, &Neighbours::new(2, vec![0, 1]), 10, VectorMetric::L2);
        assert!((judge.recall(&[1, 0, -1, -1, -1, -1, -1, -1, -1, -1]) - 1.0).abs() < 1e-12);
    }
}
