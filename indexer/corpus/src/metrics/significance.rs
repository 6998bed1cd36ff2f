//! Whether two systems differ by more than chance: paired tests over the values of the same questions.
//!
//! - [`randomisation_test`]: under the hypothesis that the systems are equal, the assignment of each pair of values to
//!   them is a coin toss (Fisher 1935; Smucker, Allan and Carterette 2007). Exact where the tosses can be enumerated.
//! - [`bootstrap`]: questions sampled with replacement; the percentile interval of the mean difference, and the
//!   two-sided p-value of the distribution shifted to zero (Efron and Tibshirani 1993; Sakai 2006).

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

use super::evaluate::Evaluation;
use super::measure::RankingMetric;

/// Parameters of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Rounds of each test.
    pub rounds: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Share of the distribution that the interval covers, between 0 and 1.
    pub confidence: f64,
}

impl Default for Sampling {
    /// 100,000 rounds, seed 0, 95 %.
    fn default() -> Self {
        Self {
            rounds: 100_000,
            seed: 0,
            confidence: 0.95,
        }
    }
}

/// Two systems on the same questions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedComparison {
    /// Questions.
    pub questions: usize,
    /// Mean of the first system.
    pub first: f64,
    /// Mean of the second.
    pub second: f64,
    /// Second minus first.
    pub difference: f64,
    /// The bootstrap's interval of the difference.
    pub interval: (f64, f64),
    /// Two-sided p-value of the bootstrap.
    pub p_bootstrap: f64,
    /// Two-sided p-value of the randomisation test.
    pub p_randomisation: f64,
}

/// Why two systems cannot be compared.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incomparable {
    /// Another number of questions.
    #[error("a paired test needs the same questions: the first system has {first}, the second {second}")]
    Lengths {
        /// Questions of the first system.
        first: usize,
        /// Questions of the second system.
        second: usize,
    },
    /// A question that only one of them has.
    #[error(
        "a paired test needs the same questions: `{key}` is in one of them only. Evaluate both over all judged questions"
    )]
    Question {
        /// Its key.
        key: String,
    },
    /// A metric that one of them was not asked for.
    #[error("metric `{metric}` was not computed for both systems")]
    Metric {
        /// Its name.
        metric: String,
    },
    /// Nothing to compare.
    #[error("a paired test needs at least one question")]
    Empty,
    /// A value that cannot be averaged.
    #[error("the value of question {number} is not finite")]
    NotFinite {
        /// Counted from 1.
        number: usize,
    },
}

/// Compares one metric of two evaluations of the same questions.
pub fn compare(
    first: &Evaluation,
    second: &Evaluation,
    metric: RankingMetric,
    sampling: Sampling,
) -> Result<PairedComparison, Incomparable> {
    let [left, right] = [first, second].map(|evaluation| {
        let at = evaluation.metrics.iter().position(|&other| other == metric)?;
        Some(
            evaluation
                .queries
                .values()
                .filter_map(|values| values.get(at).copied())
                .collect::<Vec<f64>>(),
        )
    });
    let (Some(left), Some(right)) = (left, right) else {
        return Err(Incomparable::Metric {
            metric: metric.to_string(),
        });
    };
    let lone = |from: &Evaluation, other: &Evaluation| {
        from.queries
            .keys()
            .find(|key| !other.queries.contains_key(*key))
            .map(ToOwned::to_owned)
    };
    if let Some(key) = lone(first, second).or_else(|| lone(second, first)) {
        return Err(Incomparable::Question { key });
    }
    compare_values(&left, &right, sampling)
}

/// Compares values of the same questions in the same order.
pub fn compare_values(first: &[f64], second: &[f64], sampling: Sampling) -> Result<PairedComparison, Incomparable> {
    let differences = differences(first, second)?;
    let (interval, p_bootstrap) = bootstrap(&differences, sampling);
    Ok(PairedComparison {
        questions: differences.len(),
        first: mean(first),
        second: mean(second),
        difference: mean(&differences),
        interval,
        p_bootstrap,
        p_randomisation: randomisation_test(&differences, sampling),
    })
}

fn differences(first: &[f64], second: &[f64]) -> Result<Vec<f64>, Incomparable> {
    if first.len() != second.len() {
        return Err(Incomparable::Lengths {
            first: first.len(),
            second: second.len(),
        });
    }
    if first.is_empty() {
        return Err(Incomparable::Empty);
    }
    let differences: Vec<f64> = first.iter().zip(second).map(|(first, second)| second - first).collect();
    match differences.iter().position(|difference| !difference.is_finite()) {
        Some(at) => Err(Incomparable::NotFinite { number: at + 1 }),
        None => Ok(differences),
    }
}

