//! Documents by key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_index::Snapshot;
use dyad_index::search::NodeSet;
use dyad_proto::access::Caller;
use dyad_proto::v1;

use super::engine::Engine;
use super::parts::Jobs;
use super::resources::cancellation::SearchCancellation;
use super::resources::pool::RequestClass;
use super::resources::reply_memory::ReplyBudget;
use super::served::scope::Scope;
use super::stages::answer::reply_document;
use crate::error::{Error, Result};
use crate::plan::{IndexSize, SearchCost, StoredFields};

impl Engine {
    /// Some fields of documents of an index by key, in the order asked for, and the keys that it does not hold.
    pub async fn documents(
        &self,
        request: v1::GetDocumentsRequest,
        caller: &Caller,
        time: Option<Duration>,
    ) -> Result<(v1::GetDocumentsResponse, ReplyBudget)> {
        let time = self.time(time);
        let index = self.index(&request.index, caller)?;
        let cost = SearchCost::of_documents(request.keys.len());
        if let Some(call) = self.call_on_leaves(index, caller, Some(time), |_| cost)? {
            return call.documents(request).await;
        }
        let snapshot = index.snapshot();
        let class = RequestClass::from_cost(cost.total(), IndexSize::from_snapshot(&snapshot));
        let permit = self.pool.admit(class, cost.total(), time)?;
        let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), time);
        let mut jobs = Jobs::new(&self.pool, class, cost, permit, Arc::clone(&cancel));
        jobs.choose_threads(&snapshot);
        let wanted = Arc::new(WantedDocuments {
            keys: request.keys,
            fields: StoredFields::named(&request.fields),
            scope: Scope::from_caller(caller),
        });
        let read = |budget: ReplyBudget| {
            let (snapshot, wanted, cancel) = (Arc::clone(&snapshot), Arc::clone(&wanted), Arc::clone(&cancel));
            let filters = self.filters.clone();
            jobs.start(move || {
                // Before any key is looked up, so that the time does not tell which keys others have.
                let of_caller = |scope: &Scope| scope.nodes(&snapshot, filters.as_deref(), &cancel);
                let existing = wanted.scope.as_ref().map(of_caller).transpose()?;
                Ok((wanted.read(&snapshot, existing.as_deref(), &cancel, &budget)?, budget))
            })
        };
        match read(self.memory.budget()).await {
            Err(Error::FullReplies { .. }) => read(self.memory.reserve(&cancel).await?).await,
            read => read,
        }
    }
}

/// Documents that are asked for by key.
pub(super) struct WantedDocuments {
    pub(super) keys: Vec<String>,
    pub(super) fields: StoredFields,
    /// Those that exist for the caller; all where absent.
    pub(super) scope: Option<Scope>,
}

impl WantedDocuments {
    /// Reads them, of those that exist, and says which keys there are none of.
    pub(super) fn read(
        &self,
        snapshot: &Snapshot,
        existing: Option<&[NodeSet]>,
        cancel: &SearchCancellation,
        budget: &ReplyBudget,
    ) -> Result<v1::GetDocumentsResponse> {
        let mut reply = v1::GetDocumentsResponse::default();
        for key in &self.keys {
            cancel.check()?;
            let is_callers = |(shard, node): &(usize, u32)| {
                existing.is_none_or(|all| all.get(*shard).is_some_and(|nodes| nodes.contains(*node)))
            };
            match snapshot.find(key)?.filter(is_callers) {
                Some((shard, node)) => {
                    let stored = snapshot.document(shard, node)?;
                    let etag = Some(stored.etag());
                    let document = self.fields.select(stored);
                    budget.take(&document)?;
                    reply.documents.push(v1::Document {
                        etag,
                        ..reply_document(document)
                    });
                }
                None => reply.missing.push(key.clone()),
            }
        }
        Ok(reply)
    }
}
