//! How well a linear classifier tells questions from answers: logistic regression, cross-validated.

use crate::random::Random;
use serde::Serialize;

/// Parts of the cross-validation.
const FOLDS: usize = 5;
/// Steps of the descent: far more than its value needs to settle.
const STEPS: usize = 300;

/// Accuracy of the linear probe on held-out pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Separation {
    /// Share of vectors that it gives to the right tower: 0.5 where the towers are mixed, 1 where a plane parts them.
    pub accuracy: f64,
    /// One standard error of the accuracy over the folds.
    pub standard_error: f64,
    /// Parts of the cross-validation.
    pub folds: usize,
}

/// Fits L2-regularised logistic regression (strength as scikit-learn's `C = 1`, over centred vectors of unit mean
/// variance) on four fifths of the pairs and counts on the last, for every fifth. A question and its answer stay
/// together, so that neither tower is more frequent in a part. Both are row-major with `dim` values per row and equally
/// many rows.
pub fn separation(questions: &[f32], answers: &[f32], dim: usize, seed: u64) -> Separation {
    let pairs: Vec<(&[f32], &[f32])> = questions.chunks_exact(dim).zip(answers.chunks_exact(dim)).collect();
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    Random::of(&[seed, 0x666f_6c64]).shuffle(&mut order);
    let folds = FOLDS.min(pairs.len());
    let accuracies: Vec<f64> = (0..folds)
        .map(|fold| {
            let (mut held_out, mut fitted) = (Vec::new(), Vec::new());
            for (at, &pair) in order.iter().enumerate() {
                let rows = if at % folds == fold { &mut held_out } else { &mut fitted };
                if let Some(&(question, answer)) = pairs.get(pair) {
                    rows.extend([(question, 1.0), (answer, 0.0)]);
                }
            }
            let classifier = Classifier::fit(&fitted, dim);
            let right = held_out
                .iter()
                .filter(|(row, label)| classifier.is_question(row) == (*label > 0.5))
                .count();
            right as f64 / held_out.len().max(1) as f64
        })
        .collect();
    let mean = accuracies.iter().sum::<f64>() / folds.max(1) as f64;
    let variance = accuracies.iter().map(|accuracy| (accuracy - mean).powi(2)).sum::<f64>() / (folds.max(2) - 1) as f64;
    Separation {
        accuracy: mean,
        standard_error: (variance / folds.max(1) as f64).sqrt(),
        folds,
    }
}

/// A plane: weights over `(row - mean) * scale`.
struct Classifier {
    mean: Vec<f64>,
    scale: f64,
    weights: Vec<f64>,
    bias: f64,
}

impl Classifier {
    fn fit(rows: &[(&[f32], f64)], dim: usize) -> Self {
        let count = rows.len().max(1) as f64;
        let mut mean = vec![0.0; dim];
        for (row, _) in rows {
            mean.iter_mut()
                .zip(*row)
                .for_each(|(mean, value)| *mean += f64::from(*value) / count);
        }
        let centred: Vec<Vec<f64>> = rows
            .iter()
            .map(|(row, _)| {
                row.iter()
                    .zip(&mean)
                    .map(|(value, mean)| f64::from(*value) - mean)
                    .collect()
            })
            .collect();
        let variance = centred.iter().flatten().map(|value| value * value).sum::<f64>() / (count * dim as f64);
        let scale = if variance > 0.0 { variance.sqrt().recip() } else { 1.0 };
        let scaled: Vec<Vec<f64>> = centred
            .into_iter()
            .map(|row| row.into_iter().map(|value| value * scale).collect())
            .collect();
        let labels: Vec<f64> = rows.iter().map(|(_, label)| *label).collect();
        let (weights, bias) = descend(&scaled, &labels, dim);
        Self {
            mean,
            scale,
            weights,
            bias,
        }
    }

    fn is_question(&self, row: &[f32]) -> bool {
        let terms = row.iter().zip(&self.mean).zip(&self.weights);
        terms
            .map(|((value, mean), weight)| (f64::from(*value) - mean) * self.scale * weight)
            .sum::<f64>()
            + self.bias
            > 0.0
    }
}

/// Minimises the mean logistic loss plus `|w|^2 / (2 n)` by accelerated gradient descent (Nesterov 1983) with restarts
/// where it turns uphill (O'Donoghue and Candès 2015).
fn descend(rows: &[Vec<f64>], labels: &[f64], dim: usize) -> (Vec<f64>, f64) {
    let count = rows.len().max(1) as f64;
    let decay = 1.0 / count;
    let step = 1.0 / (0.25 * (largest(rows, dim) + 1.0) + decay);
    let (mut point, mut bias) = (vec![0.0; dim], 0.0);
    let (mut ahead, mut bias_ahead, mut momentum) = (point.clone(), bias, 1.0f64);
    for _ in 0..STEPS {
        let mut gradient: Vec<f64> = ahead.iter().map(|weight| weight * decay).collect();
        let mut bias_gradient = 0.0;
        for (row, label) in rows.iter().zip(labels) {
            let score = row
                .iter()
                .zip(&ahead)
                .map(|(value, weight)| value * weight)
                .sum::<f64>()
                + bias_ahead;
            let error = (1.0 / (1.0 + (-score).exp()) - label) / count;
            gradient
                .iter_mut()
                .zip(row)
                .for_each(|(gradient, value)| *gradient += error * value);
            bias_gradient += error;
        }
        let next: Vec<f64> = ahead
            .iter()
            .zip(&gradient)
            .map(|(ahead, gradient)| ahead - step * gradient)
            .collect();
        let next_bias = bias_ahead - step * bias_gradient;
        let uphill = gradient
            .iter()
            .zip(next.iter().zip(&point))
            .map(|(g, (next, point))| g * (next - point))
            .sum::<f64>();
        let following = if uphill > 0.0 {
            1.0
        } else {
            f64::midpoint(1.0, (1.0 + 4.0 * momentum * momentum).sqrt())
        };
        let push = if uphill > 0.0 {
            0.0
        } else {
            (momentum - 1.0) / following
        };
        ahead = next
            .iter()
            .zip(&point)
            .map(|(next, point)| next + push * (next - point))
            .collect();
        bias_ahead = next_bias + push * (next_bias - bias);
        (point, bias, momentum) = (next, next_bias, following);
    }
    (point, bias)
}

