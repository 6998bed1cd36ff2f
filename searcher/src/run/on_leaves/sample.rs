//! Documents that are chosen at random of all shards, whichever leaves hold them: of each shard as many as are drawn by
//! its share of all.

use std::collections::BTreeMap;

use dyad_proto::v1;
use dyad_proto::v1::leaf_read_request::Request as Asked;
use dyad_proto::v1::leaf_read_response::Response as Told;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use prost::Message as _;

use super::super::resources::reply_memory::ReplyBudget;
use super::read::CallOnLeaves;
use crate::error::{Error, Result};
use crate::leaves::Draws;

/// Shards that are asked for at once.
const AT_ONCE: usize = 16;

impl CallOnLeaves<'_> {
    /// Documents chosen at random; the same for a seed, a filter and a generation.
    pub(in crate::run) async fn sample(
        self,
        request: v1::SampleDocumentsRequest,
    ) -> Result<(v1::SampleDocumentsResponse, ReplyBudget)> {
        let request = v1::SampleDocumentsRequest {
            filter: self.restrict(request.filter.clone()),
            ..request
        };
        self.reply(|budget| self.drawn(&request, budget)).await
    }

    async fn drawn(
        &self,
        request: &v1::SampleDocumentsRequest,
        budget: ReplyBudget,
    ) -> Result<(v1::SampleDocumentsResponse, ReplyBudget)> {
        let counts = self.counts(request.filter.as_ref()).await?;
        let order = drawn_shards(&counts, request.count as usize, request.seed);
        let mut by_shard: BTreeMap<usize, u32> = BTreeMap::new();
        for shard in &order {
            *by_shard.entry(*shard).or_default() += 1;
        }
        let calls = by_shard
            .iter()
            .map(|(shard, count)| self.sample_of_shard(request, *shard, *count, &budget));
        let samples: Vec<(usize, Vec<v1::Document>)> = stream::iter(calls.collect::<Vec<_>>())
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let mut left: BTreeMap<usize, _> = samples
            .into_iter()
            .map(|(shard, documents)| (shard, documents.into_iter()))
            .collect();
        let mut documents = Vec::with_capacity(order.len());
        for shard in order {
            let next = left.get_mut(&shard).and_then(Iterator::next).ok_or(Error::Internal)?;
            budget.take_bytes(next.encoded_len())?;
            documents.push(next);
        }
        let reply = v1::SampleDocumentsResponse {
            documents,
            of: counts.iter().sum(),
            generation: self.number(),
        };
        Ok((reply, budget))
    }

    /// How many documents of each shard match, by its number.
    async fn counts(&self, filter: Option<&v1::Filter>) -> Result<Vec<u64>> {
        let shards = &self.shards()?.shards;
        let Some(filter) = filter else {
            return Ok(shards.iter().map(|shard| shard.documents).collect());
        };
        let count = |number: u32| async move {
            let asked = Asked::Count(v1::CountDocumentsRequest {
                filter: Some(filter.clone()),
                ..v1::CountDocumentsRequest::default()
            });
            match self.ask_for(&[number], asked, &self.memory().budget()).await?.pop() {
                Some(Told::Count(told)) => Ok(told.documents),
                _ => Err(Error::Internal),
            }
        };
        let calls: Vec<_> = (0..shards.len() as u32).map(count).collect();
        stream::iter(calls).buffered(AT_ONCE).try_collect().await
    }

    async fn sample_of_shard(
        &self,
        request: &v1::SampleDocumentsRequest,
        shard: usize,
        count: u32,
        budget: &ReplyBudget,
    ) -> Result<(usize, Vec<v1::Document>)> {
        let asked = Asked::Sample(v1::SampleDocumentsRequest {
            count,
            seed: request.seed.wrapping_add(shard as u64),
            ..request.clone()
        });
        match self.ask_for(&[shard as u32], asked, budget).await?.pop() {
            Some(Told::Sample(told)) => Ok((shard, told.documents)),
            _ => Err(Error::Internal),
        }
    }
}

/// The shard of each document of a sample, in the order of the sample, where shards have so many documents.
fn drawn_shards(counts: &[u64], wanted: usize, seed: u64) -> Vec<usize> {
    let (mut left, draws) = (counts.to_vec(), Draws::new(seed));
    let mut all: u64 = left.iter().sum();
    let mut drawn_of = Vec::new();
    while drawn_of.len() < wanted && all > 0 {
        let mut drawn = draws.next() % all;
        let chosen = left.iter().position(|of_shard| {
            let is_it = drawn < *of_shard;
            drawn = drawn.saturating_sub(*of_shard);
            is_it
        });
        let Some(chosen) = chosen else { break };
        if let Some(of_shard) = left.get_mut(chosen) {
            *of_shard -= 1;
        }
        all -= 1;
        drawn_of.push(chosen);
    }
    drawn_of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_drawn_by_their_documents_and_none_twice() {
        let counts = [700, 0, 100, 200];
        let drawn = drawn_shards(&counts, 1000, 5);
        for (shard, count) in counts.iter().enumerate() {
            let of_shard = drawn.iter().filter(|drawn| **drawn == shard).count();
            assert_eq!(of_shard as u64, *count, "all of them, where all are wanted");
        }
        let first = drawn_shards(&counts, 100, 5);
        assert_eq!(first, drawn.iter().take(100).copied().collect::<Vec<_>>());
        let of_largest = first.iter().filter(|drawn| **drawn == 0).count();
        assert!((55..85).contains(&of_largest), "{of_largest}");
        assert_ne!(first, drawn_shards(&counts, 100, 6));
        assert_eq!(drawn_shards(&[0, 2], 5, 1), [1, 1]);
    }
}
