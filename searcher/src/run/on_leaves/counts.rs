//! BM25's counts of a question's terms over all shards, and what of the shards exists for the caller.

use std::collections::BTreeMap;

use dyad_index::lexical::TermCounts;
use dyad_proto::v1;

use super::super::stages::batch::{BatchItem, QuestionBatch};
use super::asked::LeavesOfBatch;
use super::coverage::AskedShards;
use super::request::scope_message;
use crate::error::Result;
use crate::leaves::wire::counts_of;

/// What was counted for a question.
#[derive(Debug, Clone)]
pub(super) struct CountedQuestion {
    /// The shards that it is asked of: those in which it was counted.
    pub(super) shards: AskedShards,
    /// Where the question is asked of BM25, or snippets are made of it.
    pub(super) counts: Option<TermCounts>,
    /// The documents of each shard that exist for the caller, by its number, where these are not all.
    pub(super) existing: Option<BTreeMap<u32, v1::LeafShardDocuments>>,
}

impl LeavesOfBatch<'_> {
    /// Counts the terms of a question. The documents that exist for a caller are counted along.
    pub(super) async fn count(&self, batch: &QuestionBatch, item: &BatchItem) -> Result<CountedQuestion> {
        let plan = &item.plan;
        let needs_counts = plan.text_depth.is_some() || plan.snippet_bytes > 0;
        if needs_counts || batch.scope.is_some() {
            return self.count_terms(batch, item).await;
        }
        Ok(CountedQuestion {
            shards: AskedShards::all(self.generation, plan.min_coverage),
            counts: None,
            existing: None,
        })
    }

    /// The same, whatever the question's plan needs.
    pub(super) async fn count_terms(&self, batch: &QuestionBatch, item: &BatchItem) -> Result<CountedQuestion> {
        let mut shards = AskedShards::all(self.generation, item.plan.min_coverage);
        let request = v1::TermsRequest {
            generation: Some(self.generation.name.clone()),
            shards: Vec::new(),
            query: item.query.clone(),
            scope: scope_message(batch),
        };
        let replies = self.ask_some(&mut shards, &request).await?;
        let mut counts = TermCounts::new(&batch.snapshot.question(&item.query));
        let mut existing = BTreeMap::new();
        for reply in replies {
            if let Some(message) = &reply.counts {
                counts.merge(&counts_of(message))?;
            }
            existing.extend(reply.existing.into_iter().map(|of_shard| (of_shard.shard, of_shard)));
        }
        Ok(CountedQuestion {
            shards,
            counts: Some(counts),
            existing: batch.scope.is_some().then_some(existing),
        })
    }
}
