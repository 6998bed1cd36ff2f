//! Documents that are read without a question, of all leaves together.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_proto::access::Caller;
use dyad_proto::v1;
use dyad_proto::v1::leaf_read_request::Request as Asked;
use dyad_proto::v1::leaf_read_response::Response as Told;
use prost::Message as _;

use super::super::engine::Engine;
use super::super::inventory::LISTED_FIELDS;
use super::super::parts::Jobs;
use super::super::resources::cancellation::{CancelOnDrop, SearchCancellation};
use super::super::resources::reply_memory::{ReplyBudget, ReplyMemory};
use super::super::scroll::{PAGE_BYTES, VALUE_BYTES};
use super::super::served::generation::ServedGeneration;
use super::super::served::scope::Scope;
use super::super::served::served_index::ServedIndex;
use super::asked::LeavesOfBatch;
use crate::error::{Error, Result};
use crate::leaves::{GenerationShards, Leaves};
use crate::plan::{IndexSize, SearchCost};

/// A call that reads documents of an index whose shards leaves hold.
pub(in crate::run) struct CallOnLeaves<'a> {
    leaves: &'a Leaves,
    generation: Arc<ServedGeneration>,
    memory: &'a ReplyMemory,
    cancel: Arc<SearchCancellation>,
    caller: &'a Caller,
    pub(super) jobs: Jobs<'a>,
    _guard: CancelOnDrop,
}

impl Engine {
    /// Admits a call, where leaves hold the shards of the index. `cost` is that of its answer by the size of the index.
    pub(in crate::run) fn call_on_leaves<'a>(
        &'a self,
        index: &ServedIndex,
        caller: &'a Caller,
        time: Option<Duration>,
        cost: impl FnOnce(IndexSize) -> SearchCost,
    ) -> Result<Option<CallOnLeaves<'a>>> {
        let (Some(leaves), generation) = (&self.leaves, index.generation()) else {
            return Ok(None);
        };
        if generation.on_leaves().is_none() {
            return Err(Error::Internal);
        }
        let time = self.time(time);
        let (cancel, guard) = SearchCancellation::with_deadline(Instant::now(), time);
        // What is done here is little.
        let (class, here) = (generation.class_of(cost), SearchCost::default());
        let permit = self.pool.admit(class, here.total(), time)?;
        let mut jobs = Jobs::new(&self.pool, class, here, permit, Arc::clone(&cancel));
        jobs.choose_threads(generation.snapshot());
        Ok(Some(CallOnLeaves {
            leaves,
            generation,
            memory: &self.memory,
            jobs,
            cancel,
            caller,
            _guard: guard,
        }))
    }
}

impl CallOnLeaves<'_> {
    /// Asks for all shards; what comes takes of the memory of replies.
    async fn ask(&self, request: Asked, budget: &ReplyBudget) -> Result<Vec<Told>> {
        let shards = self.shards()?.numbers();
        self.ask_for(&shards, request, budget).await
    }

    pub(super) fn memory(&self) -> &ReplyMemory {
        self.memory
    }

    /// The shards that are read.
    pub(super) fn shards(&self) -> Result<&GenerationShards> {
        let shards = self.generation.on_leaves().ok_or(Error::Internal)?;
        Ok(shards)
    }

    /// Asks for some shards, by number.
    pub(super) async fn ask_for(&self, shards: &[u32], request: Asked, budget: &ReplyBudget) -> Result<Vec<Told>> {
        let generation = self.shards()?;
        let asked = LeavesOfBatch {
            leaves: self.leaves,
            generation,
            cancel: &self.cancel,
        };
        let message = v1::LeafReadRequest {
            generation: Some(generation.name.clone()),
            shards: Vec::new(),
            scope: Scope::from_caller(self.caller).map(|scope| scope.message().clone()),
            request: Some(request),
        };
        let replies = asked.ask_within(shards, &message, budget).await?;
        replies
            .into_iter()
            .map(|reply| reply.response.ok_or(Error::Internal))
            .collect()
    }

    /// Makes a reply; once more where there is not enough memory for it, after as much as the largest one may take has
    /// become free.
    pub(super) async fn reply<T, F>(&self, make: impl Fn(ReplyBudget) -> F) -> Result<(T, ReplyBudget)>
    where
        F: Future<Output = Result<(T, ReplyBudget)>>,
    {
        match make(self.memory.budget()).await {
            Err(Error::FullReplies { .. }) => make(self.memory.reserve(&self.cancel).await?).await,
            made => made,
        }
    }

    /// The request's filter together with the caller's.
    pub(super) fn restrict(&self, filter: Option<v1::Filter>) -> Option<v1::Filter> {
        self.caller.restrict(filter)
    }

    pub(super) fn number(&self) -> u64 {
        self.generation.name().generation
    }

    /// Documents by key, in the order asked for.
    pub(in crate::run) async fn documents(
        self,
        request: v1::GetDocumentsRequest,
    ) -> Result<(v1::GetDocumentsResponse, ReplyBudget)> {
        let read = |budget: ReplyBudget| async {
            let told = self.ask(Asked::Documents(request.clone()), &budget).await?;
            let keys = request.keys.clone();
            let joined = self
                .jobs
                .start(move || Ok((documents_of(keys, told, &budget)?, budget)));
            joined.await
        };
        self.reply(read).await
    }

    /// How many documents there are.
    pub(in crate::run) async fn count(self, request: v1::CountDocumentsRequest) -> Result<v1::CountDocumentsResponse> {
        let filter = self.restrict(request.filter.clone());
        let mut documents = 0;
        let asked = Asked::Count(v1::CountDocumentsRequest { filter, ..request });
        for told in self.ask(asked, &self.memory.budget()).await? {
            let Told::Count(told) = told else {
                return Err(Error::Internal);
            };
            documents += told.documents;
        }
        Ok(v1::CountDocumentsResponse {
            documents,
            generation: self.number(),
        })
    }

    /// A page in the order of keys.
    pub(in crate::run) async fn scroll(
        self,
        request: v1::ScrollDocumentsRequest,
    ) -> Result<(v1::ScrollDocumentsResponse, ReplyBudget)> {
        let request = v1::ScrollDocumentsRequest {
            filter: self.restrict(request.filter.clone()),
            ..request
        };
        let read = |budget: ReplyBudget| async {
            let told = self.ask(Asked::Scroll(request.clone()), &budget).await?;
            let (request, generation) = (request.clone(), self.number());
            let joined = self.jobs.start(move || {
                let page = page_of(&request, told, &budget)?;
                Ok((v1::ScrollDocumentsResponse { generation, ..page }, budget))
            });
            joined.await
        };
        self.reply(read).await
    }

    /// The fields that documents have.
    pub(in crate::run) async fn fields(self, request: v1::ListFieldsRequest) -> Result<v1::ListFieldsResponse> {
        let mut reply = v1::ListFieldsResponse {
            generation: self.number(),
            ..v1::ListFieldsResponse::default()
        };
        let mut by_name: BTreeMap<String, v1::FieldInfo> = BTreeMap::new();
        for told in self.ask(Asked::Fields(request), &self.memory.budget()).await? {
            let Told::Fields(told) = told else {
                return Err(Error::Internal);
            };
            reply.documents += told.documents;
            reply.has_more |= told.has_more;
            for field in told.fields {
                let known = by_name.entry(field.name.clone()).or_insert_with(|| v1::FieldInfo {
                    name: field.name.clone(),
                    ..v1::FieldInfo::default()
                });
                known.documents += field.documents;
                let (types, more) = (known.types.get_or_insert_default(), field.types.unwrap_or_default());
                for (sum, more) in [
                    (&mut types.texts, more.texts),
                    (&mut types.numbers, more.numbers),
                    (&mut types.flags, more.flags),
                ] {
                    *sum = match (*sum, more) {
                        (None, None) => None,
                        (sum, more) => Some(sum.unwrap_or_default() + more.unwrap_or_default()),
                    };
                }
            }
        }
        // As one process lists them: by name, and the title after all others.
        let title = by_name.remove("title");
        reply.fields = by_name.into_values().chain(title).collect();
        reply.has_more |= reply.fields.len() > LISTED_FIELDS;
        reply.fields.truncate(LISTED_FIELDS);
        Ok(reply)
    }
}

