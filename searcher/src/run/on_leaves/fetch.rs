//! What answers show of their documents, read where these are.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use dyad_proto::client::{ClientError, LeafClient};
use dyad_proto::v1;
use prost::Message;

use super::super::engine::Engine;
use super::super::resources::reply_memory::ReplyBudget;
use super::super::stages::answer::{Answer, AnswerHit, Answers};
use super::super::stages::batch::{BatchItem, QuestionBatch, micros};
use super::super::stages::fetch::bytes_of_hits;
use super::super::stages::leaf_hits::{HitPlace, LeafHits};
use super::asked::LeavesOfBatch;
use super::lost_documents::LostDocuments;
use super::received::CarriesDocuments;
use super::request::{scope_message, shown_message};
use crate::error::{Error, Result};
use crate::leaves::LeafRequest;

/// What is wanted of documents.
pub(in crate::run) struct WantedOfDocuments {
    pub(in crate::run) places: Vec<HitPlace>,
    pub(in crate::run) shown: v1::LeafShown,
}

impl Engine {
    /// Reads the documents of answers that have none yet; once more where there is not enough memory for them, after as
    /// much as the largest reply may take has become free.
    pub(in crate::run) async fn fetch_from_leaves(&self, batch: &QuestionBatch, answers: Answers) -> Result<Answers> {
        let (without, budget) = answers;
        match self.fetched(batch, without.clone(), budget).await {
            Err(Error::FullReplies { .. }) => {
                let budget = self.memory.reserve(&batch.cancel).await?;
                self.fetched(batch, without, budget).await
            }
            fetched => fetched,
        }
    }

    async fn fetched(&self, batch: &QuestionBatch, mut answers: Vec<Answer>, budget: ReplyBudget) -> Result<Answers> {
        for ((item, found), answer) in batch.items.iter().zip(&batch.found).zip(&mut answers) {
            budget.take_hits(bytes_of_hits(answer))?;
            if !item.plan.wants_documents() {
                continue;
            }
            let fetching = Instant::now();
            let found = found.on_leaves.get().ok_or(Error::Internal)?;
            let mut places: Vec<HitPlace> = Vec::new();
            visit_hits(answer, &mut |hit| {
                places.push((hit.shard, hit.node));
                Ok(())
            })?;
            places.sort_unstable();
            places.dedup();
            places.retain(|place| !found.shown.contains_key(place));
            let unread = UnreadAnswer {
                item,
                found,
                answer,
                places,
            };
            let fetched = self.read_answer(batch, unread, &budget).await?;
            visit_hits(answer, &mut |hit| {
                let place = (hit.shard, hit.node);
                let shown = found.shown.get(&place).or_else(|| fetched.get(&place));
                let shown = shown.ok_or(Error::Internal)?;
                budget.take_bytes(shown_bytes(shown))?;
                hit.hit.document.clone_from(&shown.document);
                hit.hit.snippet.clone_from(&shown.snippet);
                hit.hit.surrounding.clone_from(&shown.surrounding);
                Ok(())
            })?;
            let timings = answer.timings();
            (timings.fetch_us, timings.total_us) = (micros(fetching), micros(batch.started));
        }
        Ok((answers, budget))
    }

    /// Reads the documents of an answer. Where it may be of less than all, hits are left out whose documents no leaf
    /// has any more.
    async fn read_answer(
        &self,
        batch: &QuestionBatch,
        unread: UnreadAnswer<'_>,
        budget: &ReplyBudget,
    ) -> Result<HashMap<HitPlace, v1::Hit>> {
        let UnreadAnswer {
            item,
            found,
            answer,
            mut places,
        } = unread;
        let generation = batch.generation.on_leaves().ok_or(Error::Internal)?;
        let least = item.plan.min_coverage;
        loop {
            let wanted = WantedOfDocuments {
                places: places.clone(),
                shown: shown_message(item, found.counts.as_ref()),
            };
            let lost = match self.read_on_leaves(batch, wanted, budget).await {
                Err(Error::NoLeaves { shards, reason, .. }) if least < 1.0 => LostDocuments {
                    shards: shards.0,
                    reason: reason.unwrap_or_else(|| "no leaf that answers holds it".to_owned()),
                    least,
                },
                read => return read,
            };
            let before = places.len();
            places.retain(|(shard, _)| !lost.shards.contains(&(*shard as u32)));
            if places.len() == before {
                return Err(Error::Internal);
            }
            lost.leave_out(answer, batch, generation, found)?;
        }
    }

