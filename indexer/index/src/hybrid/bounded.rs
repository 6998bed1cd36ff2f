//! Both scores of hits, from 0 to 1: their sums are comparable over questions (Bruch, Gai and Ingber 2023).

use dyad_files::Cancel;

use crate::error::Result;
use crate::lexical::{DocumentScores, Weighed};
use crate::model::Metric;
use crate::search::Scored;
use crate::snapshot::{DocumentHit, Snapshot};

/// The documents of both rankings, each once, ascending by shard and node.
pub fn hits_of_both(dense: &[DocumentHit], text: &[DocumentHit]) -> Vec<DocumentHit> {
    let mut all: Vec<DocumentHit> = dense.iter().chain(text).copied().collect();
    all.sort_unstable_by_key(|hit| (hit.shard, hit.node));
    all.dedup_by_key(|hit| (hit.shard, hit.node));
    all
}

/// With their dense scores from 0 to 1: `(1 + cosine) / 2`, `1 / 2 + arctan(inner product) / pi`, or `1 / (1 + squared
/// distance)`. A document whose vector is damaged has none.
pub fn bounded_dense(snapshot: &Snapshot, values: &[f32], hits: &[DocumentHit]) -> Vec<DocumentHit> {
    let metric = snapshot.manifest().model.metric;
    let mut bounded = Vec::with_capacity(hits.len());
    for of_shard in hits.chunk_by(|a, b| a.shard == b.shard) {
        let number = of_shard.first().map_or(0, |hit| hit.shard);
        let Some(shard) = snapshot.shards().get(number) else {
            continue;
        };
        let scores = shard.dense.scores(of_shard.iter().map(|hit| hit.node), values);
        let scored = of_shard.iter().zip(scores).filter_map(|(hit, score)| {
            Some(DocumentHit {
                score: bounded_score(score?, metric),
                ..*hit
            })
        });
        bounded.extend(scored);
    }
    bounded
}

fn bounded_score(score: f32, metric: Metric) -> f32 {
    let score = match metric {
        Metric::Cosine => 0.5 * (1.0 + score),
        Metric::Dot => 0.5 + score.atan() * std::f32::consts::FRAC_1_PI,
        // The score is minus half the squared distance.
        Metric::L2 => 1.0 / (1.0 - 2.0 * score),
    };
    // Rounding, and vectors of a length near 1.
    score.clamp(0.0, 1.0)
}

/// Hits, which ascend by shard and node, with their BM25 scores from 0 to 1, as the share of the bound that no document
/// reaches; none where the work was cancelled. A question of stop words alone has no terms, and no bound.
pub fn bounded_bm25(
    snapshot: &Snapshot,
    weighed: &Weighed<'_>,
    documents: Option<&DocumentScores>,
    mut hits: Vec<DocumentHit>,
    cancel: &dyn Cancel,
) -> Result<Option<Vec<DocumentHit>>> {
    let bound = weighed.bound() + documents.map_or(0.0, DocumentScores::bound);
    for of_shard in hits.chunk_by_mut(|a, b| a.shard == b.shard) {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let without_score = |hit: &DocumentHit| Scored {
            node: hit.node,
            score: 0.0,
        };
        let mut scored: Vec<Scored> = of_shard.iter().map(without_score).collect();
        let number = of_shard.first().map_or(0, |hit| hit.shard);
        let Some(shard) = snapshot.shards().get(number) else {
            continue;
        };
        if !weighed.score(&shard.text, &mut scored, cancel)? {
            return Ok(None);
        }
        if let Some(documents) = documents {
            let added = documents.of_shard(number, &shard.text);
            for hit in &mut scored {
                hit.score += added.score(hit.node);
            }
        }
        for (hit, scored) in of_shard.iter_mut().zip(scored) {
            hit.score = if bound > 0.0 {
                (scored.score / bound).clamp(0.0, 1.0)
            } else {
                0.0
            };
        }
    }
    Ok(Some(hits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_both_rankings_are_there_once_and_ascending() {
        let hit = |shard, node, score| DocumentHit { score, shard, node };
        let all = hits_of_both(
            &[hit(1, 5, 0.9), hit(0, 7, 0.8)],
            &[hit(1, 2, 9.0), hit(0, 7, 8.0), hit(1, 5, 7.0)],
        );
        assert_eq!(
            all.iter().map(|hit| (hit.shard, hit.node)).collect::<Vec<_>>(),
            [(0, 7), (1, 2), (1, 5)]
        );
        assert!(hits_of_both(&[], &[]).is_empty());
    }
}
