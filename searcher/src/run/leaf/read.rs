//! Calls that read documents of some shards without a question.

use std::sync::Arc;
use std::time::Duration;

use dyad_proto::v1;
use dyad_proto::v1::leaf_read_request::Request as Asked;
use dyad_proto::v1::leaf_read_response::Response as Told;

use super::super::documents::WantedDocuments;
use super::super::engine::Engine;
use super::super::reading::{ReadDocuments, ReadPart};
use super::super::resources::reply_memory::ReplyBudget;
use super::super::{inventory, sample, scroll};
use super::call::{LeafCallTarget, LeafPart};
use crate::error::{Error, Result};
use crate::plan::{IndexSize, SearchCost, StoredFields};

impl Engine {
    /// Reads documents as a call of `Searcher` does, of some shards. The budget is the reply memory that they take.
    pub(crate) async fn leaf_read(
        &self,
        request: v1::LeafReadRequest,
        time: Option<Duration>,
    ) -> Result<(v1::LeafReadResponse, ReplyBudget)> {
        let target = LeafCallTarget {
            generation: request.generation.as_ref(),
            shards: &request.shards,
            scope: request.scope.as_ref(),
            time,
        };
        let call = self.leaf_call(&target, |snapshot| cost(&request, IndexSize::from_snapshot(snapshot)))?;
        let request = Arc::new(request);
        let read = |budget: ReplyBudget| {
            let (part, request) = (call.part.clone(), Arc::clone(&request));
            call.jobs.start(move || Ok((read(&part, &request, &budget)?, budget)))
        };
        match read(self.memory.budget()).await {
            Err(Error::FullReplies { .. }) => read(self.memory.reserve(&call.part.cancel).await?).await,
            read => read,
        }
    }
}

/// What such a call costs in one process.
fn cost(request: &v1::LeafReadRequest, size: IndexSize) -> SearchCost {
    match &request.request {
        Some(Asked::Documents(asked)) => SearchCost::of_documents(asked.keys.len()),
        Some(Asked::Sample(asked)) => SearchCost::of_documents(asked.count as usize),
        Some(Asked::Scroll(asked)) => size.page(asked.page_size as usize, asked.filter.is_some()),
        Some(Asked::Fields(_)) => size.fields(),
        Some(Asked::Count(_)) | None => SearchCost::default(),
    }
}

fn read(part: &LeafPart, request: &v1::LeafReadRequest, budget: &ReplyBudget) -> Result<v1::LeafReadResponse> {
    let scope = request.scope.as_ref();
    let key_id = scope.map_or("", |scope| &scope.key_id);
    let told = match &request.request {
        None => return Err(Error::Internal),
        Some(Asked::Documents(asked)) => Told::Documents(by_key(part, asked, budget)?),
        Some(Asked::Sample(asked)) => {
            let documents = allowed(part, asked.filter.as_ref(), key_id);
            Told::Sample(sample::sample(&documents, asked, budget)?)
        }
        Some(Asked::Scroll(asked)) => {
            let documents = allowed(part, asked.filter.as_ref(), key_id);
            Told::Scroll(scroll::page(&documents, asked, budget)?)
        }
        Some(Asked::Count(asked)) => {
            let documents = allowed(part, asked.filter.as_ref(), key_id);
            Told::Count(inventory::count(&documents)?)
        }
        Some(Asked::Fields(_)) => {
            let filter = scope.and_then(|scope| scope.filter.as_ref());
            let documents = allowed(part, filter, key_id);
            Told::Fields(inventory::fields(&documents)?)
        }
    };
    Ok(v1::LeafReadResponse {
        generation: request.generation.clone(),
        response: Some(told),
    })
}

/// The documents of these shards that a filter allows, which holds the caller's.
fn allowed(part: &LeafPart, filter: Option<&v1::Filter>, key_id: &str) -> ReadDocuments {
    let read = ReadPart {
        snapshot: Arc::clone(&part.snapshot),
        cancel: Arc::clone(&part.cancel),
        is_scoped: part.scope.is_some(),
        cache: part.filters.clone(),
    };
    ReadDocuments::of_part(read, filter, key_id)
}

/// The documents with some keys, of those that exist for the caller.
fn by_key(part: &LeafPart, asked: &v1::GetDocumentsRequest, budget: &ReplyBudget) -> Result<v1::GetDocumentsResponse> {
    let wanted = WantedDocuments {
        keys: asked.keys.clone(),
        fields: StoredFields::named(&asked.fields),
        scope: None,
    };
    let existing = part.existing()?;
    let nodes = existing.map(|existing| Arc::clone(&existing.shards));
    wanted.read(&part.snapshot, nodes.as_deref(), &part.cancel, budget)
}
