//! Hits of shards whose leaves have answered the search and no longer answer when the documents are read: they are left
//! out where a request may do with less than all, and the answer says so.

use dyad_proto::v1;

use super::super::stages::answer::{Answer, AnswerHit};
use super::super::stages::batch::QuestionBatch;
use super::super::stages::leaf_hits::LeafHits;
use super::coverage::missing_shard;
use crate::error::{Error, Result, ShardNumbers};
use crate::leaves::GenerationShards;

/// Shards whose documents cannot be read, and why.
pub(super) struct LostDocuments {
    pub(super) shards: Vec<u32>,
    pub(super) reason: String,
    /// Least share of the documents that an answer is of.
    pub(super) least: f64,
}

impl LostDocuments {
    /// Leaves their hits out of an answer, whose coverage is without them from then on; an error where that is less
    /// than it has to be.
    pub(super) fn leave_out(
        &self,
        answer: &mut Answer,
        batch: &QuestionBatch,
        generation: &GenerationShards,
        found: &LeafHits,
    ) -> Result<()> {
        let lists = answer
            .compared
            .as_mut()
            .map(|all| [&mut all.dense, &mut all.bm25, &mut all.hybrid]);
        for hits in std::iter::once(&mut answer.hits).chain(lists.into_iter().flatten()) {
            hits.retain(|hit| !self.is_of_them(hit));
            for hit in hits {
                hit.members.retain(|member| !self.is_of_them(member));
            }
        }
        let coverage = answer.response.coverage.get_or_insert_default();
        for number in &self.shards {
            if coverage.missing_shards.iter().any(|missing| missing.number == *number) {
                continue;
            }
            let lost = found.documents_of(*number, generation);
            coverage.intact_documents = coverage.intact_documents.saturating_sub(lost);
            let missing = missing_shard(batch, *number, &self.reason);
            coverage.missing_shards.push(missing);
        }
        coverage.missing_shards.sort_by_key(|missing| missing.number);
        if (coverage.intact_documents as f64) < self.least * coverage.documents as f64 {
            return Err(Error::NoLeaves {
                index: generation.name.index.clone(),
                generation: generation.name.generation,
                shards: ShardNumbers(self.shards.clone()),
                reason: Some(self.reason.clone()),
            });
        }
        self.tell(&mut answer.response, batch.scope.is_some());
        Ok(())
    }

    fn is_of_them(&self, hit: &AnswerHit) -> bool {
        self.shards.contains(&(hit.shard as u32))
    }

    fn tell(&self, response: &mut v1::SearchResponse, is_restricted: bool) {
        let told = if is_restricted {
            "hits are missing: a shard is damaged".to_owned()
        } else {
            let numbers = ShardNumbers(self.shards.clone());
            format!(
                "hits are missing: the documents of shards {numbers} cannot be read: {}",
                self.reason
            )
        };
        response.degraded = true;
        if !response.degraded_reason.is_empty() {
            response.degraded_reason.push_str("; ");
        }
        response.degraded_reason.push_str(&told);
    }
}
