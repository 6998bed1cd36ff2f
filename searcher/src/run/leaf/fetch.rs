//! What replies show of documents of some shards.

use std::sync::Arc;
use std::time::Duration;

use dyad_index::lexical::Snippets;
use dyad_proto::v1;

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
    let LeafPart { snapshot, cancel, .. } = part;
    let fields = if request.keys_only {
        StoredFields::None
    } else {
        StoredFields::named(&request.fields)
    };
    let question = (request.snippet_bytes > 0).then(|| snapshot.question(&request.query));
    let snippets = match (&question, &request.counts) {
        (Some(question), Some(counts)) => {
            let weighed = question.weigh_by(&counts_of(counts), &**cancel)?;
            let weighed = weighed.ok_or_else(|| cancel.deadline_error())?;
            Some(Snippets::new(&weighed, request.snippet_bytes as usize))
        }
        _ => None,
    };
    let surroundings = if request.surrounding_bytes > 0 {
        let scope = part.existing()?.map(|existing| Arc::clone(&existing.shards));
        Some(Surroundings::new(snapshot, request.surrounding_bytes as usize, scope))
    } else {
        None
    };
    let shown = ShownOfDocuments {
        fields: &fields,
        max_text_bytes: match request.max_text_bytes {
            0 => usize::MAX,
            bytes => bytes as usize,
        },
        snippets,
        surroundings,
    };
    let mut filler = HitFiller::new(snapshot, cancel, shown, budget);
    let mut hits = Vec::with_capacity(request.documents.len());
    for v1::LeafDocument { shard, node } in &request.documents {
        let absent = || Error::NotHeld {
            index: request
                .generation
                .as_ref()
                .map_or_else(String::new, |name| name.index.clone()),
            generation: request.generation.as_ref().map_or(0, |name| name.generation),
            shard: Some(*shard),
        };
        let at = snapshot
            .numbers()
            .binary_search(&(*shard as usize))
            .map_err(|_| absent())?;
        let documents = snapshot.shards().get(at).map_or(0, |shard| shard.dense.len());
        if *node as usize >= documents {
            return Err(Error::NoNode {
                shard: *shard,
                node: *node,
                documents,
            });
        }
        let key = snapshot.key(at, *node).ok_or_else(absent)?.to_owned();
        let mut filled = AnswerHit {
            hit: v1::Hit {
                key,
                ..v1::Hit::default()
            },
            shard: at,
            node: *node,
            members: Vec::new(),
        };
        filler.fill(&mut filled)?;
        hits.push(filled.hit);
    }
    Ok(v1::FetchResponse {
        hits,
        generation: request.generation.clone(),
    })
}
