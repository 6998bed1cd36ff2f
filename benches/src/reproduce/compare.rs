//! Means over seeds, and paired tests against a baseline.

use dyad_corpus::metrics::{Comparison, Sampling, compare_values};
use dyad_encoder::train::METRICS;

use super::run::Reproduced;
use super::values::{Values, mean, over_seeds};

/// Places in [`METRICS`] of what is tested: MRR and P@1.
const TESTED: [usize; 2] = [0, 1];
/// Rounds of a test: no p-value is smaller than one over them.
const ROUNDS: usize = 10_000;

/// One variant on one evaluation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Compared {
    pub(crate) evaluation: String,
    pub(crate) variant: String,
    pub(crate) seeds: usize,
    /// Of each metric, over questions and seeds.
    pub(crate) means: Vec<f64>,
    /// The lowest and the highest MRR of a seed.
    pub(crate) range: (f64, f64),
    /// The baseline, and MRR and P@1 against it: each question's mean over the seeds, paired. `None` for the baseline itself, and
    /// where it is not finished.
    pub(crate) against: Option<(String, [Comparison; 2])>,
    /// How well a linear classifier tells the towers apart, mean over seeds.
    pub(crate) separable: Option<f64>,
}

/// Every evaluation, and in it every variant that has a finished trial.
pub(crate) fn compare(reproduced: &Reproduced) -> Result<Vec<Compared>, dyad_corpus::metrics::Incomparable> {
    let mut all = Vec::new();
    for (place, evaluated) in reproduced.table.evaluations.iter().enumerate() {
        let of = |variant: &str| -> Vec<&Values> {
            reproduced.of(variant).filter_map(|(_, values)| values.get(place)).collect()
        };
        for variant in &reproduced.table.variants {
            let seeds = of(&variant.name);
            if seeds.is_empty() {
                continue;
            }
            let own = over_seeds(&seeds);
            let mut against = None;
            if let Some(name) = reproduced.table.baseline_of(variant) {
                let baseline = over_seeds(&of(name));
                if !baseline.is_empty() {
                    against = Some((name.to_owned(), paired(&baseline, &own)?));
                }
            }
            let ranks: Vec<f64> = seeds.iter().map(|values| mean(values, 0)).collect();
            let separable: Vec<f64> =
                reproduced.of(&variant.name).filter_map(|(trial, _)| Some(trial.probe?.accuracy)).collect();
            let count = separable.len();
            all.push(Compared {
                evaluation: evaluated.name.clone(),
                variant: variant.name.clone(),
                seeds: seeds.len(),
                means: (0..METRICS.len()).map(|metric| mean(&own, metric)).collect(),
                range: ranks.iter().fold((f64::INFINITY, 0.0), |(low, high), &rank| (rank.min(low), rank.max(high))),
                against,
                separable: (count > 0).then(|| separable.iter().sum::<f64>() / count as f64),
            });
        }
    }
    Ok(all)
}

/// Second minus first, of MRR and of P@1.
pub(super) fn paired(first: &Values, second: &Values) -> Result<[Comparison; 2], dyad_corpus::metrics::Incomparable> {
    let sampling = Sampling { rounds: ROUNDS, ..Sampling::default() };
    let of = |values: &Values, metric: usize| -> Vec<f64> {
        values.values().filter_map(|values| values.get(metric).copied()).collect()
    };
    let test = |metric: usize| compare_values(&of(first, metric), &of(second, metric), sampling);
    Ok([test(TESTED[0])?, test(TESTED[1])?])
}
