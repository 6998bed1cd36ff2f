//! The whole ranking of a search: that of its mode, with the fusion of both in modes that have two.

use std::borrow::Cow;
use std::sync::OnceLock;

use dyad_index::lexical::{DocumentScores, Weighed};
use dyad_index::search::Scored;
use dyad_index::snapshot::{DocumentHit, Snapshot};
use dyad_index::{FusionMethod, Metric};
use dyad_proto::v1::Mode;

use super::batch::{BatchItem, QuestionBatch, QuestionVector};
use super::part_results::{PartResults, Timed};
use crate::error::{Error, Result};
use crate::fusion::reranked::{LOGITS_ALONE, adds_logits};
use crate::fusion::{Bm25Ranking, Fusion};
use crate::plan::SearchPlan;

/// Refuses a fusion, or a weight of a cross encoder's scores, that needs what the index does not know.
pub(in crate::run) fn check_units(plan: &SearchPlan, at: impl Fn() -> String) -> Result<()> {
    if plan.mode.fuses() && !plan.fusion.can_fuse() {
        return Err(Error::NoLogitScale { at: at() });
    }
    if plan.rerank_weight.is_some_and(|weight| weight < LOGITS_ALONE) && !adds_logits(Some(&plan.fusion)) {
        return Err(Error::RerankWeight {
            at: at(),
            fusion: plan.fusion.method.label(),
        });
    }
    Ok(())
}

impl QuestionBatch {
    /// The best `most` hits of a question; the parts are in `found`.
    pub(in crate::run) fn whole_ranking(
        &self,
        plan: &SearchPlan,
        query: &str,
        vector: &QuestionVector,
        found: &PartResults,
        most: usize,
    ) -> Result<Vec<DocumentHit>> {
        let (dense, text) = (hits_of(&found.dense), hits_of(&found.text));
        let snapshot = &*self.snapshot;
        let key = |hit: &DocumentHit| snapshot.key(hit.shard, hit.node).unwrap_or_default();
        let fused =
            |dense: &[DocumentHit], bm25: Bm25Ranking<'_>| fusion(plan, vector, found).fuse(dense, bm25, most, key);
        match plan.mode {
            Mode::Dense | Mode::Unspecified => Ok(dense.to_vec()),
            Mode::Bm25 => Ok(text.to_vec()),
            Mode::Hybrid | Mode::Compare if plan.fusion.method == FusionMethod::MinMax => {
                let union = union(dense, text);
                let values = vector.values.as_deref();
                let dense = values.map(|values| bounded_dense(snapshot, values, union.clone()));
                let (text, exactness) = self.bounded_bm25(plan, query, union)?;
                Ok(fused(
                    &dense.unwrap_or_default(),
                    Bm25Ranking {
                        hits: &text,
                        exactness: &exactness,
                    },
                ))
            }
            Mode::Hybrid | Mode::Compare => Ok(fused(
                dense,
                Bm25Ranking {
                    hits: text,
                    exactness: found.exactness(),
                },
            )),
        }
    }
}

/// The plan's fusion of the rankings that there are.
pub(in crate::run) fn fusion(plan: &SearchPlan, vector: &QuestionVector, found: &PartResults) -> Fusion {
    plan.fusion
        .of_rankings(vector.values.is_some(), found.exactness.get().is_some())
}

/// What a search says of itself that is answered without its question vector, in spite of its threshold.
pub(in crate::run) const NO_THRESHOLD: &str = "`score_threshold` was not applied, since it is one of fused scores";

impl BatchItem {
    /// The question as it is answered. Without its vector, hits have the scores of one ranking, and a threshold of
    /// fused ones is not applied: BM25's answer would be cut by a number that does not mean it.
    pub(in crate::run) fn answered_with(&self, vector: &QuestionVector) -> Cow<'_, Self> {
        let plan = &self.plan;
        if vector.values.is_some() || !plan.mode.fuses() || plan.score_threshold.is_none() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self {
            plan: plan.without_threshold(),
            ..self.clone()
        })
    }
}

impl PartResults {
    /// Of BM25's hits, [`Bm25Ranking::exactness`].
    pub(in crate::run) fn exactness(&self) -> &[f32] {
        self.exactness.get().map_or(&[], Vec::as_slice)
    }
}

