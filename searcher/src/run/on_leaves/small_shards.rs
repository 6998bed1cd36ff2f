//! The second round of searches where some shards are small next to others: they are searched no further below the hits
//! of these than is worth while, which only the root knows.

use dyad_index::snapshot::kth_score;
use dyad_proto::v1;

use super::asked::LeavesOfBatch;
use super::coverage::AskedShards;
use super::merge::MergedReplies;
use super::request::small_shards_of;
use crate::error::Result;
use crate::leaves::wire::vector_search;
use crate::plan::SearchPlan;

impl LeavesOfBatch<'_> {
    /// Whether some shards are left to a second round.
    pub(super) fn has_small_shards(&self, plan: &SearchPlan, asked: &v1::LeafSearchRequest) -> bool {
        let has_some = |params| small_shards_of(self.generation, params, plan.filter.is_some()).is_some();
        asked.dense.is_some() && plan.dense_searches().iter().any(has_some)
    }

    /// Searches the small shards, by what the first round has found in the others.
    pub(super) async fn search_small(
        &self,
        plan: &SearchPlan,
        asked: &v1::LeafSearchRequest,
        shards: &mut AskedShards,
        merged: &mut MergedReplies,
    ) -> Result<()> {
        let (mut searches, mut places) = (Vec::new(), Vec::new());
        for (place, (params, ranking)) in plan.dense_searches().iter().zip(&mut merged.dense).enumerate() {
            let Some(small) = small_shards_of(self.generation, params, plan.filter.is_some()) else {
                continue;
            };
            let scores = ranking.found.hits.iter().map(|hit| hit.score);
            let score = kth_score(scores, params.k, ranking.found.cost.out_of_distribution > 0);
            let round = v1::SmallShardRound {
                most_documents: small.most_documents as u64,
                margin: small.margin,
                score: Some(score),
            };
            searches.push(vector_search(params, Some(round)));
            places.push(place);
        }
        if searches.is_empty() {
            return Ok(());
        }
        let Some(first) = &asked.dense else { return Ok(()) };
        let request = v1::LeafSearchRequest {
            dense: Some(v1::LeafDenseSearch {
                vector: first.vector.clone(),
                searches,
            }),
            // By which hits have both scores; it is not ranked again.
            text: asked.text.clone().filter(|_| asked.bounded_scores),
            noted_fields: Vec::new(),
            ..asked.clone()
        };
        let most = request
            .dense
            .iter()
            .flat_map(|dense| &dense.searches)
            .filter_map(|search| search.round.as_ref());
        let most = most.map(|round| round.most_documents).max().unwrap_or_default();
        let is_small = |number: &u32| {
            let shard = self.generation.shards.get(*number as usize);
            shard.is_some_and(|shard| shard.documents <= most)
        };
        let small = shards.only(is_small);
        for reply in self.ask_part(shards, &small, &request).await? {
            merged.add_small(reply, &places);
        }
        Ok(())
    }
}
