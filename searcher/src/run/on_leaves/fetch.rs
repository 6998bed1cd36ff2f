//! What answers show of their documents, read where these are.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use dyad_proto::client::{ClientError, LeafClient};
use dyad_proto::v1;
use prost::Message;

use super::super::engine::Engine;
use super::super::stages::answer::{Answer, AnswerHit, Answers};
use super::super::stages::batch::{BatchItem, QuestionBatch, micros};
use super::super::stages::fetch::bytes_of_hits;
use super::super::stages::leaf_hits::HitPlace;
use super::asked::LeavesOfBatch;
use super::request::scope_message;
use crate::error::{Error, Result};
use crate::leaves::LeafRequest;
use crate::leaves::wire::counts_message;
use crate::plan::StoredFields;

/// What is wanted of documents.
pub(in crate::run) struct WantedOfDocuments {
    pub(in crate::run) places: Vec<HitPlace>,
    pub(in crate::run) request: v1::FetchRequest,
}

impl Engine {
    /// Reads the documents of answers that have none yet.
    pub(in crate::run) async fn fetch_from_leaves(&self, batch: &QuestionBatch, answers: Answers) -> Result<Answers> {
        let (mut answers, budget) = answers;
        for ((item, found), answer) in batch.items.iter().zip(&batch.found).zip(&mut answers) {
            budget.take_hits(bytes_of_hits(answer))?;
            if !item.plan.wants_documents() {
                continue;
            }
            let fetching = Instant::now();
            let counts = found.on_leaves.get().and_then(|hits| hits.counts.as_ref());
            let mut places: Vec<HitPlace> = Vec::new();
            visit_hits(answer, &mut |hit| {
                places.push((hit.shard, hit.node));
                Ok(())
            })?;
            places.sort_unstable();
            places.dedup();
            let wanted = WantedOfDocuments {
                places,
                request: v1::FetchRequest {
                    counts: counts.map(counts_message),
                    ..fetch_request(batch, item)
                },
            };
            let shown = self.read_on_leaves(batch, wanted).await?;
            visit_hits(answer, &mut |hit| {
                let shown = shown.get(&(hit.shard, hit.node)).ok_or(Error::Internal)?;
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

    /// What leaves show of documents, each of which is there.
    pub(in crate::run) async fn read_on_leaves(
        &self,
        batch: &QuestionBatch,
        wanted: WantedOfDocuments,
    ) -> Result<HashMap<HitPlace, v1::Hit>> {
        let (Some(leaves), Some(generation)) = (&self.leaves, batch.generation.on_leaves()) else {
            return Err(Error::Internal);
        };
        let asked = LeavesOfBatch {
            leaves,
            generation,
            cancel: &batch.cancel,
        };
        let WantedOfDocuments { places, mut request } = wanted;
        request.generation = Some(generation.name.clone());
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
        for FetchedDocuments { documents, reply } in asked.ask(&shards, &request).await? {
            for (document, hit) in documents.into_iter().zip(reply.hits) {
                shown.insert((document.shard as usize, document.node), hit);
            }
        }
        Ok(shown)
    }
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

/// What a question's plan shows of documents.
fn fetch_request(batch: &QuestionBatch, item: &BatchItem) -> v1::FetchRequest {
    let plan = &item.plan;
    v1::FetchRequest {
        keys_only: plan.fields == StoredFields::None,
        fields: plan.fields.names(),
        max_text_bytes: u32::try_from(plan.max_text_bytes).unwrap_or_default(),
        snippet_bytes: plan.snippet_bytes as u32,
        surrounding_bytes: plan.surrounding_bytes as u32,
        query: item.query.clone(),
        scope: scope_message(batch),
        ..v1::FetchRequest::default()
    }
}
