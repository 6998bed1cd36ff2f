//! What replies show of documents of some shards.

use std::sync::Arc;
use std::time::Duration;

use dyad_index::lexical::Snippets;
use dyad_proto::v1;
use prost::Message as _;

use super::super::engine::Engine;
use super::super::resources::reply_memory::ReplyBudget;
use super::super::stages::answer::AnswerHit;
use super::super::stages::fetch::{HitFiller, ShownOfDocuments};
use super::super::stages::surrounding::Surroundings;
use super::call::{LeafCallTarget, LeafPart};
use crate::error::{Error, Result};
use crate::leaves::wire::counts_of;
use crate::plan::{SearchCost, StoredFields};

impl Engine {
    /// What a reply shows of some documents, in the order of the request. The budget is the reply memory that they
    /// take.
    pub(crate) async fn leaf_fetch(
        &self,
        request: v1::FetchRequest,
        time: Option<Duration>,
    ) -> Result<(v1::FetchResponse, ReplyBudget)> {
        let mut shards: Vec<u32> = request.documents.iter().map(|document| document.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let target = LeafCallTarget {
            generation: request.generation.as_ref(),
            shards: &shards,
            scope: request.scope.as_ref(),
            time,
        };
        let call = self.leaf_call(&target, |_| SearchCost::of_documents(request.documents.len()))?;
        let request = Arc::new(request);
        let read = |budget: ReplyBudget| {
            let (part, request) = (call.part.clone(), Arc::clone(&request));
            call.jobs.start(move || Ok((fetch(&part, &request, &budget)?, budget)))
        };
        match read(self.memory.budget()).await {
            Err(Error::FullReplies { .. }) => read(self.memory.reserve(&call.part.cancel).await?).await,
            read => read,
        }
    }
}

fn fetch(part: &LeafPart, request: &v1::FetchRequest, budget: &ReplyBudget) -> Result<v1::FetchResponse> {
    let LeafPart { snapshot, .. } = part;
    let mut places = Vec::with_capacity(request.documents.len());
    for v1::LeafDocument { shard, node } in &request.documents {
        let at = snapshot
            .numbers()
            .binary_search(&(*shard as usize))
            .map_err(|_| part.not_held(*shard))?;
        let documents = snapshot.shards().get(at).map_or(0, |shard| shard.dense.len());
        if *node as usize >= documents {
            return Err(Error::NoNode {
                shard: *shard,
                node: *node,
                documents,
            });
        }
        places.push((at, *node));
    }
    let shown = request.shown.as_ref().ok_or(Error::Internal)?;
    Ok(v1::FetchResponse {
        hits: part.show(shown, budget, &places, usize::MAX)?,
        generation: request.generation.clone(),
    })
}

impl LeafPart {
    fn not_held(&self, shard: u32) -> Error {
        Error::NotHeld {
            index: self.name.index.clone(),
            generation: self.name.generation,
            shard: Some(shard),
        }
    }

    /// What is shown of documents, each by its shard's place among those of this part and its node; of the first ones,
    /// where all take more than so many bytes.
    pub(super) fn show(
        &self,
        shown: &v1::LeafShown,
        budget: &ReplyBudget,
        places: &[(usize, u32)],
        most_bytes: usize,
    ) -> Result<Vec<v1::Hit>> {
        let Self { snapshot, cancel, .. } = self;
        let fields = if shown.keys_only {
            StoredFields::None
        } else {
            StoredFields::named(&shown.fields)
        };
        let question = (shown.snippet_bytes > 0).then(|| snapshot.question(&shown.query));
        let snippets = match (&question, &shown.counts) {
            (Some(question), Some(counts)) => {
                let weighed = question.weigh_by(&counts_of(counts), &**cancel)?;
                let weighed = weighed.ok_or_else(|| cancel.deadline_error())?;
                Some(Snippets::new(&weighed, shown.snippet_bytes as usize))
            }
            _ => None,
        };
        let surroundings = if shown.surrounding_bytes > 0 {
            let scope = self.existing()?.map(|existing| Arc::clone(&existing.shards));
            Some(Surroundings::new(snapshot, shown.surrounding_bytes as usize, scope))
        } else {
            None
        };
        let of_documents = ShownOfDocuments {
            fields: &fields,
            max_text_bytes: match shown.max_text_bytes {
                0 => usize::MAX,
                bytes => bytes as usize,
            },
            snippets,
            surroundings,
        };
        let mut filler = HitFiller::new(snapshot, cancel, of_documents, budget);
        let (mut hits, mut bytes) = (Vec::with_capacity(places.len()), 0);
        for (shard, node) in places {
            let number = snapshot.numbers().get(*shard).copied().unwrap_or_default() as u32;
            let key = snapshot.key(*shard, *node).ok_or_else(|| self.not_held(number))?;
            let mut filled = AnswerHit {
                hit: v1::Hit {
                    key: key.to_owned(),
                    ..v1::Hit::default()
                },
                shard: *shard,
                node: *node,
                members: Vec::new(),
            };
            filler.fill(&mut filled)?;
            bytes += filled.hit.encoded_len();
            if bytes > most_bytes {
                break;
            }
            hits.push(filled.hit);
        }
        Ok(hits)
    }
}