/// The documents of these keys, in their order, and the keys that no leaf has.
fn documents_of(keys: Vec<String>, told: Vec<Told>, budget: &ReplyBudget) -> Result<v1::GetDocumentsResponse> {
    let mut found: HashMap<String, v1::Document> = HashMap::new();
    for told in told {
        let Told::Documents(told) = told else {
            return Err(Error::Internal);
        };
        let by_key = told.documents.into_iter().map(|one| (one.key.clone(), one));
        found.extend(by_key);
    }
    let mut reply = v1::GetDocumentsResponse::default();
    for key in keys {
        // A key that is asked for twice is answered twice.
        match found.get(&key) {
            Some(document) => {
                budget.take_bytes(document.encoded_len())?;
                reply.documents.push(document.clone());
            }
            None => reply.missing.push(key),
        }
    }
    Ok(reply)
}

/// The page that the pages of all leaves make.
fn page_of(
    request: &v1::ScrollDocumentsRequest,
    told: Vec<Told>,
    budget: &ReplyBudget,
) -> Result<v1::ScrollDocumentsResponse> {
    let mut reply = v1::ScrollDocumentsResponse {
        next_after_key: request.after_key.clone(),
        ..v1::ScrollDocumentsResponse::default()
    };
    let mut by_key: BTreeMap<String, v1::ScrolledDocument> = BTreeMap::new();
    // A leaf says nothing of the keys after the last one of a page that it has cut short.
    let mut known_to: Option<String> = None;
    for told in told {
        let Told::Scroll(told) = told else {
            return Err(Error::Internal);
        };
        reply.fingerprint = told.fingerprint;
        if told.has_more {
            reply.has_more = true;
            known_to = Some(known_to.map_or(told.next_after_key.clone(), |known| known.min(told.next_after_key)));
        }
        let key = |document: &v1::ScrolledDocument| document.document.as_ref().map(|document| document.key.clone());
        let documents = told.documents.into_iter();
        by_key.extend(documents.filter_map(|document| Some((key(&document)?, document))));
    }
    let (most, mut bytes) = (request.page_size as usize, 0);
    for (key, document) in by_key {
        let is_known = known_to.as_ref().is_none_or(|known| key <= *known);
        let values = document.vector.as_ref().map_or(0, |vector| vector.values.len());
        let of_document = document.encoded_len() + values * (VALUE_BYTES - size_of::<f32>());
        let is_full = !reply.documents.is_empty() && bytes + of_document > PAGE_BYTES;
        if !is_known || reply.documents.len() == most || is_full {
            reply.has_more = true;
            break;
        }
        budget.take_bytes(of_document)?;
        bytes += of_document;
        reply.next_after_key = key;
        reply.documents.push(document);
    }
    Ok(reply)
}
