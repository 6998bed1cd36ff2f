//! Documents that are read without a question, of all leaves together.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_proto::access::Caller;
use dyad_proto::v1;
use dyad_proto::v1::leaf_read_request::Request as Asked;
use dyad_proto::v1::leaf_read_response::Response as Told;
use prost::Message as _;

use super::super::engine::Engine;
use super::super::inventory::LISTED_FIELDS;
use super::super::resources::cancellation::{CancelOnDrop, SearchCancellation};
use super::super::resources::reply_memory::ReplyBudget;
use super::super::scroll::{PAGE_BYTES, VALUE_BYTES};
use super::super::served::generation::ServedGeneration;
use super::super::served::scope::Scope;
use super::super::served::served_index::ServedIndex;
use super::asked::LeavesOfBatch;
use crate::error::{Error, Result};
use crate::leaves::{GenerationShards, Leaves};

/// A call that reads documents of an index whose shards leaves hold.
pub(in crate::run) struct CallOnLeaves<'a> {
    leaves: &'a Leaves,
    generation: Arc<ServedGeneration>,
    cancel: Arc<SearchCancellation>,
    caller: &'a Caller,
    _guard: CancelOnDrop,
}

impl Engine {
    /// A call, where leaves hold the shards of the index.
    pub(in crate::run) fn call_on_leaves<'a>(
        &'a self,
        index: &ServedIndex,
        caller: &'a Caller,
        time: Option<Duration>,
    ) -> Result<Option<CallOnLeaves<'a>>> {
        let (Some(leaves), generation) = (&self.leaves, index.generation()) else {
            return Ok(None);
        };
        if generation.on_leaves().is_none() {
            return Err(Error::Internal);
        }
        let (cancel, guard) = SearchCancellation::with_deadline(Instant::now(), self.time(time));
        Ok(Some(CallOnLeaves {
            leaves,
            generation,
            cancel,
            caller,
            _guard: guard,
        }))
    }
}

impl CallOnLeaves<'_> {
    /// Asks for all shards.
    async fn ask(&self, request: Asked) -> Result<Vec<Told>> {
        let shards = self.shards()?.numbers();
        self.ask_for(&shards, request).await
    }

    /// The shards that are read.
    pub(super) fn shards(&self) -> Result<&GenerationShards> {
        let shards = self.generation.on_leaves().ok_or(Error::Internal)?;
        Ok(shards)
    }

    /// Asks for some shards, by number.
    pub(super) async fn ask_for(&self, shards: &[u32], request: Asked) -> Result<Vec<Told>> {
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
        let replies = asked.ask(shards, &message).await?;
        replies
            .into_iter()
            .map(|reply| reply.response.ok_or(Error::Internal))
            .collect()
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
        budget: ReplyBudget,
    ) -> Result<(v1::GetDocumentsResponse, ReplyBudget)> {
        let keys = request.keys.clone();
        let mut found: HashMap<String, v1::Document> = HashMap::new();
        for told in self.ask(Asked::Documents(request)).await? {
            let Told::Documents(told) = told else {
                return Err(Error::Internal);
            };
            found.extend(
                told.documents
                    .into_iter()
                    .map(|document| (document.key.clone(), document)),
            );
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
        Ok((reply, budget))
    }

    /// How many documents there are.
    pub(in crate::run) async fn count(self, request: v1::CountDocumentsRequest) -> Result<v1::CountDocumentsResponse> {
        let filter = self.restrict(request.filter.clone());
        let mut documents = 0;
        for told in self
            .ask(Asked::Count(v1::CountDocumentsRequest { filter, ..request }))
            .await?
        {
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
        budget: ReplyBudget,
    ) -> Result<(v1::ScrollDocumentsResponse, ReplyBudget)> {
        let (most, after_key) = (request.page_size as usize, request.after_key.clone());
        let filter = self.restrict(request.filter.clone());
        let mut reply = v1::ScrollDocumentsResponse {
            next_after_key: after_key,
            generation: self.number(),
            ..v1::ScrollDocumentsResponse::default()
        };
        let mut by_key: BTreeMap<String, v1::ScrolledDocument> = BTreeMap::new();
        // A leaf says nothing of the keys after the last one of a page that it has cut short.
        let mut known_to: Option<String> = None;
        for told in self
            .ask(Asked::Scroll(v1::ScrollDocumentsRequest { filter, ..request }))
            .await?
        {
            let Told::Scroll(told) = told else {
                return Err(Error::Internal);
            };
            reply.fingerprint = told.fingerprint;
            if told.has_more {
                reply.has_more = true;
                known_to = Some(known_to.map_or(told.next_after_key.clone(), |known| known.min(told.next_after_key)));
            }
            let key = |document: &v1::ScrolledDocument| document.document.as_ref().map(|document| document.key.clone());
            by_key.extend(
                told.documents
                    .into_iter()
                    .filter_map(|document| Some((key(&document)?, document))),
            );
        }
        let mut bytes = 0;
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
        Ok((reply, budget))
    }

    /// The fields that documents have.
    pub(in crate::run) async fn fields(self, request: v1::ListFieldsRequest) -> Result<v1::ListFieldsResponse> {
        let mut reply = v1::ListFieldsResponse {
            generation: self.number(),
            ..v1::ListFieldsResponse::default()
        };
        let mut by_name: BTreeMap<String, v1::FieldInfo> = BTreeMap::new();
        for told in self.ask(Asked::Fields(request)).await? {
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