impl QuestionBatch {
    /// How exactly hits have the words of a question, in their order.
    pub(in crate::run) fn exactness(&self, weighed: &Weighed<'_>, hits: &[DocumentHit]) -> Result<Vec<f32>> {
        let (snapshot, cancel) = (&*self.snapshot, &*self.cancel);
        let mut of_hits = vec![0.0; hits.len()];
        for (number, shard) in snapshot.shards().iter().enumerate() {
            let own = hits.iter().enumerate().filter(|(_, hit)| hit.shard == number);
            let mut placed: Vec<(u32, usize)> = own.map(|(at, hit)| (hit.node, at)).collect();
            if placed.is_empty() {
                continue;
            }
            placed.sort_unstable();
            let nodes: Vec<u32> = placed.iter().map(|(node, _)| *node).collect();
            let exactness = weighed.exactness(&shard.text, &nodes, cancel)?;
            let exactness = exactness.ok_or_else(|| cancel.deadline_error())?;
            for ((_, at), exactness) in placed.into_iter().zip(exactness) {
                if let Some(of_hit) = of_hits.get_mut(at) {
                    *of_hit = exactness;
                }
            }
        }
        Ok(of_hits)
    }

    /// Hits, which ascend by shard and node, with their BM25 scores from 0 to 1, as the share of the bound that no
    /// document reaches, and how exactly they have the words of the question.
    fn bounded_bm25(
        &self,
        plan: &SearchPlan,
        query: &str,
        mut hits: Vec<DocumentHit>,
    ) -> Result<(Vec<DocumentHit>, Vec<f32>)> {
        let (snapshot, cancel) = (&*self.snapshot, &*self.cancel);
        let question = snapshot.question(query);
        let weighed = question
            .weigh(self.statistics()?, cancel)?
            .ok_or_else(|| cancel.deadline_error())?;
        let documents = self.document_scores(&weighed, plan)?;
        let bound = weighed.bound() + documents.as_ref().map_or(0.0, DocumentScores::bound);
        for of_shard in hits.chunk_by_mut(|a, b| a.shard == b.shard) {
            cancel.check()?;
            let mut scored: Vec<Scored> = of_shard
                .iter()
                .map(|hit| Scored {
                    node: hit.node,
                    score: 0.0,
                })
                .collect();
            let number = of_shard.first().map_or(0, |hit| hit.shard);
            let Some(shard) = snapshot.shards().get(number) else {
                continue;
            };
            if !weighed.score(&shard.text, &mut scored, cancel)? {
                return Err(cancel.deadline_error());
            }
            if let Some(documents) = &documents {
                let added = documents.of_shard(number, &shard.text);
                for hit in &mut scored {
                    hit.score += added.score(hit.node);
                }
            }
            for (hit, scored) in of_shard.iter_mut().zip(scored) {
                // A question of stop words alone has no terms, and no bound.
                hit.score = if bound > 0.0 {
                    (scored.score / bound).clamp(0.0, 1.0)
                } else {
                    0.0
                };
            }
        }
        let exactness = self.exactness(&weighed, &hits)?;
        Ok((hits, exactness))
    }
}

/// The hits of a part; none where it did not run.
pub(super) fn hits_of(part: &OnceLock<Timed>) -> &[DocumentHit] {
    part.get().map_or(&[], |(hits, _)| &hits.hits)
}

/// The documents of both rankings, each once, ascending by shard and node.
fn union(dense: &[DocumentHit], text: &[DocumentHit]) -> Vec<DocumentHit> {
    let mut all: Vec<DocumentHit> = dense.iter().chain(text).copied().collect();
    all.sort_unstable_by_key(|hit| (hit.shard, hit.node));
    all.dedup_by_key(|hit| (hit.shard, hit.node));
    all
}

/// With their dense scores from 0 to 1: `(1 + cosine) / 2`, `1 / 2 + arctan(inner product) / pi`, or `1 / (1 + squared
/// distance)`. A document whose vector is damaged has none.
fn bounded_dense(snapshot: &Snapshot, values: &[f32], hits: Vec<DocumentHit>) -> Vec<DocumentHit> {
    let metric = snapshot.manifest().model.metric;
    let bounded = hits.into_iter().filter_map(|hit| {
        let score = snapshot.shards().get(hit.shard)?.dense.score(hit.node, values)?;
        Some(DocumentHit {
            score: bounded_score(score, metric),
            ..hit
        })
    });
    bounded.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_both_rankings_are_there_once_and_ascending() {
        let hit = |shard, node, score| DocumentHit { score, shard, node };
        let all = union(
            &[hit(1, 5, 0.9), hit(0, 7, 0.8)],
            &[hit(1, 2, 9.0), hit(0, 7, 8.0), hit(1, 5, 7.0)],
        );
        assert_eq!(
            all.iter().map(|hit| (hit.shard, hit.node)).collect::<Vec<_>>(),
            [(0, 7), (1, 2), (1, 5)]
        );
        assert!(union(&[], &[]).is_empty());
    }
}
