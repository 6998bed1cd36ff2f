//! Stored documents of an index in the order of their keys, page by page.

use std::time::Duration;

use dyad_index::format::RowType;
use dyad_index::snapshot::{KeyPage, KeyedDocument, Shard, Snapshot};
use dyad_proto::access::Caller;
use dyad_proto::v1;
use prost::Message as _;

use super::engine::Engine;
use super::reading::{ReadDocuments, ReadRequest};
use super::resources::reply_memory::ReplyBudget;
use super::stages::answer::reply_document;
use crate::error::Result;
use crate::plan::StoredFields;

/// Bytes of a page: it ends before the document with which it would have more. The first one is on it in any case.
pub(super) const PAGE_BYTES: usize = 8 << 20;
/// Bytes of it for each value of a vector: what one takes while the page is written as JSON.
pub(super) const VALUE_BYTES: usize = 60;
const _: () = assert!(size_of::<f32>() + size_of::<prost_reflect::Value>() <= VALUE_BYTES);

impl Engine {
    /// A page of the documents of an index. The budget is the reply memory that they take.
    pub async fn scroll(
        &self,
        mut request: v1::ScrollDocumentsRequest,
        caller: &Caller,
        time: Option<Duration>,
    ) -> Result<(v1::ScrollDocumentsResponse, ReplyBudget)> {
        let index = self.index(&request.index, caller)?;
        let (page_size, is_filtered) = (request.page_size as usize, request.filter.is_some());
        if let Some(call) = self.call_on_leaves(index, caller, time, |size| size.page(page_size, is_filtered))? {
            return call.scroll(request).await;
        }
        let asked = ReadRequest {
            filter: request.filter.take(),
            index: &request.index,
            caller,
            time,
        };
        let call = self.read_call(asked, |size, is_filtered| {
            size.page(request.page_size as usize, is_filtered)
        })?;
        call.reply(move |documents, budget| page(documents, &request, budget))
            .await
    }
}

/// Reads a page.
pub(super) fn page(
    documents: &ReadDocuments,
    request: &v1::ScrollDocumentsRequest,
    budget: &ReplyBudget,
) -> Result<v1::ScrollDocumentsResponse> {
    let allowed = documents.allowed()?;
    let (snapshot, cancel) = (&documents.snapshot, &documents.cancel);
    let most = request.page_size as usize;
    let found = snapshot.in_key_order(&request.after_key, most, allowed.as_deref(), &**cancel)?;
    let KeyPage {
        documents: found,
        has_more,
    } = found.ok_or_else(|| cancel.deadline_error())?;
    let fields = StoredFields::named(&request.fields);
    let mut reply = v1::ScrollDocumentsResponse {
        documents: Vec::with_capacity(found.len()),
        next_after_key: request.after_key.clone(),
        has_more,
        generation: documents.generation(),
        fingerprint: snapshot.manifest().model.fingerprint.clone(),
    };
    let mut bytes = 0;
    for place in found {
        cancel.check()?;
        let document = scrolled(snapshot, &fields, request.with_vectors, place)?;
        let values = document.vector.as_ref().map_or(0, |vector| vector.values.len());
        let of_document = document.encoded_len() + values * (VALUE_BYTES - size_of::<f32>());
        if !reply.documents.is_empty() && bytes + of_document > PAGE_BYTES {
            reply.has_more = true;
            break;
        }
        budget.take_bytes(of_document)?;
        bytes += of_document;
        place.key.clone_into(&mut reply.next_after_key);
        reply.documents.push(document);
    }
    Ok(reply)
}

/// A document as pages have it.
fn scrolled(
    snapshot: &Snapshot,
    fields: &StoredFields,
    with_vector: bool,
    place: KeyedDocument<'_>,
) -> Result<v1::ScrolledDocument> {
    let KeyedDocument {
        shard: number, node, ..
    } = place;
    let document = fields.select(snapshot.document(number, node)?);
    let shard = snapshot.shards().get(number);
    let vector = shard.filter(|_| with_vector).map(|shard| vector(shard, node));
    Ok(v1::ScrolledDocument {
        document: Some(reply_document(document)),
        vector: vector.transpose()?,
        place: shard.and_then(|shard| passage_place(shard, node)),
    })
}

fn vector(shard: &Shard, node: u32) -> Result<v1::StoredVector> {
    let precision = match shard.dense.header().row_type {
        RowType::F32 => v1::VectorPrecision::F32,
        RowType::F16 => v1::VectorPrecision::F16,
        RowType::Int8 => v1::VectorPrecision::Int8,
    };
    Ok(v1::StoredVector {
        values: shard.dense.vector(node)?,
        precision: precision.into(),
    })
}

fn passage_place(shard: &Shard, node: u32) -> Option<v1::PassagePlace> {
    let place = shard.places.as_ref()?.get(node)?;
    Some(v1::PassagePlace {
        start: place.bytes.start as u32,
        end: place.bytes.end as u32,
    })
}