    /// What leaves show of documents, each of which is there.
    pub(in crate::run) async fn read_on_leaves(
        &self,
        batch: &QuestionBatch,
        wanted: WantedOfDocuments,
        budget: &ReplyBudget,
    ) -> Result<HashMap<HitPlace, v1::Hit>> {
        let (Some(leaves), Some(generation)) = (&self.leaves, batch.generation.on_leaves()) else {
            return Err(Error::Internal);
        };
        let asked = LeavesOfBatch {
            leaves,
            generation,
            cancel: &batch.cancel,
        };
        let WantedOfDocuments { places, shown } = wanted;
        let request = v1::FetchRequest {
            generation: Some(generation.name.clone()),
            documents: Vec::new(),
            shown: Some(shown),
            scope: scope_message(batch),
        };
        let mut by_shard: BTreeMap<u32, Vec<v1::LeafDocument>> = BTreeMap::new();
        for (shard, node) in places {
            let shard = shard as u32;
            by_shard
                .entry(shard)
                .or_default()
                .push(v1::LeafDocument { shard, node });
        }
        let shards: Vec<u32> = by_shard.keys().copied().collect();
        if shards.is_empty() {
            return Ok(HashMap::new());
        }
        let request = FetchOfShards { request, by_shard };
        let mut shown = HashMap::new();
        for FetchedDocuments { documents, reply } in asked.ask_within(&shards, &request, budget).await? {
            for (document, hit) in documents.into_iter().zip(reply.hits) {
                shown.insert((document.shard as usize, document.node), hit);
            }
        }
        Ok(shown)
    }
}

/// An answer without documents.
struct UnreadAnswer<'a> {
    item: &'a BatchItem,
    found: &'a LeafHits,
    answer: &'a mut Answer,
    /// Where the documents are that have to be read.
    places: Vec<HitPlace>,
}

/// A request for documents, which are asked for where their shards are.
struct FetchOfShards {
    request: v1::FetchRequest,
    by_shard: BTreeMap<u32, Vec<v1::LeafDocument>>,
}

impl LeafRequest for FetchOfShards {
    type Reply = FetchedDocuments;

    async fn send(
        &self,
        client: &LeafClient,
        shards: Vec<u32>,
        time: Duration,
    ) -> std::result::Result<Self::Reply, ClientError> {
        let documents: Vec<v1::LeafDocument> = shards
            .iter()
            .filter_map(|shard| self.by_shard.get(shard))
            .flatten()
            .copied()
            .collect();
        let request = v1::FetchRequest {
            documents: documents.clone(),
            ..self.request.clone()
        };
        let reply = client.fetch(request, time).await?;
        if documents.len() != reply.hits.len() {
            let (expected, got) = (documents.len(), reply.hits.len());
            return Err(client.contract(format!("`hits`: expected {expected}, one for each document, got {got}")));
        }
        Ok(FetchedDocuments { documents, reply })
    }

    fn generation(reply: &Self::Reply) -> Option<&v1::GenerationName> {
        reply.reply.generation.as_ref()
    }
}

/// Documents that one leaf was asked for, and what it shows.
struct FetchedDocuments {
    documents: Vec<v1::LeafDocument>,
    reply: v1::FetchResponse,
}

impl CarriesDocuments for FetchedDocuments {
    fn bytes(&self) -> usize {
        self.reply.encoded_len()
    }
}

/// Visits all hits of an answer, and the other hits of their groups.
fn visit_hits(answer: &mut Answer, visit: &mut dyn FnMut(&mut AnswerHit) -> Result<()>) -> Result<()> {
    let lists = answer
        .compared
        .as_mut()
        .map(|all| [&mut all.dense, &mut all.bm25, &mut all.hybrid]);
    for hit in answer.hits.iter_mut().chain(lists.into_iter().flatten().flatten()) {
        visit(hit)?;
        hit.members.iter_mut().try_for_each(&mut *visit)?;
    }
    Ok(())
}

/// Bytes of what is shown of a document.
fn shown_bytes(hit: &v1::Hit) -> usize {
    let v1::Hit {
        document,
        snippet,
        surrounding,
        ..
    } = hit;
    let of_document = document.as_ref().map_or(0, Message::encoded_len);
    let of_snippet = snippet.as_ref().map_or(0, Message::encoded_len);
    of_document + of_snippet + surrounding.as_ref().map_or(0, Message::encoded_len)
}
