//! Explains why a document is, or is not, among the hits of a search: the search is run by its own plan, and the
//! document's exact place in each ranking is computed by reading every vector and every matching document.

use dyad_index::lexical::{DocumentScores, FieldValue, ShardPassage, Weighed};
use dyad_index::search::NodeSet;
use dyad_index::snapshot::{DenseParams, DocumentHit, Shard, Snapshot};
use dyad_proto::v1;
use rayon::prelude::*;

use super::batch::{BatchItem, QuestionBatch, QuestionVector};
use super::groups::Grouped;
use super::part_results::{Allowed, PartResults};
use crate::error::{Error, Result};
use crate::plan::SearchPlan;
use crate::run::resources::cancellation::SearchCancellation;

/// Explains one document for a batch of one question whose vector is there.
pub(in crate::run) fn explain(batch: &QuestionBatch, key: &str) -> Result<v1::ExplainResponse> {
    let (snapshot, cancel) = (&*batch.snapshot, &*batch.cancel);
    cancel.check()?;
    let absent = || Error::NoDocument(key.to_owned());
    // Before the key is looked up, so that the time does not tell which keys others have. To a caller whose documents
    // are others, the document does not exist.
    let existing = batch.allowed_to_caller()?;
    let is_callers = |(shard, node): &(usize, u32)| {
        existing.is_none_or(|all| all.shards.get(*shard).is_some_and(|nodes| nodes.contains(*node)))
    };
    let (shard, node) = snapshot.find(key)?.filter(is_callers).ok_or_else(absent)?;
    let own = snapshot.shards().get(shard).ok_or_else(absent)?;
    let allowed = batch.run()?;
    let (Some(item), Some(found)) = (batch.items.first(), batch.found.first()) else {
        return Err(Error::Internal);
    };
    let none = QuestionVector::default();
    let vector = batch.vectors.get().and_then(|all| all.first()).unwrap_or(&none);
    let answered = item.answered_with(vector);
    let item = &*answered;
    let by = item.plan.group_by.as_ref();
    let grouped = by
        .map(|by| batch.grouped(item, by, vector, found))
        .transpose()?
        .flatten();
    let explained = ExplainedSearch {
        batch,
        item,
        vector,
        found,
        grouped: grouped.as_ref(),
    };
    let scorer = DocumentScorer {
        snapshot,
        nodes: &allowed,
        key,
        cancel,
    };
    let question = snapshot.question(&item.query);
    let weighed = question
        .weigh(batch.statistics()?, cancel)?
        .ok_or_else(|| cancel.deadline_error())?;
    let documents = batch.document_scores(&weighed, &explained.plan())?;
    let mut document = ExplainedDocument {
        place: (shard, node),
        allowed: nodes(&allowed, shard, own).is_none_or(|nodes| nodes.contains(node)),
        ..ExplainedDocument::default()
    };
    if let Some(values) = vector.values.as_deref()
        && let Some(score) = own.dense.score(node, values)
    {
        let rank = scorer.ahead_by_vector(values, score)? as u32 + 1;
        document.dense_exact = Some(v1::Placement { rank, score });
    }
    let explanation = match &documents {
        None => weighed.explain(&own.text, node)?,
        Some(scores) => {
            document.bm25_of_document = scores.of_shard(shard, &own.text).score(node);
            let passage = ShardPassage {
                number: shard,
                shard: &own.text,
                node,
            };
            let explained = weighed.explain_in_document(batch.statistics()?, scores, passage, cancel)?;
            explained.ok_or_else(|| cancel.deadline_error())?
        }
    };
    if let Some((_, json)) = explanation {
        let bm25 = Bm25Scores {
            weighed: &weighed,
            documents: documents.as_ref(),
        };
        let score = scorer.bm25_score(&bm25, shard, node)?;
        let rank = scorer.ahead_by_bm25(&bm25, score)? + 1;
        document.bm25 = Some(v1::Placement { rank, score });
        document.bm25_explanation_json = json;
    }
    if let Some(by) = by {
        document.value = snapshot.document(shard, node)?.value(&by.field);
    }
    explained.told(document)
}

