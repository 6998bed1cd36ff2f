//! What a search finds of the exact hits, and the means over questions.

use dyad_index::{ExpansionPoint, RecallPoint, Scored};

/// The means of what single questions found: recall@10 and @100, scores computed, and of these from rows.
pub(super) fn average_recall(ef: usize, wide: bool, measured: &[(f64, f64, u64, u64)]) -> RecallPoint {
    // Summed in order, so that the same graph has the same certificate for any number of threads.
    let (at_10, at_100, computed, scored) = measured.iter().fold((0.0, 0.0, 0, 0), |sum, one| {
        (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2, sum.3 + one.3)
    });
    let queries = measured.len().max(1) as f64;
    RecallPoint {
        ef,
        recall_at_10: at_10 / queries,
        recall_at_100: wide.then_some(at_100 / queries),
        distance_computations: computed as f64 / queries,
        scored: scored as f64 / queries,
    }
}

/// What half, 90, 95 and 99 % of the searches expand at most.
pub(super) fn summarize_expansions(ef: usize, mut expanded: Vec<u64>) -> ExpansionPoint {
    expanded.sort_unstable();
    let quantile = |percent: usize| {
        let rank = (expanded.len() * percent).div_ceil(100).max(1);
        expanded.get(rank - 1).copied().unwrap_or_default()
    };
    ExpansionPoint {
        ef,
        p50: quantile(50),
        p90: quantile(90),
        p95: quantile(95),
        p99: quantile(99),
    }
}

/// The first `depth` hits that are not `node`.
pub(super) fn drop_own_hit(mut hits: Vec<Scored>, node: Option<u32>, depth: usize) -> Vec<Scored> {
    hits.retain(|hit| Some(hit.node) != node);
    hits.truncate(depth);
    hits
}

/// Share of the first `k` exact hits that `hits` matches among its own first `k`; 1 where there is nothing to find.
pub(super) fn recall_share(hits: &[Scored], exact: &[Scored], k: usize) -> f64 {
    let exact = exact.get(..k).unwrap_or(exact);
    let Some(last) = exact.last() else { return 1.0 };
    let found = hits
        .iter()
        .take(exact.len())
        .filter(|hit| hit.score >= last.score)
        .count();
    found as f64 / exact.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(scores: &[f32]) -> Vec<Scored> {
        (0..).zip(scores).map(|(node, &score)| Scored { node, score }).collect()
    }

    #[test]
    fn expansions_are_told_by_the_nearest_rank() {
        let told = |expanded: std::ops::RangeInclusive<u64>| {
            let point = summarize_expansions(16, expanded.rev().collect());
            (point.ef, point.p50, point.p90, point.p95, point.p99)
        };
        assert_eq!(
            (told(1..=200), told(1..=3)),
            ((16, 100, 180, 190, 198), (16, 2, 3, 3, 3))
        );
        assert_eq!(
            summarize_expansions(16, Vec::new()),
            ExpansionPoint {
                ef: 16,
                p50: 0,
                p90: 0,
                p95: 0,
                p99: 0
            }
        );
    }

    #[test]
    fn shares_count_hits_as_near_as_the_last_exact_one() {
        let exact = scored(&[0.9, 0.8, 0.8]);
        assert!((recall_share(&scored(&[0.9, 0.8, 0.1]), &exact, 10) - 2.0 / 3.0).abs() < 1e-12);
        assert!((recall_share(&scored(&[0.8, 0.8]), &exact, 2) - 1.0).abs() < 1e-12);
        assert!((recall_share(&[], &[], 10) - 1.0).abs() < 1e-12);
    }
}
