//! What a cross encoder brings an index, and how much its scores should count: nDCG@10 of judged questions with and
//! without it.

use std::io::Write as _;

use dyad_command::ProgressBar;
use dyad_corpus::JudgedQuestions;
use dyad_corpus::metrics::{GradedRanking, Sampling, compare_values};
use dyad_corpus::queries::KeyedQuery;
use dyad_index::{RerankMeasured, RerankRecord};
use dyad_proto::v1;

use super::judged_answers::answers;
use crate::fusion::Fusion;
use crate::fusion::learn::{FOLDS, METRIC};
use crate::fusion::reranked::{self, LOGITS_ALONE, RERANK_WEIGHTS, adds_logits};
use crate::reranker::Reranker;
use crate::run::Engine;
use crate::run::fusion_method;

/// Hits that the metric looks at, and one more, which may be the question itself.
const HITS: u32 = 11;
/// Hits of one call that are reranked, about: some thousand pairs take a minute.
const PAIRS: usize = 2_000;

/// A cross encoder that is measured.
pub(super) struct RerankMeasurement<'a> {
    pub(super) engine: &'a Engine,
    pub(super) judged: &'a JudgedQuestions,
    /// The fusion of the rankings.
    pub(super) fusion: Fusion,
    /// Hits that the cross encoder scores.
    pub(super) depth: u32,
    pub(super) drop_identical_ids: bool,
    /// Folder of the questions, for people.
    pub(super) data: String,
    pub(super) split: String,
    /// The fingerprint of the model whose vectors are ranked.
    pub(super) fingerprint: String,
}

/// A judged question, and the hits that the cross encoder has scored, best of the ranking first.
struct ScoredQuestion<'a> {
    question: &'a KeyedQuery,
    keys: Vec<String>,
    scores: Vec<f32>,
    /// Empty where there are none of the cross encoder.
    logits: Vec<f32>,
}

/// What a weight of the cross encoder's scores makes of every question.
struct TriedWeight {
    weight: f64,
    values: Vec<f64>,
}

impl RerankMeasurement<'_> {
    /// Measures, and prints the result.
    pub(super) async fn run(self, reranker: &Reranker) -> anyhow::Result<RerankRecord> {
        let scored = self.scored().await?;
        let before: Vec<f64> = scored.iter().map(|one| self.value(one, None)).collect();
        let of_weight = |weight: f64| TriedWeight {
            weight,
            values: scored.iter().map(|one| self.value(one, Some(weight))).collect(),
        };
        let weights = if adds_logits(Some(&self.fusion)) {
            &RERANK_WEIGHTS[..]
        } else {
            &[LOGITS_ALONE]
        };
        let tried: Vec<TriedWeight> = weights.iter().map(|weight| of_weight(*weight)).collect();
        let (weight, after) = learned(&tried);
        let compared = compare_values(&before, &after, Sampling::default())?;
        let v1::ModelInfo { name, fingerprint, .. } = reranker.model();
        writeln!(
            std::io::stdout().lock(),
            "reranked {:.4}  by {name}, {} hits, weight {weight}; {:+.4} against the fused ranking, p = {:.3} (paired randomisation test)",
            compared.second,
            self.depth,
            compared.difference,
            compared.p_randomisation
        )?;
        Ok(RerankRecord {
            format_version: RerankRecord::VERSION,
            fingerprint: self.fingerprint,
            reranker_fingerprint: fingerprint.clone(),
            reranker: name.clone(),
            depth: self.depth as usize,
            fusion: Some(self.fusion.method),
            weight,
            measured_on: RerankMeasured {
                data: self.data,
                split: self.split,
                questions: before.len(),
                before: compared.first,
                after: compared.second,
                p: compared.p_randomisation,
            },
        })
    }

    /// Both scores of the best hits of every question.
    async fn scored(&self) -> anyhow::Result<Vec<ScoredQuestion<'_>>> {
        let method = fusion_method(self.fusion.method);
        let request = v1::SearchRequest {
            mode: v1::Mode::Hybrid.into(),
            k: self.depth.max(HITS),
            keys_only: true,
            fusion: method.into(),
            dense_weight: Some(self.fusion.dense_weight),
            document_weight: Some(self.fusion.document_weight),
            rerank_depth: self.depth,
            ..v1::SearchRequest::default()
        };
        let questions = &self.judged.questions;
        let progress = ProgressBar::new(
            "reranked questions",
            Some(questions.len() as u64),
            "{prefix} {wide_bar} {pos}/{len}",
        );
        let mut scored = Vec::with_capacity(questions.len());
        for questions in questions.chunks((PAIRS / self.depth.max(1) as usize).clamp(1, 128)) {
            let answers = answers(self.engine, questions, &request).await?;
            for (question, answer) in questions.iter().zip(answers) {
                let mut hits: Vec<v1::Hit> = answer.hits.into_iter().map(|answer| answer.hit).collect();
                // The ranking before: its scores, and of equal ones the key, are its order.
                hits.sort_by(|one, other| other.score.total_cmp(&one.score).then_with(|| one.key.cmp(&other.key)));
                scored.push(ScoredQuestion {
                    question,
                    scores: hits.iter().map(|hit| hit.score).collect(),
                    logits: hits
                        .iter()
                        .map_while(|hit| hit.rerank.map(|place| place.score))
                        .collect(),
                    keys: hits.into_iter().map(|hit| hit.key).collect(),
                });
            }
            progress.advance(questions.len() as u64);
        }
        Ok(scored)
    }

    /// nDCG@10 of a question as it was ranked, or with the cross encoder's scores at this weight.
    fn value(&self, scored: &ScoredQuestion<'_>, weight: Option<f64>) -> f64 {
        let ScoredQuestion {
            question,
            keys,
            scores,
            logits,
        } = scored;
        let order = weight.map_or_else(Vec::new, |weight| reranked::order(scores, logits, weight));
        let ordered = order.iter().filter_map(|position| keys.get(*position));
        let keys = ordered.chain(keys.iter().skip(order.len()));
        let kept = keys.filter(|key| !self.drop_identical_ids || **key != question.key);
        // By place.
        let ranked: Vec<(String, f32)> = kept.enumerate().map(|(at, key)| (key.clone(), -(at as f32))).collect();
        let judgements = self.judged.qrels.get(&question.key).cloned().unwrap_or_default();
        METRIC.compute(&GradedRanking::new(&ranked, &judgements))
    }
}

