//! The rules in small, and every metric against a slow version that is written straight from its definition.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::qrels::Qrels;
use crate::run::TrecRun;

const METRICS: [RankingMetric; 11] = [
    RankingMetric::ReciprocalRank,
    RankingMetric::ReciprocalRankAt(2),
    RankingMetric::Precision(1),
    RankingMetric::Precision(10),
    RankingMetric::Recall(1),
    RankingMetric::Recall(5),
    RankingMetric::Ndcg(3),
    RankingMetric::Ndcg(10),
    RankingMetric::AveragePrecision,
    RankingMetric::Success(1),
    RankingMetric::Success(5),
];

fn judged(grades: &[(&str, i32)]) -> BTreeMap<String, i32> {
    grades.iter().map(|(key, grade)| ((*key).to_owned(), *grade)).collect()
}

fn hits(scores: &[(&str, f32)]) -> Vec<(String, f32)> {
    scores.iter().map(|(key, score)| ((*key).to_owned(), *score)).collect()
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-12
}

#[test]
fn equal_scores_are_ordered_by_key_descending_in_bytes() {
    let mut found = hits(&[
        ("a", 0.5),
        ("é", 0.5),
        ("b", 0.5),
        ("ab", 0.5),
        ("c", 0.7),
        ("z", -0.0),
        ("y", 0.0),
    ]);
    found.sort_by(trec_order);
    let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["c", "é", "b", "ab", "a", "z", "y"]);
}

#[test]
fn nothing_found_is_zero_without_a_sign() {
    let judgements = judged(&[("d1", 1)]);
    let qrels = Qrels::from([("q".to_owned(), judgements.clone())]);
    for found in [hits(&[]), hits(&[("d2", 0.5)])] {
        let ranking = GradedRanking::new(&found, &judgements);
        let means = evaluate(
            &TrecRun::from([("q".to_owned(), found)]),
            &qrels,
            &METRICS,
            Average::Complete,
        )
        .means;
        for (metric, mean) in METRICS.iter().zip(means) {
            assert!(
                metric.compute(&ranking).is_sign_positive() && mean.is_sign_positive(),
                "{metric}"
            );
        }
    }
}

#[test]
fn the_order_of_a_run_does_not_count() {
    let judgements = judged(&[("d1", 1)]);
    let forwards = GradedRanking::new(&hits(&[("d1", 0.9), ("d2", 0.8)]), &judgements);
    let backwards = GradedRanking::new(&hits(&[("d2", 0.8), ("d1", 0.9)]), &judgements);
    assert_eq!(forwards, backwards);
    assert_eq!(forwards.grades, [1, 0]);
}

#[test]
fn unjudged_and_negative_grades_are_not_relevant() {
    let ranking = GradedRanking::new(
        &hits(&[("a", 3.0), ("b", 2.0), ("c", 1.0)]),
        &judged(&[("b", -2), ("c", 2), ("d", 0)]),
    );
    assert_eq!(
        ranking,
        GradedRanking {
            grades: vec![0, 0, 2],
            ideal: vec![2]
        }
    );
    assert!(close(RankingMetric::ReciprocalRank.compute(&ranking), 1.0 / 3.0));
    assert!(close(RankingMetric::Ndcg(10).compute(&ranking), 1.0 / 4f64.log2()));
}

#[test]
fn precision_divides_by_k_and_recall_by_the_relevant() {
    let ranking = GradedRanking {
        grades: vec![1],
        ideal: vec![1, 1, 1],
    };
    assert!(close(RankingMetric::Precision(5).compute(&ranking), 0.2));
    assert!(close(RankingMetric::Recall(5).compute(&ranking), 1.0 / 3.0));
    assert!(close(RankingMetric::AveragePrecision.compute(&ranking), 1.0 / 3.0));
}

#[test]
fn a_query_without_relevant_documents_counts_zero() {
    let ranking = GradedRanking::new(&hits(&[("a", 1.0)]), &judged(&[("a", 0)]));
    for metric in METRICS {
        assert!(close(metric.compute(&ranking), 0.0), "{metric}");
    }
}

