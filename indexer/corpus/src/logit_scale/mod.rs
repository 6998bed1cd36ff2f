//! The logit scale of a model: how much a difference of cosines says, in natural units of information.
//!
//! A dual encoder is trained with a softmax over `scale * cosine` (the inverse temperature; CLIP's `logit_scale`,
//! Radford et al. 2021), but its files rarely say with which scale, and models differ by four times: all-MiniLM-L6-v2
//! has 22.6, multilingual-e5-small 100. So it is estimated, once for a model, on texts that come with the program.
//!
//! `pairs.tsv` is made of 200 short encyclopedia articles, those of the quick start's corpus: a run of half the words
//! at a random place is the question (an inverse cloze task, Lee, Chang and Toutanova 2019), and title and rest of the
//! article are its document. The question tower embeds questions, the answer tower documents.

use std::ops::RangeInclusive;

/// Scales at which rankings have been measured with several models; outside them an estimate is not used.
pub const LOGIT_SCALES: RangeInclusive<f64> = 5.65..=113.0;

/// What is told where a model is measured and has no scale in [`LOGIT_SCALES`].
pub const NO_LOGIT_SCALE: &str =
    "the model has no logit scale that hybrid searches can use: they fuse by FUSION_WEIGHTED_SUM";

/// Lines of a question, a tabulator and its document.
const PAIRS: &str = include_str!("pairs.tsv");
/// Scales that are tried are 2 to the power of 1, 1.05, 1.1, ..., 9.
const STEPS_OF_A_POWER: u32 = 20;
const POWERS: RangeInclusive<u32> = STEPS_OF_A_POWER..=9 * STEPS_OF_A_POWER;

/// The texts to be embedded by the question tower.
pub fn questions() -> Vec<String> {
    pairs().map(|(question, _)| question.to_owned()).collect()
}

/// The texts to be embedded by the answer tower, each the document of the question at its place.
pub fn documents() -> Vec<String> {
    pairs().map(|(_, document)| document.to_owned()).collect()
}

fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAIRS.lines().filter_map(|line| line.split_once('\t'))
}

/// The scale at which a softmax over all documents gives each question's own the highest mean log-likelihood.
/// `questions` and `documents` are unit vectors of `dim` values, one after the other. `None` where that is outside
/// [`LOGIT_SCALES`], where there are fewer than two pairs, and where a value is not finite.
pub fn estimate(questions: &[f32], documents: &[f32], dim: usize) -> Option<f64> {
    let pairs = questions.len() / dim.max(1);
    if pairs < 2 || questions.len() != pairs * dim || documents.len() != questions.len() {
        return None;
    }
    let cosines: Vec<Vec<f64>> = questions
        .chunks_exact(dim)
        .map(|question| cosines_of(question, documents.chunks_exact(dim)))
        .collect();
    if cosines.iter().flatten().any(|cosine| !cosine.is_finite()) {
        return None;
    }
    let scales = POWERS.map(|power| (f64::from(power) / f64::from(STEPS_OF_A_POWER)).exp2());
    let likelihoods = scales.map(|scale| (scale, log_likelihood(&cosines, scale)));
    let (scale, _) = likelihoods.max_by(|one, other| one.1.total_cmp(&other.1))?;
    LOGIT_SCALES.contains(&scale).then_some(scale)
}

fn cosines_of<'v>(question: &[f32], documents: impl Iterator<Item = &'v [f32]>) -> Vec<f64> {
    let dot = |document: &[f32]| {
        question
            .iter()
            .zip(document)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum()
    };
    documents.map(dot).collect()
}