/// What is known of a document, whatever has found it.
#[derive(Debug, Default)]
pub(in crate::run) struct ExplainedDocument {
    /// Shard and node.
    pub(in crate::run) place: (usize, u32),
    /// Whether the filter allows it.
    pub(in crate::run) allowed: bool,
    pub(in crate::run) dense_exact: Option<v1::Placement>,
    pub(in crate::run) bm25: Option<v1::Placement>,
    pub(in crate::run) bm25_explanation_json: String,
    pub(in crate::run) bm25_of_document: f32,
    /// Of the field that hits are grouped by.
    pub(in crate::run) value: Option<FieldValue>,
}

/// A search whose parts are done.
pub(in crate::run) struct ExplainedSearch<'a> {
    pub(in crate::run) batch: &'a QuestionBatch,
    pub(in crate::run) item: &'a BatchItem,
    pub(in crate::run) vector: &'a QuestionVector,
    /// What its parts have found, at the depth of the plan.
    pub(in crate::run) found: &'a PartResults,
    pub(in crate::run) grouped: Option<&'a Grouped>,
}

impl ExplainedSearch<'_> {
    /// The plan, at the depth to which rankings were read.
    fn plan(&self) -> SearchPlan {
        let plan = &self.item.plan;
        plan.with_depth(self.grouped.map_or(plan.depth(), |grouped| grouped.depth))
    }

    /// Why the document is, or is not, among the hits.
    pub(in crate::run) fn told(&self, document: ExplainedDocument) -> Result<v1::ExplainResponse> {
        let (batch, vector, plan) = (self.batch, self.vector, &self.plan());
        let found = self
            .grouped
            .and_then(|grouped| grouped.deeper.as_ref())
            .unwrap_or(self.found);
        let manifest = batch.snapshot.manifest();
        let mut told = v1::ExplainResponse {
            allowed: document.allowed,
            generation: manifest.generation,
            depth: plan.depth() as u32,
            ef: plan.ef(),
            dense_exact: document.dense_exact,
            bm25: document.bm25,
            bm25_explanation_json: document.bm25_explanation_json,
            bm25_of_document: document.bm25_of_document,
            terms: batch.snapshot.question(&self.item.query).terms().to_vec(),
            ..v1::ExplainResponse::default()
        };
        let is_it = |hit: &DocumentHit| (hit.shard, hit.node) == document.place;
        let whole = batch.whole_ranking(plan, &self.item.query, vector, found, usize::MAX)?;
        let score = place_in_rankings(&mut told, plan, found, &whole, is_it);
        if let (Some(grouped), Some(score)) = (self.grouped, score) {
            place_in_groups(&mut told, plan, score, grouped.place(document.value.as_ref(), is_it));
        }
        if told.hit.is_none() {
            let scans = found.dense.get().map_or(0, |(hits, _)| hits.cost.scans) as usize;
            told.reasons
                .extend(reasons(&told, plan, Some(vector), (scans, manifest.shards.len())));
        }
        Ok(told)
    }
}

/// The nodes of a shard that can be hits; all where absent.
fn nodes<'a>(allowed: &'a Allowed, at: usize, shard: &'a Shard) -> Option<&'a NodeSet> {
    allowed.as_ref().and_then(|all| all.shards.get(at)).or(shard.live())
}

/// The place of the document for which `is_it` is true among the hits of each ranking, and among those of the reply,
/// where hits are not grouped; or why the whole ranking has it and the reply has not. Its score in the whole ranking,
/// where it reaches the threshold.
fn place_in_rankings(
    told: &mut v1::ExplainResponse,
    plan: &SearchPlan,
    found: &PartResults,
    whole: &[DocumentHit],
    is_it: impl Fn(&DocumentHit) -> bool,
) -> Option<f32> {
    let place = |ranking: &[DocumentHit]| {
        let found = (1..).zip(ranking).find(|(_, hit)| is_it(hit));
        found.map(|(rank, hit)| v1::Placement { rank, score: hit.score })
    };
    told.dense = found.dense.get().and_then(|(hits, _)| place(&hits.hits));
    let v1::Placement { rank, score } = place(whole)?;
    if let Some(least) = plan.score_threshold.filter(|least| score < *least) {
        told.reasons
            .push(format!("its score {score} is below `score_threshold`, {least}"));
        return None;
    }
    if plan.group_by.is_none() {
        place_on_page(told, plan, v1::Placement { rank, score });
    }
    Some(score)
}

