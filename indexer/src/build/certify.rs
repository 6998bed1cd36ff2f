//! What a finished graph is worth: recall and cost for a ladder of beam widths, against the exact scan.
//!
//! The questions are documents of the shard, sampled by seed. A document finds itself at once, so it is left out of
//! both the walk's hits and the exact ones: recall is over its *other* nearest documents. Documents lie where the
//! vectors lie, real questions do not always: the certificate compares graphs and shows decay, and the quality
//! benchmark measures with questions. A hit as near as the last exact one counts, so that duplicates cost nothing.

use std::sync::atomic::{AtomicBool, Ordering};

use dyad_index::search::{Beam, BeamParams, Lanes, RESCORED, VectorRows, flat};
use dyad_index::{Arranged, Certificate, QuerySource, RankScore, RecallPoint, Scored};
use rayon::prelude::*;

use super::order;
use super::repair::Repaired;
use crate::error::Error;

/// Beam widths measured.
pub const LADDER: [usize; 6] = [16, 32, 64, 128, 256, 512];
/// Documents searched for; all of a smaller shard.
pub const QUERIES: usize = 500;
/// Deepest rank of the score profile.
const PROFILE_RANKS: usize = 2_048;
/// So that the sample is not the beginning of the order of insertion.
const SAMPLE_SEED: u64 = 0x5EED_CE27;

/// Measures `repaired`, whose nodes are `rows`. Runs on the current rayon pool.
///
/// Returns [`Error::Cancelled`] soon after `cancel` turns true.
pub fn certify(
    repaired: &Repaired,
    arranged: &Arranged,
    rows: &dyn VectorRows,
    seed: u64,
    cancel: &AtomicBool,
) -> Result<Certificate, Error> {
    let graph = &repaired.graph;
    let sample = order::sample(rows.len(), QUERIES, seed ^ SAMPLE_SEED);
    let metric = arranged.codes.codec.metric();
    let depth = rows.len().saturating_sub(1).min(PROFILE_RANKS);
    let exact: Vec<Vec<Scored>> = sample
        .par_iter()
        .map(|&node| {
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            Ok(others(flat(rows, rows.row(node), depth + 1, metric, None), node, depth))
        })
        .collect::<Result<_, Error>>()?;
    let mut certificate = Certificate {
        vectors: rows.len() as u64,
        unreachable_before_repair: repaired.unreachable_before,
        links_added: repaired.links_added,
        unreachable: graph.reachable().iter().filter(|reached| !**reached).count() as u64,
        queries: sample.len() as u64,
        source: QuerySource::Documents,
        profile: profile(&exact, depth),
        recall: Vec::new(),
    };
    certificate.recall =
        LADDER.iter().map(|&ef| measure(arranged, rows, &sample, &exact, ef, certificate.margin(10, ef))).collect();
    Ok(certificate)
}

/// Mean exact score at ranks 1, 2, 4 and so on, up to `depth`.
fn profile(exact: &[Vec<Scored>], depth: usize) -> Vec<RankScore> {
    let ranks = std::iter::successors(Some(1), |rank| Some(rank * 2)).take_while(|rank| *rank <= depth);
    let mean = |rank: usize| -> f64 {
        let scores = exact.iter().filter_map(|hits| hits.get(rank - 1)).map(|hit| f64::from(hit.score));
        scores.sum::<f64>() / exact.len().max(1) as f64
    };
    ranks.map(|rank| RankScore { rank, score: mean(rank) }).collect()
}