/// The sum over all rows `i` of `scale c_ii - ln sum_j exp(scale c_ij)`.
fn log_likelihood(cosines: &[Vec<f64>], scale: f64) -> f64 {
    let of_row = |(own, row): (usize, &Vec<f64>)| {
        // Of the largest, so that no exponential overflows.
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|cosine| (scale * (cosine - largest)).exp()).sum();
        let own = row.get(own).copied().unwrap_or_default();
        scale * (own - largest) - sum.ln()
    };
    cosines.iter().enumerate().map(of_row).sum()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    #[test]
    fn every_line_is_a_pair_of_texts() {
        let (questions, documents) = (questions(), documents());
        assert_eq!((questions.len(), documents.len()), (200, 200));
        let words = |text: &String| text.split(' ').count();
        assert!(questions.iter().all(|text| words(text) >= 5) && documents.iter().all(|text| words(text) >= 5));
    }

    /// Of random unit vectors, each question's document is drawn by the softmax itself: its scale is found. A model
    /// whose cosines are all half as far apart has twice that scale.
    #[test]
    fn the_scale_that_chose_the_pairs_is_found() {
        let (dim, count, scale) = (64, 2_000, 32.0_f64);
        let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
        let mut unit = || {
            let values: Vec<f32> = (0..dim).map(|_| random.random::<f32>() - 0.5).collect();
            let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
            values.into_iter().map(|value| value / length).collect::<Vec<f32>>()
        };
        let documents: Vec<Vec<f32>> = (0..200).map(|_| unit()).collect();
        let candidates: Vec<Vec<f32>> = (0..count).map(|_| unit()).collect();
        let flat: Vec<f32> = documents.concat();
        // The first question for which a document was drawn.
        let mut own: Vec<Option<Vec<f32>>> = vec![None; documents.len()];
        for question in candidates {
            let logits: Vec<f64> = cosines_of(&question, flat.chunks_exact(dim))
                .iter()
                .map(|cosine| (scale * cosine).exp())
                .collect();
            let mut at = random.random::<f64>() * logits.iter().sum::<f64>();
            let drawn = logits.iter().position(|weight| {
                at -= weight;
                at <= 0.0
            });
            own[drawn.unwrap()].get_or_insert(question);
        }
        let kept: Vec<usize> = (0..documents.len()).filter(|at| own[*at].is_some()).collect();
        assert!(kept.len() > 150, "{}", kept.len());
        let questions: Vec<f32> = kept.iter().flat_map(|at| own[*at].clone().unwrap()).collect();
        let answers: Vec<f32> = kept.iter().flat_map(|at| documents[*at].clone()).collect();
        let found = estimate(&questions, &answers, dim).unwrap();
        assert!((found / scale).ln().abs() < 0.15, "{found}");

        // Of (v, 1) / sqrt(2) the cosine is half of that of v, and a half.
        let nearer = |rows: &[f32]| -> Vec<f32> {
            let half = std::f32::consts::FRAC_1_SQRT_2;
            let row = |row: &[f32]| row.iter().chain(&[1.0]).map(|value| half * value).collect::<Vec<f32>>();
            rows.chunks_exact(dim).flat_map(row).collect()
        };
        let doubled = estimate(&nearer(&questions), &nearer(&answers), dim + 1).unwrap();
        assert!((doubled / found - 2.0).abs() < 1e-9, "{doubled}");
    }

    #[test]
    fn what_says_nothing_has_no_scale() {
        let pair = |own: f32| [own, (1.0 - own * own).sqrt(), (1.0 - own * own).sqrt(), own];
        // Perfect at any scale, so at the highest; wrong at any, so at the lowest; and alike.
        for questions in [
            [1.0, 0.0, 0.0, 1.0],
            [0.0, 1.0, 1.0, 0.0],
            pair(std::f32::consts::FRAC_1_SQRT_2),
        ] {
            assert_eq!(estimate(&questions, &[1.0, 0.0, 0.0, 1.0], 2), None, "{questions:?}");
        }
        assert_eq!(estimate(&[f32::NAN, 0.0, 0.0, 1.0], &[1.0, 0.0, 0.0, 1.0], 2), None);
        assert_eq!(estimate(&[], &[], 2), None);
        assert_eq!(estimate(&[1.0, 0.0], &[1.0, 0.0, 0.0, 1.0], 2), None);
        assert_eq!(estimate(&[1.0, 0.0], &[1.0, 0.0], 0), None);
    }
}
