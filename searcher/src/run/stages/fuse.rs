//! The whole ranking of a search: that of its mode, with the fusion of both in modes that have two.

use std::borrow::Cow;
use std::sync::OnceLock;

use dyad_index::FusionMethod;
use dyad_index::hybrid::{self, bounded_dense, hits_of_both};
use dyad_index::lexical::Weighed;
use dyad_index::snapshot::DocumentHit;
use dyad_proto::v1::Mode;

use super::batch::{BatchItem, QuestionBatch, QuestionVector};
use super::bounded_rankings::BoundedRankings;
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
        let key = |hit: &DocumentHit| found.key(snapshot, hit).unwrap_or_default();
        let fused =
            |dense: &[DocumentHit], bm25: Bm25Ranking<'_>| fusion(plan, vector, found).fuse(dense, bm25, most, key);
        match plan.mode {
            Mode::Dense | Mode::Unspecified => Ok(dense.to_vec()),
            Mode::Bm25 => Ok(text.to_vec()),
            Mode::Hybrid | Mode::Compare if plan.fusion.method == FusionMethod::MinMax => {
                let union = hits_of_both(dense, text);
                let BoundedRankings { dense, text, exactness } = match (found.on_leaves.get(), &vector.values) {
                    (Some(on_leaves), _) => on_leaves.bounded(&union),
                    (None, values) => self.bounded(plan, query, values.as_deref(), union)?,
                };
                Ok(fused(
                    &dense,
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
        let found = hybrid::exactness(&self.snapshot, weighed, hits, &*self.cancel)?;
        found.ok_or_else(|| self.cancel.deadline_error())
    }

    /// Hits, which ascend by shard and node, with both scores from 0 to 1, and how exactly they have the words of the
    /// question.
    fn bounded(
        &self,
        plan: &SearchPlan,
        query: &str,
        values: Option<&[f32]>,
        hits: Vec<DocumentHit>,
    ) -> Result<BoundedRankings> {
        let (snapshot, cancel) = (&*self.snapshot, &*self.cancel);
        let question = snapshot.question(query);
        let weighed = question
            .weigh(self.statistics()?, cancel)?
            .ok_or_else(|| cancel.deadline_error())?;
        let documents = self.document_scores(&weighed, plan)?;
        let dense = values.map(|values| bounded_dense(snapshot, values, &hits));
        let bounded = hybrid::bounded_bm25(snapshot, &weighed, documents.as_ref(), hits, cancel)?;
        let text = bounded.ok_or_else(|| cancel.deadline_error())?;
        let exactness = self.exactness(&weighed, &text)?;
        Ok(BoundedRankings {
            dense: dense.unwrap_or_default(),
            text,
            exactness,
        })
    }
}

/// The hits of a part; none where it did not run.
pub(super) fn hits_of(part: &OnceLock<Timed>) -> &[DocumentHit] {
    part.get().map_or(&[], |(hits, _)| &hits.hits)
}
