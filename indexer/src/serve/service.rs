//! Streams of requests in, one change out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dyad_proto::access::Caller;
use dyad_proto::v1::index_server::Index;
use dyad_proto::{v1, validate};
use serde_json::json;
use tonic::{Request, Response, Status, Streaming};

use super::gathered::WantedChange;
use super::received::{CallLimits, CallMemory, ReceivedCall, refuse_for_now, refuse_unmade};
use super::sent::SentUpsert;
use super::worker::ChangeWorker;

/// The service.
#[derive(Debug, Clone)]
pub struct IndexService {
    changes: ChangeWorker,
    /// The name of the index, as API keys have it.
    name: Arc<str>,
    /// Set before a drain begins, which ends streams that their clients have not ended.
    stopping: Arc<AtomicBool>,
    /// Of all calls together.
    memory: CallMemory,
}

impl IndexService {
    /// A service that makes these changes of the index that API keys know by a name. `stopping` is set before the
    /// server ends the streams of its clients: what has arrived by then may be a part of a change.
    pub fn new(changes: ChangeWorker, name: &str, stopping: Arc<AtomicBool>) -> Self {
        let memory = CallMemory::new(CallLimits::default());
        Self {
            changes,
            name: name.into(),
            stopping,
            memory,
        }
    }

    /// The same service with other limits of its calls.
    #[must_use]
    pub fn with_limits(self, limits: CallLimits) -> Self {
        Self {
            memory: CallMemory::new(limits),
            ..self
        }
    }

    /// Makes a change, and records it.
    async fn make_for(
        &self,
        caller: &Caller,
        call: &str,
        wanted: Result<Wanted, Status>,
    ) -> Result<Response<v1::ChangeResponse>, Status> {
        let made = match wanted {
            Ok(wanted) => self.make(wanted).await,
            Err(status) => Err(status),
        };
        let mut details = json!({"index": &*self.name});
        if let (Ok(made), Some(details)) = (&made, details.as_object_mut()) {
            let v1::ChangeResponse {
                generation,
                read,
                indexed,
                ..
            } = made.get_ref();
            details.extend(
                [("generation", *generation), ("read", *read), ("indexed", *indexed)]
                    .map(|(name, count)| (name.to_owned(), count.into())),
            );
        }
        caller.record(call, &details, made.as_ref().map(drop));
        made
    }

    /// The caller of a request, if it may change this index.
    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let caller = Caller::of(request)?;
        if caller.allows_index(&self.name) {
            return Ok(caller);
        }
        Err(Status::permission_denied(format!(
            "this API key may not change the index `{}`",
            self.name
        )))
    }

    async fn make(&self, wanted: Wanted) -> Result<Response<v1::ChangeResponse>, Status> {
        if self.stopping.load(Ordering::SeqCst) {
            let message = "this server is about to end; nothing was changed. Send the call again, to the next one";
            return Err(refuse_unmade(message.to_owned(), true));
        }
        let made = self.changes.make(wanted.change, wanted.received.into_held()).await;
        let made =
            made.ok_or_else(|| refuse_for_now("too many changes wait for their turn. Try again later".to_owned()))?;
        Ok(Response::new(made?))
    }
}

/// A change that has been received.
struct Wanted {
    change: WantedChange,
    received: ReceivedCall,
}

#[tonic::async_trait]
impl Index for IndexService {
    async fn upsert(
        &self,
        request: Request<Streaming<v1::UpsertRequest>>,
    ) -> Result<Response<v1::ChangeResponse>, Status> {
        let (caller, mut requests) = (self.caller(&request)?, request.into_inner());
        let wanted = async {
            let (mut sent, mut received) = (SentUpsert::default(), self.memory.begin());
            while let Some(request) = received.next(requests.message()).await? {
                caller.check_still()?;
                validate::upsert_request(&request)?;
                sent.add(request, &mut received)?;
            }
            Ok(Wanted {
                change: sent.into_change(),
                received,
            })
        };
        self.make_for(&caller, "Index.Upsert", wanted.await).await
    }

    async fn delete(
        &self,
        request: Request<Streaming<v1::DeleteRequest>>,
    ) -> Result<Response<v1::ChangeResponse>, Status> {
        let (caller, mut requests) = (self.caller(&request)?, request.into_inner());
        let wanted = async {
            let (mut keys, mut received) = (Vec::new(), self.memory.begin());
            while let Some(request) = received.next(requests.message()).await? {
                caller.check_still()?;
                validate::fields(&request)?;
                for key in request.keys {
                    received.hold(key.len())?;
                    keys.push(key);
                }
            }
            Ok(Wanted {
                change: WantedChange::Delete(keys),
                received,
            })
        };
        self.make_for(&caller, "Index.Delete", wanted.await).await
    }
}
