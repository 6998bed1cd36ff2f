//! Questions that are unlike documents, for the part of a certificate that says what becomes of such questions.

use dyad_index::Metric;

use super::calibration::{SAMPLE_SEED, score_length};
use super::order;

/// How many there are at most.
pub(super) const FAR_QUESTIONS: usize = 100;

/// Questions as another encoder may give them: some of `asked`, mirrored at the origin along the mean of the documents
/// and moved by as much across it as documents are long ("modality gap": Liang et al. 2022, arXiv:2203.02053). One
/// after another. `documents` are a sample.
pub(super) fn far_questions<'a>(
    asked: impl Iterator<Item = &'a [f32]>,
    documents: &[&[f32]],
    metric: Metric,
    seed: u64,
) -> Vec<f32> {
    let dim = documents.first().map_or(0, |row| row.len());
    let mut mean = vec![0.0f32; dim];
    let mut squared = 0.0f32;
    let count = documents.len().max(1) as f32;
    for row in documents {
        for (sum, value) in mean.iter_mut().zip(*row) {
            *sum += value / count;
            squared += value * value / count;
        }
    }
    // A direction by chance, the same on every machine.
    let mut direction = vec![-1.0 / (dim as f32).sqrt(); dim];
    for at in order::choose_numbers(dim, 0.5, seed ^ SAMPLE_SEED) {
        if let Some(value) = direction.get_mut(at as usize) {
            *value = -*value;
        }
    }
    let mut all = Vec::with_capacity(FAR_QUESTIONS * dim);
    for row in asked.take(FAR_QUESTIONS) {
        let parts = row.iter().zip(&mean).zip(&direction);
        let moved: Vec<f32> = parts
            .map(|((value, mean), across)| value - 2.0 * mean + squared.sqrt() * across)
            .collect();
        let scale = match metric {
            Metric::Cosine => score_length(&moved, Metric::Dot).max(f32::MIN_POSITIVE),
            Metric::Dot | Metric::L2 => 1.0,
        };
        all.extend(moved.iter().map(|value| value / scale));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::tests::synthetic::Rows;
    use super::*;
    use dyad_index::search::{VectorRows as _, flat};

    #[test]
    fn they_are_farther_from_all_documents_than_documents_are() {
        let rows = Rows::clustered(600, 16, 8, 0.5, 2);
        let documents: Vec<&[f32]> = (0..600).map(|node| rows.row(node)).collect();
        for metric in [Metric::Cosine, Metric::L2] {
            let nearest = |row: &[f32], rank: usize| flat(&rows, row, 10, metric, None)[rank].score;
            let near: f32 = documents.iter().take(100).map(|row| nearest(row, 1)).sum();
            let far = far_questions(documents.iter().copied(), &documents, metric, 7);
            assert_eq!(far.len(), FAR_QUESTIONS * 16);
            let far: f32 = far.chunks(16).map(|row| nearest(row, 0)).sum();
            assert!(far < near - 10.0, "{metric:?}: {far} {near}");
        }
        assert!(far_questions(std::iter::empty(), &[], Metric::Dot, 7).is_empty());
    }
}