/// Two-sided p-value of the mean of paired differences under random signs. Enumerated where the signs are at most as
/// many as the rounds; else sampled, counting the observed signs as one more round, so that it is never 0. Zero
/// differences, whose sign means nothing, are left out of the tosses.
pub fn randomisation_test(differences: &[f64], sampling: Sampling) -> f64 {
    let tossed: Vec<f64> = differences
        .iter()
        .copied()
        .filter(|difference| difference.abs() > 0.0)
        .collect();
    let assignments = u32::try_from(tossed.len())
        .ok()
        .and_then(|count| 1usize.checked_shl(count));
    match assignments {
        Some(count) if count <= sampling.rounds => exact(&tossed, count),
        _ => sampled(&tossed, sampling),
    }
}

/// The share of all sign assignments whose sum is at least as far from zero.
fn exact(differences: &[f64], assignments: usize) -> f64 {
    let bound = extreme(differences);
    let sums = (0..assignments).map(|signs| {
        let signed = |(at, value): (usize, &f64)| if (signs >> at) & 1 == 1 { *value } else { -value };
        differences.iter().enumerate().map(signed).sum::<f64>()
    });
    sums.filter(|sum| sum.abs() >= bound).count() as f64 / assignments as f64
}

fn sampled(differences: &[f64], sampling: Sampling) -> f64 {
    let bound = extreme(differences);
    let mut random = SplitMix64::seed_from_u64(sampling.seed);
    let mut as_far = 1usize;
    for _ in 0..sampling.rounds {
        let mut sum = 0.0;
        for block in differences.chunks(64) {
            let mut signs = random.next_u64();
            for value in block {
                sum += if signs & 1 == 1 { *value } else { -value };
                signs >>= 1;
            }
        }
        as_far += usize::from(f64::abs(sum) >= bound);
    }
    as_far as f64 / (sampling.rounds + 1) as f64
}

/// The observed sum's distance from zero, less what adding in another order can cost.
fn extreme(differences: &[f64]) -> f64 {
    let scale: f64 = differences.iter().map(|value| value.abs()).sum();
    differences.iter().sum::<f64>().abs() - scale * 1e-12
}

/// Percentile interval of the mean of paired differences, and the two-sided p-value of the shifted distribution.
pub fn bootstrap(differences: &[f64], sampling: Sampling) -> ((f64, f64), f64) {
    let mut random = SplitMix64::seed_from_u64(sampling.seed ^ 0x626f_6f74);
    let count = differences.len();
    let mut means: Vec<f64> = (0..sampling.rounds.max(1))
        .map(|_| {
            let sum: f64 = (0..count)
                .filter_map(|_| differences.get(random.random_range(0..count)))
                .sum();
            sum / count.max(1) as f64
        })
        .collect();
    let observed = mean(differences);
    let slack = observed.abs() * 1e-12;
    let as_far = means
        .iter()
        .filter(|mean| (**mean - observed).abs() >= observed.abs() - slack)
        .count();
    means.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - sampling.confidence.clamp(0.0, 1.0)) / 2.0;
    (
        (quantile(&means, tail), quantile(&means, 1.0 - tail)),
        (as_far + 1) as f64 / (means.len() + 1) as f64,
    )
}