/// The document is a hit if its rank is on the page.
fn place_on_page(told: &mut v1::ExplainResponse, plan: &SearchPlan, place: v1::Placement) {
    let (first, last, rank) = (plan.offset + 1, plan.offset + plan.k, place.rank);
    if (first..=last).contains(&(rank as usize)) {
        told.hit = Some(place);
    } else {
        told.reasons.push(format!(
            "it is at rank {rank}, and the search asks for ranks {first} to {last}"
        ));
    }
}

/// `place`: the rank of the document's group, and whether the document is among the group's hits.
fn place_in_groups(told: &mut v1::ExplainResponse, plan: &SearchPlan, score: f32, place: Option<(u32, bool)>) {
    let (first, last) = (plan.offset + 1, plan.offset + plan.k);
    let reason = match place {
        None => format!("its group is after rank {last}, and the search asks for groups at ranks {first} to {last}"),
        Some((rank, _)) if (rank as usize) < first => {
            format!("its group is at rank {rank}, and the search asks for groups at ranks {first} to {last}")
        }
        Some((rank, true)) => {
            told.hit = Some(v1::Placement { rank, score });
            return;
        }
        Some((rank, false)) => format!("its group, at rank {rank}, has better hits: all that `group_by.hits` asks for"),
    };
    told.reasons.push(reason);
}

/// Why the rankings do not have the document. `scans`: the shards of which the codes were scanned, and all.
fn reasons(
    told: &v1::ExplainResponse,
    plan: &SearchPlan,
    vector: Option<&QuestionVector>,
    scans: (usize, usize),
) -> Vec<String> {
    if !told.allowed {
        return vec!["the filter does not allow it".to_owned()];
    }
    if !told.reasons.is_empty() {
        return Vec::new();
    }
    let mut reasons = Vec::new();
    if let Some(DenseParams { k, .. }) = plan.dense {
        reasons.extend(match told.dense_exact {
            None => vector
                .and_then(|vector| vector.degraded.clone())
                .or_else(|| Some("dense: its vector is damaged".to_owned())),
            Some(v1::Placement { rank, .. }) if rank as usize > k => Some(format!(
                "dense: it is at rank {rank} by inner product, and the ranking ends at {k}"
            )),
            Some(v1::Placement { rank, .. }) => {
                let graph = format!("the graph search at ef {}", told.ef);
                let (search, fix) = match scans {
                    (0, _) => (graph, "Raise `ef`, or set `exact`"),
                    // A wider beam would scan them again.
                    (scanned, all) if scanned >= all => ("the scan of codes".to_owned(), "Set `exact`"),
                    _ => (format!("the scan of codes or {graph}"), "Set `exact`"),
                };
                Some(format!(
                    "dense: it is at rank {rank} by inner product, and {search} has missed it. {fix}"
                ))
            }
        });
    }
    if let Some(depth) = plan.text_depth {
        reasons.push(match told.bm25 {
            None => "BM25: it has none of the question's terms".to_owned(),
            Some(v1::Placement { rank, .. }) => format!("BM25: it is at rank {rank}, and the ranking ends at {depth}"),
        });
    }
    reasons
}

/// What BM25 ranks by.
pub(in crate::run) struct Bm25Scores<'a> {
    pub(in crate::run) weighed: &'a Weighed<'a>,
    pub(in crate::run) documents: Option<&'a DocumentScores>,
}

