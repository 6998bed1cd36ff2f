//! Alignment and uniformity (Wang and Isola 2020, arXiv 2005.10242), and where the centroids lie.

use serde::Serialize;

/// Numbers of unit vectors; smaller alignment and smaller uniformity are better.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GeometryReport {
    /// Mean squared distance of a question and its answer, 0 to 4 (their `L_align`, alpha 2).
    pub alignment: f64,
    /// Logarithm of the mean of `exp(-2 d^2)` over pairs of different questions, 0 to -8 (their `L_uniform`, t 2).
    pub uniformity_questions: f64,
    /// The uniformity of the answers.
    pub uniformity_answers: f64,
    /// The same over all vectors of both towers.
    pub uniformity: f64,
    /// Mean cosine of a question and its answer.
    pub pair_cosine: f64,
    /// Cosine of the mean question and the mean answer.
    pub centroid_cosine: f64,
}

/// Computes them from row-major unit vectors; row `i` of both is a pair.
pub fn geometry(questions: &[f32], answers: &[f32], dim: usize) -> GeometryReport {
    let pairs = || questions.chunks_exact(dim).zip(answers.chunks_exact(dim));
    let both: Vec<f32> = questions.iter().chain(answers).copied().collect();
    let (question, answer) = (centroid(questions, dim), centroid(answers, dim));
    GeometryReport {
        alignment: mean(pairs().map(|(question, answer)| distance(question, answer))),
        uniformity_questions: uniformity(questions, dim),
        uniformity_answers: uniformity(answers, dim),
        uniformity: uniformity(&both, dim),
        pair_cosine: mean(pairs().map(|(question, answer)| cosine(question, answer))),
        centroid_cosine: cosine(&question, &answer),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

fn distance(one: &[f32], other: &[f32]) -> f64 {
    one.iter()
        .zip(other)
        .map(|(one, other)| f64::from(one - other).powi(2))
        .sum()
}

fn uniformity(vectors: &[f32], dim: usize) -> f64 {
    let rows: Vec<&[f32]> = vectors.chunks_exact(dim).collect();
    let pairs = rows
        .iter()
        .enumerate()
        .flat_map(|(at, one)| rows.iter().take(at).map(move |other| distance(one, other)));
    mean(pairs.map(|distance| (-2.0 * distance).exp())).ln()
}

fn centroid(vectors: &[f32], dim: usize) -> Vec<f64> {
    let mut sum = vec![0.0; dim];
    for row in vectors.chunks_exact(dim) {
        for (sum, value) in sum.iter_mut().zip(row) {
            *sum += f64::from(*value);
        }
    }
    sum
}

fn cosine<T: Copy + Into<f64>>(one: &[T], other: &[T]) -> f64 {
    let dot = |one: &[T], other: &[T]| -> f64 { one.iter().zip(other).map(|(&x, &y)| x.into() * y.into()).sum() };
    let length = (dot(one, one) * dot(other, other)).sqrt();
    if length > 0.0 { dot(one, other) / length } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_paper_on_a_small_set() {
        // Wang and Isola's own code:
        // x = torch.tensor([[1., 0.], [0., 1.], [-1., 0.]]); y = torch.tensor([[1., 0.], [0.6, 0.8], [0., 1.]])
        // (x - y).norm(p=2, dim=1).pow(2).mean(); torch.pdist(x, p=2).pow(2).mul(-2).exp().mean().log()
        let found = geometry(&[1.0, 0.0, 0.0, 1.0, -1.0, 0.0], &[1.0, 0.0, 0.6, 0.8, 0.0, 1.0], 2);
        assert!((found.alignment - (0.0 + 0.4 + 2.0) / 3.0).abs() < 1e-6);
        let questions = ((2.0 * f64::exp(-4.0) + f64::exp(-8.0)) / 3.0).ln();
        assert!((found.uniformity_questions - questions).abs() < 1e-6);
        let answers = ((f64::exp(-1.6) + f64::exp(-4.0) + f64::exp(-0.8)) / 3.0).ln();
        assert!((found.uniformity_answers - answers).abs() < 1e-5, "{found:?} {answers}");
        assert!((found.pair_cosine - 1.8 / 3.0).abs() < 1e-6);
        // (0, 1) and (1.6, 1.8)
        assert!((found.centroid_cosine - 1.8 / (1.6f64.powi(2) + 1.8f64.powi(2)).sqrt()).abs() < 1e-6);
    }
}
