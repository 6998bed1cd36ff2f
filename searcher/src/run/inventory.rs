//! How many documents an index has, and which fields they have.

use std::sync::Arc;
use std::time::Duration;

use dyad_index::lexical::FieldCounts;
use dyad_index::snapshot::FieldListing;
use dyad_proto::access::Caller;
use dyad_proto::v1;

use super::engine::Engine;
use super::reading::{ReadDocuments, ReadRequest};
use crate::error::Result;
use crate::plan::{IndexSize, SearchCost};

/// Fields that are listed at most.
pub(super) const LISTED_FIELDS: usize = 1000;

impl Engine {
    /// The number of documents of an index that a request's filter allows.
    pub async fn count(
        &self,
        request: v1::CountDocumentsRequest,
        caller: &Caller,
        time: Option<Duration>,
    ) -> Result<v1::CountDocumentsResponse> {
        let index = self.index(&request.index, caller)?;
        if let Some(call) = self.call_on_leaves(index, caller, time, |_| SearchCost::default())? {
            return call.count(request).await;
        }
        let asked = ReadRequest {
            filter: request.filter,
            index: &request.index,
            caller,
            time,
        };
        let call = self.read_call(asked, |_, _| SearchCost::default())?;
        call.start(count).await
    }

    /// The fields that documents of an index have. Those of all documents are read once for a generation.
    pub async fn fields(
        &self,
        request: v1::ListFieldsRequest,
        caller: &Caller,
        time: Option<Duration>,
    ) -> Result<v1::ListFieldsResponse> {
        let index = Arc::clone(self.index(&request.index, caller)?);
        if let Some(call) = self.call_on_leaves(&index, caller, time, IndexSize::fields)? {
            return call.fields(request).await;
        }
        let is_of_all = caller.filter().is_none();
        if let Some(known) = index.fields.of_generation(&index.snapshot()).filter(|_| is_of_all) {
            return Ok(known);
        }
        let asked = ReadRequest {
            filter: None,
            index: &request.index,
            caller,
            time,
        };
        let call = self.read_call(asked, |size, _| IndexSize::fields(size))?;
        let listed = move |documents: &ReadDocuments| {
            let listed = fields(documents)?;
            if is_of_all {
                index.fields.keep(&documents.snapshot, &listed);
            }
            Ok(listed)
        };
        call.start(listed).await
    }
}

pub(super) fn count(documents: &ReadDocuments) -> Result<v1::CountDocumentsResponse> {
    Ok(v1::CountDocumentsResponse {
        documents: documents.count(documents.allowed()?.as_deref()),
        generation: documents.generation(),
    })
}

pub(super) fn fields(documents: &ReadDocuments) -> Result<v1::ListFieldsResponse> {
    let (allowed, cancel) = (documents.allowed()?, &documents.cancel);
    let listed = documents
        .snapshot
        .fields(LISTED_FIELDS, allowed.as_deref(), &**cancel)?;
    let FieldListing { fields, has_more } = listed.ok_or_else(|| cancel.deadline_error())?;
    Ok(v1::ListFieldsResponse {
        fields: fields.into_iter().map(field_info).collect(),
        has_more,
        documents: documents.count(allowed.as_deref()),
        generation: documents.generation(),
    })
}

fn field_info((name, counts): (String, FieldCounts)) -> v1::FieldInfo {
    let FieldCounts {
        documents,
        texts,
        numbers,
        flags,
    } = counts;
    let if_any = |count: u64| (count > 0).then_some(count);
    v1::FieldInfo {
        name,
        documents,
        types: Some(v1::FieldTypes {
            texts: if_any(texts),
            numbers: if_any(numbers),
            flags: if_any(flags),
        }),
    }
}