/// Linear between the two nearest of sorted values, as `numpy.quantile` has it.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * sorted.len().saturating_sub(1) as f64;
    let at = place.floor() as usize;
    let below = sorted.get(at).copied().unwrap_or(0.0);
    let above = sorted.get(at + 1).copied().unwrap_or(below);
    below + (above - below) * (place - place.floor())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const SOME: [f64; 9] = [0.5, -0.25, 0.75, 1.0, -0.5, 0.125, 0.5, 0.25, -0.1];

    fn sampling(rounds: usize) -> Sampling {
        Sampling {
            rounds,
            ..Sampling::default()
        }
    }

    #[test]
    fn random_signs_come_to_what_all_signs_give() {
        // Written from the definition, over explicit signs.
        let signs = |number: usize| (0..SOME.len()).map(move |at| if number & (1 << at) == 0 { 1.0 } else { -1.0 });
        let observed: f64 = SOME.iter().sum();
        let sums = (0..512).map(|number| signs(number).zip(SOME).map(|(sign, value)| sign * value).sum::<f64>());
        let expected = sums.filter(|sum| sum.abs() >= observed.abs() - 1e-9).count() as f64 / 512.0;
        assert!((randomisation_test(&SOME, sampling(512)) - expected).abs() < 1e-12);
        let sampled = sampled(&SOME, sampling(200_000));
        assert!((sampled - expected).abs() < 0.005, "{sampled} {expected}");
        assert!(
            (randomisation_test(&SOME, sampling(511)) - expected).abs() < 0.1,
            "sampled below 512 rounds"
        );
    }

    #[test]
    fn a_bootstrap_comes_to_what_all_resamples_give() {
        let values = [0.5, -0.25, 0.75, 1.0, -0.5];
        let mut means: Vec<f64> = (0..3125u32)
            .map(|number| {
                (0..5)
                    .map(|at| values[(number / 5u32.pow(at) % 5) as usize])
                    .sum::<f64>()
                    / 5.0
            })
            .collect();
        means.sort_by(f64::total_cmp);
        let observed = values.iter().sum::<f64>() / 5.0;
        let expected = means
            .iter()
            .filter(|mean| (**mean - observed).abs() >= observed - 1e-9)
            .count() as f64
            / 3125.0;
        let ((low, high), p) = bootstrap(&values, sampling(200_000));
        assert!((p - expected).abs() < 0.005, "{p} {expected}");
        assert!((low - quantile(&means, 0.025)).abs() < 0.051 && (high - quantile(&means, 0.975)).abs() < 0.051);
        assert!(low < observed && observed < high);
    }

    #[test]
    fn a_quantile_is_numpys() {
        // numpy.quantile([1, 2, 4, 8], [0.025, 0.5, 0.975])
        for (share, expected) in [(0.025, 1.075), (0.5, 3.0), (0.975, 7.7), (0.0, 1.0), (1.0, 8.0)] {
            assert!((quantile(&[1.0, 2.0, 4.0, 8.0], share) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn clear_differences_are_significant_and_none_are_not() {
        let first: Vec<f64> = (0..200).map(|number| f64::from(number % 7) / 7.0).collect();
        let second: Vec<f64> = first.iter().map(|value| value + 0.1).collect();
        let better = compare_values(&first, &second, sampling(2_000)).unwrap();
        assert!(
            better.p_randomisation < 0.001 && better.p_bootstrap < 0.001,
            "{better:?}"
        );
        assert!((better.difference - 0.1).abs() < 1e-9 && better.interval.0 > 0.09);
        let same = compare_values(&first, &first, sampling(2_000)).unwrap();
        assert!(same.p_randomisation > 0.999 && same.p_bootstrap > 0.999, "{same:?}");
        assert_eq!(
            better,
            compare_values(&first, &second, sampling(2_000)).unwrap(),
            "the same for a seed"
        );
    }

    #[test]
    fn only_the_same_questions_are_compared() {
        let metrics = vec![RankingMetric::Precision(1)];
        let evaluation = |keys: &[&str], value: f64| {
            let queries: BTreeMap<String, Vec<f64>> = keys.iter().map(|key| ((*key).to_owned(), vec![value])).collect();
            Evaluation {
                metrics: metrics.clone(),
                queries,
                means: vec![value],
            }
        };
        let refuse = |second: &Evaluation, metric| {
            compare(&evaluation(&["a", "b"], 0.0), second, metric, sampling(10))
                .unwrap_err()
                .to_string()
        };
        let of = RankingMetric::Precision(1);
        assert!(compare(&evaluation(&["a"], 0.0), &evaluation(&["a"], 1.0), of, sampling(10)).is_ok());
        assert!(refuse(&evaluation(&["a", "c"], 0.0), of).contains("`b` is in one of them only"));
        assert!(
            refuse(&evaluation(&["a", "b"], 0.0), RankingMetric::Recall(1)).contains("`recall_1` was not computed")
        );
        assert!(refuse(&evaluation(&["a", "b"], f64::NAN), of).contains("question 1 is not finite"));
        assert_eq!(compare_values(&[], &[], sampling(10)), Err(Incomparable::Empty));
        assert_eq!(
            compare_values(&[1.0], &[], sampling(10)),
            Err(Incomparable::Lengths { first: 1, second: 0 })
        );
    }
}
