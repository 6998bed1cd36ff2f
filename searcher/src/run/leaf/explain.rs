//! What is known of one document: its scores, and how many documents of some shards are ahead of it.

use std::sync::Arc;
use std::time::Duration;

use dyad_index::Snapshot;
use dyad_index::lexical::AnalyzedQuestion;
use dyad_proto::v1;

use super::super::engine::Engine;
use super::super::stages::explain::{Bm25Scores, DocumentScorer};
use super::super::stages::part_results::Allowed;
use super::super::stages::rank::field_value;
use super::call::{LeafCallTarget, LeafPart};
use crate::error::{Error, Result};
use crate::leaves::wire::counts_of;
use crate::plan::{IndexSize, SearchCost};

impl Engine {
    /// A leaf's part of an explanation.
    pub(crate) async fn leaf_explain(
        &self,
        request: v1::LeafExplainRequest,
        time: Option<Duration>,
    ) -> Result<v1::LeafExplainResponse> {
        let target = LeafCallTarget {
            generation: request.generation.as_ref(),
            shards: &request.shards,
            scope: request.scope.as_ref(),
            time,
        };
        let cost = |snapshot: &Arc<Snapshot>| -> SearchCost { IndexSize::from_snapshot(snapshot).explanation() };
        let call = self.leaf_call(&target, cost)?;
        let part = call.part.clone();
        call.jobs.start(move || explain(&part, &request)).await
    }
}

fn explain(part: &LeafPart, request: &v1::LeafExplainRequest) -> Result<v1::LeafExplainResponse> {
    let LeafPart { snapshot, cancel, .. } = part;
    let key_id = request.scope.as_ref().map_or("", |scope| &scope.key_id);
    let allowed: Allowed = match &request.filter {
        Some(filter) => Some(part.allowed(filter, key_id)?.0),
        None => None,
    };
    let question: AnalyzedQuestion = snapshot.question(&request.query);
    let counts = request.counts.as_ref().map(counts_of).ok_or(Error::Internal)?;
    let weighed = question.weigh_by(&counts, &**cancel)?;
    let weighed = weighed.ok_or_else(|| cancel.deadline_error())?;
    let scores = Bm25Scores {
        weighed: &weighed,
        documents: None,
    };
    let scorer = DocumentScorer {
        snapshot,
        nodes: &allowed,
        key: &request.key,
        cancel,
    };
    let mut reply = v1::LeafExplainResponse {
        generation: request.generation.clone(),
        ..v1::LeafExplainResponse::default()
    };
    if let Some(known) = request.scores {
        if let Some(score) = known.dense {
            reply.ahead_by_vector = scorer.ahead_by_vector(&request.vector, score)?;
        }
        if let Some(score) = known.bm25 {
            reply.ahead_by_bm25 = u64::from(scorer.ahead_by_bm25(&scores, score)?);
        }
        return Ok(reply);
    }
    let existing = part.existing()?;
    let is_callers = |(shard, node): &(usize, u32)| {
        existing.is_none_or(|all| all.shards.get(*shard).is_some_and(|nodes| nodes.contains(*node)))
    };
    let Some((shard, node)) = snapshot.find(&request.key)?.filter(is_callers) else {
        return Ok(reply);
    };
    let own = snapshot.shards().get(shard).ok_or(Error::Internal)?;
    let explanation = weighed.explain(&own.text, node)?;
    let has_bm25 = explanation.is_some();
    let dense = if request.vector.is_empty() {
        None
    } else {
        own.dense.score(node, &request.vector)
    };
    let value = if request.group_by.is_empty() {
        None
    } else {
        snapshot.document(shard, node)?.value(&request.group_by)
    };
    reply.document = Some(v1::LeafExplained {
        shard: snapshot.numbers().get(shard).copied().unwrap_or_default() as u32,
        node,
        allowed: allowed
            .as_ref()
            .is_none_or(|all| all.shards.get(shard).is_some_and(|nodes| nodes.contains(node))),
        scores: Some(v1::LeafDocumentScores {
            dense,
            bm25: if has_bm25 {
                Some(scorer.bm25_score(&scores, shard, node)?)
            } else {
                None
            },
        }),
        bm25_explanation_json: explanation.map_or_else(String::new, |(_, json)| json),
        value: value.map(field_value),
    });
    Ok(reply)
}
