//! Metrics against values by trec_eval, on judgements with negative grades and a run full of ties.
//!
//! `golden/qrels.tsv` and `golden/ties.run` were drawn at random: 24 queries (three without results), 60 documents,
//! grades -1 to 3, six distinct scores of which two are neighbours in f32, hits in no order. The expected values, in
//! that folder:
//!
//! ```text
//! python benches/peers/trec_metrics.py --qrels qrels.tsv --run ties.run --per-query > complete.json
//! python benches/peers/trec_metrics.py --qrels qrels.tsv --run ties.run --answered > answered.json
//! ```
//!
//! with `pytrec_eval-terrier` 0.5.11.

use std::path::{Path, PathBuf};

use dyad_corpus::metrics::{Average, RankingMetric, evaluate};
use dyad_corpus::{qrels, run};
use serde_json::Value;

const TOLERANCE: f64 = 1e-12;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(name)
}

fn metrics() -> Vec<RankingMetric> {
    let mut metrics = vec![RankingMetric::ReciprocalRank, RankingMetric::AveragePrecision];
    for k in [1, 5, 10] {
        metrics.extend([RankingMetric::Precision(k), RankingMetric::Success(k)]);
    }
    for k in [1, 5, 10, 100] {
        metrics.extend([RankingMetric::Recall(k), RankingMetric::Ndcg(k)]);
    }
    metrics
}

fn assert_agrees(average: Average, expected: &str) {
    let expected: Value = serde_json::from_slice(&fs_err::read(golden(expected)).unwrap()).unwrap();
    let expected = &expected["ties.run"];
    let run = run::read(&golden("ties.run")).unwrap();
    let qrels = qrels::read(&golden("qrels.tsv")).unwrap();
    let found = evaluate(&run, &qrels, &metrics(), average);
    assert_eq!(found.queries.len() as u64, expected["queries"].as_u64().unwrap());
    assert_eq!(found.metrics.len(), expected["metrics"].as_object().unwrap().len());
    for (metric, mean) in found.metrics.iter().zip(&found.means) {
        let expected = expected["metrics"][metric.to_string()].as_f64().unwrap();
        assert!(
            (mean - expected).abs() < TOLERANCE,
            "{metric}: {mean} instead of {expected}"
        );
    }
    let Some(queries) = expected.get("per_query") else {
        return;
    };
    for (query, values) in &found.queries {
        for (metric, value) in found.metrics.iter().zip(values) {
            let expected = queries[query][metric.to_string()].as_f64().unwrap();
            assert!(
                (value - expected).abs() < TOLERANCE,
                "{query} {metric}: {value} instead of {expected}"
            );
        }
    }
}

#[test]
fn all_judged_queries_count_as_with_trec_evals_c() {
    assert_agrees(Average::Complete, "complete.json");
}

#[test]
fn answered_queries_count_as_by_trec_evals_default() {
    assert_agrees(Average::Answered, "answered.json");
}