impl Bm25Scores<'_> {
    /// Calls `take` for every matching document of a shard, with its score.
    fn each_match(
        &self,
        number: usize,
        shard: &Shard,
        cancel: &SearchCancellation,
        take: impl FnMut(u32, f32),
    ) -> Result<()> {
        let is_whole = match self.documents.map(|documents| documents.of_shard(number, &shard.text)) {
            Some(scores) => self.weighed.each_in_documents(scores, take, cancel)?,
            None => self.weighed.each(&shard.text, take, cancel)?,
        };
        if is_whole { Ok(()) } else { Err(cancel.deadline_error()) }
    }
}

/// Exact places of a document among those of the shards that are open.
pub(in crate::run) struct DocumentScorer<'a> {
    pub(in crate::run) snapshot: &'a Snapshot,
    /// What the filter allows.
    pub(in crate::run) nodes: &'a Allowed,
    pub(in crate::run) key: &'a str,
    pub(in crate::run) cancel: &'a SearchCancellation,
}

impl DocumentScorer<'_> {
    /// How many of the allowed documents are nearer than by this score, or as near with a smaller key.
    pub(in crate::run) fn ahead_by_vector(&self, values: &[f32], score: f32) -> Result<u64> {
        let ahead = |(at, shard): (usize, &Shard)| {
            let nodes = nodes(self.nodes, at, shard);
            shard.dense.ahead_of(values, score, self.key, nodes, self.cancel)
        };
        let ahead: Option<u64> = self.snapshot.shards().par_iter().enumerate().map(ahead).sum();
        ahead.ok_or_else(|| self.cancel.deadline_error())
    }

    /// The document's BM25: one pass over its shard.
    pub(in crate::run) fn bm25_score(&self, scores: &Bm25Scores<'_>, shard: usize, node: u32) -> Result<f32> {
        let mut score = 0.0;
        if let Some(own) = self.snapshot.shards().get(shard) {
            let take = |other, sum| {
                if other == node {
                    score = sum;
                }
            };
            scores.each_match(shard, own, self.cancel, take)?;
        }
        Ok(score)
    }

    /// How many of the allowed documents have a higher BM25 score, or the same and a smaller key: one pass over all.
    pub(in crate::run) fn ahead_by_bm25(&self, scores: &Bm25Scores<'_>, score: f32) -> Result<u32> {
        let ahead = |(at, shard): (usize, &Shard)| -> Result<u32> {
            let (keys, allowed, mut ahead) = (shard.dense.keys(), nodes(self.nodes, at, shard), 0);
            // A score with a smaller key wins ties; the document itself is never ahead.
            let take = |other, sum: f32| {
                let counts = allowed.is_none_or(|nodes| nodes.contains(other));
                let is_ahead = sum > score || (sum.total_cmp(&score).is_eq() && keys.key(other) < self.key);
                ahead += u32::from(counts && is_ahead);
            };
            scores.each_match(at, shard, self.cancel, take)?;
            Ok(ahead)
        };
        self.snapshot.shards().par_iter().enumerate().map(ahead).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fusion::Fusion;

    #[test]
    fn what_helps_depends_on_the_search_that_missed_the_document() {
        let request = v1::SearchRequest {
            query: "q".into(),
            mode: v1::Mode::Dense.into(),
            k: 10,
            ..Default::default()
        };
        let plan = SearchPlan::new(&request, Duration::from_secs(1), &[], Fusion::default());
        let place = v1::Placement { rank: 3, score: 0.5 };
        let told = v1::ExplainResponse {
            allowed: true,
            ef: 128,
            dense_exact: Some(place),
            ..v1::ExplainResponse::default()
        };
        let reason = |scanned| reasons(&told, &plan, None, (scanned, 2)).concat();
        let missed = |by: &str| format!("dense: it is at rank 3 by inner product, and {by}");
        assert_eq!(
            reason(0),
            missed("the graph search at ef 128 has missed it. Raise `ef`, or set `exact`")
        );
        assert_eq!(
            reason(1),
            missed("the scan of codes or the graph search at ef 128 has missed it. Set `exact`")
        );
        assert_eq!(reason(2), missed("the scan of codes has missed it. Set `exact`"));
    }
}