/// The largest eigenvalue of the rows' covariance, by power iteration from a fixed start; a little above it.
fn largest(rows: &[Vec<f64>], dim: usize) -> f64 {
    let mut random = Random::new(1);
    let mut direction: Vec<f64> = (0..dim).map(|_| random.normal()).collect();
    let mut eigenvalue = 0.0;
    for _ in 0..30 {
        let length = direction
            .iter()
            .map(|value| value * value)
            .sum::<f64>()
            .sqrt()
            .max(f64::MIN_POSITIVE);
        for value in &mut direction {
            *value /= length;
        }
        let mut image = vec![0.0; dim];
        for row in rows {
            let along: f64 = row
                .iter()
                .zip(&direction)
                .map(|(value, direction)| value * direction)
                .sum();
            image
                .iter_mut()
                .zip(row)
                .for_each(|(image, value)| *image += along * value / rows.len() as f64);
        }
        eigenvalue = image.iter().map(|value| value * value).sum::<f64>().sqrt();
        direction = image;
    }
    eigenvalue * 1.1
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: usize = 8;

    /// Normal vectors around `centre` in the first value.
    fn cloud(count: usize, centre: f64, seed: u64) -> Vec<f32> {
        let mut random = Random::new(seed);
        (0..count * DIM)
            .map(|at| (random.normal() + if at % DIM == 0 { centre } else { 0.0 }) as f32)
            .collect()
    }

    #[test]
    fn separate_clouds_are_told_apart_and_one_cloud_is_not() {
        let apart = separation(&cloud(400, 6.0, 1), &cloud(400, -6.0, 2), DIM, 0);
        assert!(apart.accuracy > 0.999 && apart.folds == 5, "{apart:?}");
        let mixed = separation(&cloud(400, 0.0, 3), &cloud(400, 0.0, 4), DIM, 0);
        assert!((mixed.accuracy - 0.5).abs() < 0.06, "{mixed:?}");
    }

    #[test]
    fn overlapping_clouds_come_to_the_best_that_can_be() {
        // Two normal clouds two deviations apart: no classifier beats Phi(1) = 0.8413.
        let found = separation(&cloud(2000, 1.0, 5), &cloud(2000, -1.0, 6), DIM, 0);
        assert!((found.accuracy - 0.8413).abs() < 0.015, "{found:?}");
        assert!(found.standard_error < 0.02);
    }

    #[test]
    fn a_small_offset_in_narrow_clouds_is_found_too() {
        let narrow = |centre, seed| {
            cloud(400, centre, seed)
                .into_iter()
                .map(|value| value * 1e-3 + 0.5)
                .collect::<Vec<f32>>()
        };
        let found = separation(&narrow(6.0, 7), &narrow(-6.0, 8), DIM, 0);
        assert!(found.accuracy > 0.999, "{found:?}");
    }

    #[test]
    fn the_descent_reaches_the_minimum() {
        let rows: Vec<Vec<f64>> = cloud(60, 0.5, 9)
            .chunks(DIM)
            .map(|row| row.iter().map(|value| f64::from(*value)).collect())
            .collect();
        let labels: Vec<f64> = (0..60).map(|at| f64::from(at % 3 == 0)).collect();
        let (weights, bias) = descend(&rows, &labels, DIM);
        // The gradient vanishes there.
        let mut gradient = vec![0.0; DIM + 1];
        for (row, label) in rows.iter().zip(&labels) {
            let score = row
                .iter()
                .zip(&weights)
                .map(|(value, weight)| value * weight)
                .sum::<f64>()
                + bias;
            let error = 1.0 / (1.0 + (-score).exp()) - label;
            (0..DIM).for_each(|at| gradient[at] += error * row[at] / 60.0);
            gradient[DIM] += error / 60.0;
        }
        (0..DIM).for_each(|at| gradient[at] += weights[at] / 60.0);
        assert!(gradient.iter().all(|value| value.abs() < 1e-6), "{gradient:?}");
    }

    #[test]
    fn nothing_is_told_apart_in_nothing() {
        assert_eq!(separation(&[], &[], DIM, 0).folds, 0);
        let same = separation(&[1.0; 80], &[1.0; 80], DIM, 0);
        assert!((same.accuracy - 0.5).abs() < 1e-9, "{same:?}");
    }
}