#[test]
fn a_complete_mean_counts_unanswered_queries_as_zero() {
    let qrels = Qrels::from([
        ("q1".to_owned(), judged(&[("d", 1)])),
        ("q2".to_owned(), judged(&[("d", 1)])),
        ("q3".to_owned(), judged(&[("d", 1)])),
    ]);
    let run = TrecRun::from([
        ("q1".to_owned(), hits(&[("d", 1.0)])),
        ("q2".to_owned(), Vec::new()),
        ("not judged".to_owned(), hits(&[("d", 1.0)])),
    ]);
    let mean = |average| {
        let evaluation = evaluate(&run, &qrels, &[RankingMetric::ReciprocalRank], average);
        (
            evaluation.queries.len(),
            evaluation.mean(RankingMetric::ReciprocalRank).unwrap(),
        )
    };
    let (queries, value) = mean(Average::Complete);
    assert!(queries == 3 && close(value, 1.0 / 3.0));
    let (queries, value) = mean(Average::Answered);
    assert!(queries == 1 && close(value, 1.0));
    assert_eq!(
        evaluate(&run, &qrels, &[], Average::Complete).mean(RankingMetric::AveragePrecision),
        None
    );
}

#[test]
fn identical_ids_are_dropped_for_their_own_query_only() {
    let mut run = TrecRun::from([("d1".to_owned(), hits(&[("d1", 1.0), ("d2", 0.5)]))]);
    drop_identical(&mut run);
    assert_eq!(run["d1"], hits(&[("d2", 0.5)]));
}

/// The metric by its definition: ranks by counting who comes before, gains one by one, the ideal by trying every order.
fn slow(metric: RankingMetric, hits: &[(String, f32)], judgements: &BTreeMap<String, i32>) -> f64 {
    let grade = |key: &str| judgements.get(key).copied().unwrap_or(0).max(0);
    let before = |other: &(String, f32), hit: &(String, f32)| match other.1.partial_cmp(&hit.1).unwrap() {
        Ordering::Greater => true,
        Ordering::Equal => other.0.as_bytes() > hit.0.as_bytes(),
        Ordering::Less => false,
    };
    let rank = |hit: &(String, f32)| 1 + hits.iter().filter(|other| before(other, hit)).count();
    let mut relevant_ranks: Vec<usize> = hits.iter().filter(|hit| grade(&hit.0) > 0).map(rank).collect();
    relevant_ranks.sort_unstable();
    let within = |k: usize| relevant_ranks.iter().filter(|rank| **rank <= k).count() as f64;
    let relevant = judgements.values().filter(|grade| **grade > 0).count() as f64;
    let best = relevant_ranks.first().map_or(0.0, |rank| 1.0 / *rank as f64);
    let gain = |grade: i32, rank: usize| f64::from(grade) / (rank as f64 + 1.0).log2();
    if relevant == 0.0 {
        return 0.0;
    }
    match metric {
        RankingMetric::ReciprocalRank => best,
        RankingMetric::ReciprocalRankAt(k) => best * f64::from(u8::from(within(k) > 0.0)),
        RankingMetric::Precision(k) => within(k) / k as f64,
        RankingMetric::Recall(k) => within(k) / relevant,
        RankingMetric::Success(k) => within(k).min(1.0),
        RankingMetric::AveragePrecision => relevant_ranks.iter().map(|&r| within(r) / r as f64).sum::<f64>() / relevant,
        RankingMetric::Ndcg(k) => {
            let got: f64 = hits
                .iter()
                .filter(|hit| rank(hit) <= k)
                .map(|hit| gain(grade(&hit.0), rank(hit)))
                .sum();
            let mut left: Vec<i32> = judgements.values().map(|grade| (*grade).max(0)).collect();
            let mut ideal = 0.0;
            for rank in 1..=k.min(left.len()) {
                let (place, &best) = left.iter().enumerate().max_by_key(|(_, grade)| **grade).unwrap();
                ideal += gain(best, rank);
                left.remove(place);
            }
            got / ideal
        }
    }
}

proptest! {
    /// Few keys and few scores, so that ties are everywhere.
    #[test]
    fn every_metric_is_what_its_definition_says(
        scores in prop::collection::btree_map("[a-d]{1,2}", -2i8..3, 0..18),
        judgements in prop::collection::btree_map("[a-d]{1,2}", -1i32..4, 0..12),
    ) {
        let hits: Vec<(String, f32)> = scores.into_iter().map(|(key, score)| (key, f32::from(score) / 2.0)).collect();
        let ranking = GradedRanking::new(&hits, &judgements);
        for metric in METRICS {
            let (fast, slow) = (metric.compute(&ranking), slow(metric, &hits, &judgements));
            prop_assert!((fast - slow).abs() < 1e-9, "{}: {} {}", metric, fast, slow);
            prop_assert!((0.0..=1.0 + 1e-12).contains(&fast));
        }
    }
}

#[test]
fn names_are_trec_evals() {
    let names: Vec<String> = METRICS.iter().map(ToString::to_string).collect();
    let expected = "recip_rank recip_rank_2 P_1 P_10 recall_1 recall_5 ndcg_cut_3 ndcg_cut_10 map success_1 success_5";
    assert_eq!(names.join(" "), expected);
}
