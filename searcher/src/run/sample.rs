//! Stored documents of an index chosen at random.

use std::time::Duration;

use dyad_proto::access::Caller;
use dyad_proto::v1;

use super::engine::Engine;
use super::reading::{ReadDocuments, ReadRequest};
use super::resources::reply_memory::ReplyBudget;
use super::stages::answer::reply_document;
use crate::error::Result;
use crate::plan::{SearchCost, StoredFields};

impl Engine {
    /// Some documents of an index. The budget is the reply memory that they take.
    pub async fn sample(
        &self,
        mut request: v1::SampleDocumentsRequest,
        caller: &Caller,
        time: Option<Duration>,
    ) -> Result<(v1::SampleDocumentsResponse, ReplyBudget)> {
        let index = self.index(&request.index, caller)?;
        let cost = SearchCost::of_documents(request.count as usize);
        if let Some(call) = self.call_on_leaves(index, caller, time, |_| cost)? {
            return call.sample(request).await;
        }
        let asked = ReadRequest {
            filter: request.filter.take(),
            index: &request.index,
            caller,
            time,
        };
        let call = self.read_call(asked, |_, _| cost)?;
        call.reply(move |documents, budget| sample(documents, &request, budget))
            .await
    }
}

/// Reads stored documents chosen at random, of those that are allowed.
pub(super) fn sample(
    documents: &ReadDocuments,
    request: &v1::SampleDocumentsRequest,
    budget: &ReplyBudget,
) -> Result<v1::SampleDocumentsResponse> {
    let allowed = documents.allowed()?;
    let snapshot = &documents.snapshot;
    let (fields, mut chosen) = (StoredFields::named(&request.fields), Vec::new());
    for (shard, node) in snapshot.sample(request.count as usize, request.seed, allowed.as_deref())? {
        documents.cancel.check()?;
        let document = fields.select(snapshot.document(shard, node)?);
        budget.take(&document)?;
        chosen.push(reply_document(document));
    }
    Ok(v1::SampleDocumentsResponse {
        documents: chosen,
        of: documents.count(allowed.as_deref()),
        generation: documents.generation(),
    })
}
