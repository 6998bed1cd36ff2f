//! How many documents of some shards hold the terms of a question.

use std::time::Duration;

use dyad_index::search::NodeSet;
use dyad_index::snapshot::Shard;
use dyad_proto::v1;

use super::super::engine::Engine;
use super::call::{LeafCallTarget, LeafPart};
use crate::error::Result;
use crate::leaves::wire::counts_message;
use crate::plan::SearchCost;

impl Engine {
    /// Counts of a question's terms, over the documents that exist for the caller.
    pub(crate) async fn leaf_terms(
        &self,
        request: v1::TermsRequest,
        time: Option<Duration>,
    ) -> Result<v1::TermsResponse> {
        let target = LeafCallTarget {
            generation: request.generation.as_ref(),
            shards: &request.shards,
            scope: request.scope.as_ref(),
            time,
        };
        let call = self.leaf_call(&target, |_| SearchCost::default())?;
        let part = call.part.clone();
        call.jobs.start(move || terms(&part, request)).await
    }
}

fn terms(part: &LeafPart, request: v1::TermsRequest) -> Result<v1::TermsResponse> {
    let LeafPart { snapshot, cancel, .. } = part;
    let existing = part.existing()?;
    let statistics = match existing {
        Some(existing) => existing.statistics(snapshot)?,
        None => snapshot.statistics(),
    };
    let question = snapshot.question(&request.query);
    let counts = statistics.term_counts(&question, &**cancel)?;
    let counts = counts.ok_or_else(|| cancel.deadline_error())?;
    let of_shard = |((number, shard), nodes): ((&usize, &Shard), &NodeSet)| v1::LeafShardDocuments {
        shard: *number as u32,
        documents: nodes.len() as u64,
        is_damaged: shard.dense.damage().is_some(),
    };
    let shards = snapshot.numbers().iter().zip(snapshot.shards());
    let existing = existing.map(|existing| shards.zip(&*existing.shards).map(of_shard).collect());
    Ok(v1::TermsResponse {
        counts: Some(counts_message(&counts)),
        existing: existing.unwrap_or_default(),
        generation: request.generation,
    })
}
