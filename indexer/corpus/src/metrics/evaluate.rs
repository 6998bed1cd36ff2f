//! A whole run against its judgements.
use std::collections::BTreeMap;

use super::measure::RankingMetric;
use super::ranking::GradedRanking;
use crate::qrels::Qrels;
use crate::run::TrecRun;

/// Over which queries a mean is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Average {
    /// All judged queries; one without results counts 0 (`trec_eval -c`).
    Complete,
    /// Judged queries that have results (trec_eval's default). A system that answers fewer questions can look better.
    Answered,
}

/// The values of some metrics, per query and averaged.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The metrics, in the order asked for.
    pub metrics: Vec<RankingMetric>,
    /// Query key to one value per metric.
    pub queries: BTreeMap<String, Vec<f64>>,
    /// Mean over the queries, one value per metric; 0 where there is no query.
    pub means: Vec<f64>,
}

impl Evaluation {
    /// The mean of one metric, if it was asked for.
    pub fn mean(&self, metric: RankingMetric) -> Option<f64> {
        let index = self.metrics.iter().position(|&other| other == metric)?;
        self.means.get(index).copied()
    }
}

/// Computes `metrics` for every query that counts under `average`. Results of queries without judgements are ignored.
pub fn evaluate(run: &TrecRun, qrels: &Qrels, metrics: &[RankingMetric], average: Average) -> Evaluation {
    let mut queries = BTreeMap::new();
    for (query, judgements) in qrels {
        // A query without hits leaves no line in a run file: here too it counts as one without results.
        let hits = run.get(query).map_or(&[][..], Vec::as_slice);
        if hits.is_empty() && average == Average::Answered {
            continue;
        }
        let ranking = GradedRanking::new(hits, judgements);
        queries.insert(
            query.clone(),
            metrics
                .iter()
                .map(|metric| metric.compute(&ranking))
                .collect::<Vec<f64>>(),
        );
    }
    let means = (0..metrics.len())
        .map(|index| {
            let sum: f64 = queries.values().filter_map(|values| values.get(index)).sum();
            if queries.is_empty() {
                0.0
            } else {
                sum / queries.len() as f64 + 0.0
            }
        })
        .collect();
    Evaluation {
        metrics: metrics.to_vec(),
        queries,
        means,
    }
}

/// Drops hits whose key is the query's own, as BEIR's evaluation does by default: it matters where questions are
/// themselves documents of the corpus (ArguAna, Quora).
pub fn drop_identical(run: &mut TrecRun) {
    for (query, hits) in run {
        hits.retain(|(key, _)| key != query);
    }
}