fn measure(
    arranged: &Arranged,
    rows: &dyn VectorRows,
    sample: &[u32],
    exact: &[Vec<Scored>],
    ef: usize,
    margin: Option<f32>,
) -> RecallPoint {
    let wide = ef > 100 && exact.first().is_some_and(|exact| exact.len() >= 100);
    let graph = arranged.layout.view();
    let metric = arranged.codes.codec.metric();
    let beam = Beam { codes: arranged.codes.view(), graph: &graph, order: graph.order(), rows, metric };
    let measured: Vec<(f64, f64, u64, u64)> = sample
        .par_iter()
        .zip(exact)
        .map_init(Lanes::new, |lanes, (&node, exact)| {
            let search = |k: usize, lanes: &mut Lanes| {
                let params = BeamParams { margin, ..BeamParams::new(k + 1, ef) };
                beam.search_one(rows.row(node), &params, lanes)
            };
            let found = search(10, lanes);
            let (estimated, scored) = (found.estimated, found.scored);
            let at_10 = share(&others(found.hits, node, 10 + RESCORED), exact, 10);
            let at_100 = if wide { share(&others(search(100, lanes).hits, node, 100), exact, 100) } else { 0.0 };
            (at_10, at_100, estimated + scored, scored)
        })
        .collect();
    // Summed in order: the same graph has the same certificate, whatever the threads.
    let (at_10, at_100, computed, scored) =
        measured.iter().fold((0.0, 0.0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2, sum.3 + one.3));
    let queries = sample.len().max(1) as f64;
    RecallPoint {
        ef,
        recall_at_10: at_10 / queries,
        recall_at_100: wide.then_some(at_100 / queries),
        distance_computations: computed as f64 / queries,
        scored: scored as f64 / queries,
    }
}

/// The first `depth` hits that are not `node`.
fn others(mut hits: Vec<Scored>, node: u32, depth: usize) -> Vec<Scored> {
    hits.retain(|hit| hit.node != node);
    hits.truncate(depth);
    // The exact scan leaves room for all rows behind its few hits, and one such list per sampled document stays.
    hits.shrink_to_fit();
    hits
}

/// Share of the first `k` exact hits that `hits` matches among its own first `k`; 1 where there is nothing to find.
fn share(hits: &[Scored], exact: &[Scored], k: usize) -> f64 {
    let exact = exact.get(..k).unwrap_or(exact);
    let Some(last) = exact.last() else { return 1.0 };
    let found = hits.iter().take(exact.len()).filter(|hit| hit.score >= last.score).count();
    found as f64 / exact.len() as f64
}

#[cfg(test)]
mod tests {
    use dyad_index::quant::{Codec, Codes};
    use dyad_index::search::DenseRows;
    use dyad_index::{Graph, Layer, Metric};

    use super::*;

    static RUN: AtomicBool = AtomicBool::new(false);

    fn scored(scores: &[f32]) -> Vec<Scored> {
        (0..).zip(scores).map(|(node, &score)| Scored { node, score }).collect()
    }

    #[test]
    fn shares_count_hits_as_near_as_the_last_exact_one() {
        let exact = scored(&[0.9, 0.8, 0.8]);
        assert!((share(&scored(&[0.9, 0.8, 0.1]), &exact, 10) - 2.0 / 3.0).abs() < 1e-12);
        assert!((share(&scored(&[0.8, 0.8]), &exact, 2) - 1.0).abs() < 1e-12);
        assert!((share(&[], &[], 10) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_node_that_the_walk_misses_lowers_recall_and_shows_as_unreachable() {
        // Four directions; node 3 has no incoming link.
        let values = [1.0, 0.0, 0.8, 0.6, 0.6, 0.8, 0.0, 1.0];
        let rows = DenseRows::new(&values, 2);
        let lists = [vec![1], vec![0, 2], vec![1], vec![2]];
        let graph = Graph { entry: 0, layers: vec![Layer::from_lists(vec![0, 1, 2, 3], &lists)] };
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 0));
        let arranged = Arranged::new(&graph, &codes).unwrap();
        let repaired = Repaired { graph, unreachable_before: 1, links_added: 0 };
        let certificate = certify(&repaired, &arranged, &rows, 0, &RUN).unwrap();
        assert_eq!((certificate.vectors, certificate.queries, certificate.unreachable), (4, 4, 1));
        let recall = certificate.recall.first().unwrap();
        // Nodes 0, 1 and 2 miss node 3 of their three others; a walk for 3 finds all of its own.
        assert!((recall.recall_at_10 - 0.75).abs() < 1e-12, "{recall:?}");
        assert_eq!(recall.recall_at_100, None);
    }
}