/// The weight that is best on all questions where cross-validation finds it better than the first one, else that; and
/// the values of what was chosen, each question judged by a weight that was chosen without it.
fn learned(tried: &[TriedWeight]) -> (f64, Vec<f64>) {
    let Some(default) = tried.first() else {
        return (LOGITS_ALONE, Vec::new());
    };
    let of_folds: Vec<&TriedWeight> = (0..FOLDS)
        .map(|fold| best_weight(tried, default, |number| number % FOLDS != fold))
        .collect();
    let cross_validated = |number: usize| -> f64 {
        let chosen = of_folds.get(number % FOLDS).and_then(|one| one.values.get(number));
        chosen.copied().unwrap_or_default()
    };
    let values: Vec<f64> = (0..default.values.len()).map(cross_validated).collect();
    if values.iter().sum::<f64>() > default.values.iter().sum::<f64>() {
        (best_weight(tried, default, |_| true).weight, values)
    } else {
        (default.weight, default.values.clone())
    }
}

/// The weight with the highest sum over some of the questions; of equal ones `default`, or the first that was tried.
fn best_weight<'a>(
    tried: &'a [TriedWeight],
    default: &'a TriedWeight,
    counts: impl Fn(usize) -> bool,
) -> &'a TriedWeight {
    let mut best = default;
    for one in tried {
        if one.sum(&counts) > best.sum(&counts) {
            best = one;
        }
    }
    best
}

impl TriedWeight {
    /// The sum of its values over some of the questions.
    fn sum(&self, counts: impl Fn(usize) -> bool) -> f64 {
        let values = self.values.iter().enumerate();
        values
            .filter(|(number, _)| counts(*number))
            .map(|(_, value)| value)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_learned_where_it_is_better_on_questions_that_it_was_not_learned_from() {
        let tried = |weight: f64, value: &dyn Fn(usize) -> f64| TriedWeight {
            weight,
            values: (0..40).map(value).collect(),
        };
        let (default, better) = (tried(0.4, &|_| 0.5), tried(0.7, &|_| 0.6));
        let (weight, values) = learned(&[default, better]);
        assert!((weight - 0.7).abs() < 1e-12 && values.iter().all(|value| (value - 0.6).abs() < 1e-12));
        // Better by one question alone, which no other fold knows.
        let by_one = tried(0.7, &|number| if number == 7 { 1.0 } else { 0.49 });
        let (weight, values) = learned(&[tried(0.4, &|_| 0.5), by_one]);
        assert!((weight - 0.4).abs() < 1e-12 && values.iter().all(|value| (value - 0.5).abs() < 1e-12));
        assert_eq!(learned(&[]).1, Vec::<f64>::new());
    }
}
