//! Stored documents of an index chosen at random.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_filter::document_filter;
use dyad_index::search::NodeSet;
use dyad_index::snapshot::Snapshot;
use dyad_proto::access::Caller;
use dyad_proto::v1;

use super::engine::Engine;
use super::parts::Jobs;
use super::resources::cancellation::SearchCancellation;
use super::resources::pool::RequestClass;
use super::resources::reply_memory::ReplyBudget;
use super::stages::answer::reply_document;
use crate::error::{Error, Result};
use crate::plan::{IndexSize, SearchCost, StoredFields};

impl Engine {
    /// Some documents of an index. The budget is the reply memory that they take.
    pub async fn sample(
        &self,
        mut request: v1::SampleDocumentsRequest,
        caller: &Caller,
        time: Option<Duration>,
    ) -> Result<(v1::SampleDocumentsResponse, ReplyBudget)> {
        let time = self.time(time);
        let index = self.index(&request.index, caller)?;
        request.filter = caller.restrict(request.filter);
        let snapshot = index.snapshot();
        let size = IndexSize::from_snapshot(&snapshot);
        let filtering = request
            .filter
            .as_ref()
            .map_or(Duration::ZERO, |asked| size.filter(&document_filter(asked)));
        let cost = SearchCost {
            filter: filtering,
            ..SearchCost::of_documents(request.count as usize)
        };
        let class = RequestClass::from_cost(cost.total(), size);
        let permit = self.pool.admit(class, cost.total(), time)?;
        let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), time);
        let mut jobs = Jobs::new(&self.pool, class, cost, permit, Arc::clone(&cancel));
        jobs.choose_threads(&snapshot);
        let request = Arc::new(request);
        let read = |budget: ReplyBudget| {
            let (snapshot, request, cancel) = (Arc::clone(&snapshot), Arc::clone(&request), Arc::clone(&cancel));
            jobs.start(move || Ok((sample(&snapshot, &request, &budget, &cancel)?, budget)))
        };
        match read(self.memory.budget()).await {
            Err(Error::FullReplies { .. }) => read(self.memory.reserve(&cancel).await?).await,
            read => read,
        }
    }
}

/// Reads stored documents chosen at random, of those that the request's filter allows.
fn sample(
    snapshot: &Snapshot,
    request: &v1::SampleDocumentsRequest,
    budget: &ReplyBudget,
    cancel: &SearchCancellation,
) -> Result<v1::SampleDocumentsResponse> {
    let allowed = match &request.filter {
        Some(asked) => {
            let allowed = snapshot.allowed(&document_filter(asked), cancel)?;
            Some(allowed.ok_or_else(|| cancel.deadline_error())?)
        }
        None => None,
    };
    let of = allowed
        .as_ref()
        .map_or(snapshot.len(), |allowed| allowed.iter().map(NodeSet::len).sum());
    let (fields, mut documents) = (StoredFields::named(&request.fields), Vec::new());
    for (shard, node) in snapshot.sample(request.count as usize, request.seed, allowed.as_deref())? {
        cancel.check()?;
        let document = fields.select(snapshot.document(shard, node)?);
        budget.take(&document)?;
        documents.push(reply_document(document));
    }
    Ok(v1::SampleDocumentsResponse {
        documents,
        of: of as u64,
        generation: snapshot.manifest().generation,
    })
}
