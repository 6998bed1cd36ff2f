//! Means over questions and seeds, and paired tests against a baseline.

use dyad_corpus::metrics::{Incomparable, PairedComparison, Sampling, compare_values};
use dyad_encoder::train::METRICS;

use super::run::Reproduced;
use super::trial::QuestionValues;

/// Places in [`METRICS`] of what is tested: MRR and P@1.
const TESTED: [usize; 2] = [0, 1];
/// Rounds of a test: no p-value is smaller than one over them.
const ROUNDS: usize = 10_000;

/// One variant on one evaluation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ComparedVariant {
    pub(crate) evaluation: String,
    pub(crate) variant: String,
    pub(crate) seeds: usize,
    /// Mean of each metric over questions and seeds.
    pub(crate) means: Vec<f64>,
    /// The lowest and the highest MRR of a seed.
    pub(crate) range: (f64, f64),
    /// The baseline, and MRR and P@1 against it: each question's mean over the seeds, paired. `None` for the baseline
    /// itself, and where it is not finished.
    pub(crate) against: Option<(String, [PairedComparison; 2])>,
    /// How well a linear classifier tells the towers apart, mean over seeds.
    pub(crate) separable: Option<f64>,
}

/// Every evaluation, and in it every variant that has a finished trial.
pub(crate) fn compare(reproduced: &Reproduced) -> Result<Vec<ComparedVariant>, Incomparable> {
    let mut all = Vec::new();
    for (place, evaluated) in reproduced.table.evaluations.iter().enumerate() {
        let values_of = |variant| {
            reproduced
                .trials_of(variant)
                .filter_map(|(_, values)| values.get(place))
                .collect::<Vec<_>>()
        };
        for variant in &reproduced.table.variants {
            let seeds = values_of(variant.name.as_str());
            if seeds.is_empty() {
                continue;
            }
            let own = over_seeds(&seeds);
            let baseline = reproduced
                .table
                .baseline_of(variant)
                .map(|name| (name, over_seeds(&values_of(name))));
            let against = match baseline.filter(|(_, baseline)| !baseline.is_empty()) {
                Some((name, baseline)) => Some((name.to_owned(), paired(&baseline, &own)?)),
                None => None,
            };
            let ranks = seeds.iter().map(|values| mean(values, 0));
            let trials = reproduced.trials_of(&variant.name);
            let separable: Vec<f64> = trials.filter_map(|(trial, _)| trial.separable()).collect();
            all.push(ComparedVariant {
                evaluation: evaluated.name.clone(),
                variant: variant.name.clone(),
                seeds: seeds.len(),
                means: (0..METRICS.len()).map(|metric| mean(&own, metric)).collect(),
                range: ranks.fold((f64::INFINITY, 0.0), |(low, high), rank| {
                    (rank.min(low), rank.max(high))
                }),
                against,
                separable: (!separable.is_empty()).then(|| separable.iter().sum::<f64>() / separable.len() as f64),
            });
        }
    }
    Ok(all)
}

/// Second minus first, of MRR and of P@1.
pub(super) fn paired(first: &QuestionValues, second: &QuestionValues) -> Result<[PairedComparison; 2], Incomparable> {
    let sampling = Sampling {
        rounds: ROUNDS,
        ..Sampling::default()
    };
    let test = |metric| compare_values(&column(first, metric), &column(second, metric), sampling);
    Ok([test(TESTED[0])?, test(TESTED[1])?])
}

/// A metric's value of each question.
fn column(values: &QuestionValues, metric: usize) -> Vec<f64> {
    values
        .values()
        .filter_map(|values| values.get(metric).copied())
        .collect()
}

/// The mean of a metric, by its place in [`METRICS`]; 0 of nothing.
pub(super) fn mean(values: &QuestionValues, metric: usize) -> f64 {
    let sum: f64 = values.values().filter_map(|values| values.get(metric)).sum();
    sum / values.len().max(1) as f64
}

/// The mean of each question's values over several seeds; questions that one of them lacks are left out.
fn over_seeds(seeds: &[&QuestionValues]) -> QuestionValues {
    let Some(first) = seeds.first() else {
        return QuestionValues::new();
    };
    let mut means = QuestionValues::new();
    for question in first.keys() {
        let Some(all) = seeds.iter().map(|seed| seed.get(question)).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let metrics = all.first().map_or(0, |values| values.len());
        let mean = |at| all.iter().filter_map(|values| values.get(at)).sum::<f64>() / seeds.len() as f64;
        means.insert(question.clone(), (0..metrics).map(mean).collect());
    }
    means
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_averaged_question_by_question() {
        let one = QuestionValues::from([("a".to_owned(), vec![1.0]), ("b".to_owned(), vec![0.0])]);
        let two = QuestionValues::from([("a".to_owned(), vec![0.5])]);
        assert_eq!(
            over_seeds(&[&one, &two]),
            QuestionValues::from([("a".to_owned(), vec![0.75])])
        );
        assert_eq!(over_seeds(&[&one]), one);
        assert!(over_seeds(&[]).is_empty());
        assert!((mean(&one, 0) - 0.5).abs() < 1e-12);
    }
}
