//! Streams of requests in, one change out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dyad_proto::access::Caller;
use dyad_proto::service::deadline::{LONGEST, timeout, within_deadline};
use dyad_proto::status::status_name;
use dyad_proto::v1;
use dyad_proto::v1::index_server::Index;
use serde_json::json;
use tokio::time::timeout_at;
use tonic::{Code, Request, Response, Status, Streaming};

use super::metrics::IndexerMetrics;
use super::pending::{PendingDelete, PendingUpsert, Wanted};
use super::received::{CallLimits, CallMemory, refuse_for_now, refuse_unmade};
use super::remembered::{BegunCall, CallTicket, NamedCall, RememberedCalls};
use super::searchable::IndexSearchers;
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
    /// Calls that have names.
    remembered: RememberedCalls,
    /// Made to serve changes whose clients wait for that.
    searchers: IndexSearchers,
}

/// The longest that a reply waits until searchers serve its change.
const LONGEST_SEARCHABLE: Duration = Duration::from_secs(10);

/// Of whom a call is, and what it is.
struct SentCall {
    caller: Caller,
    /// The service's name and the method's.
    name: &'static str,
    /// When the reply has to be sent.
    deadline: Instant,
}

/// What becomes of a call that has a name.
enum Begun {
    /// It is to be made.
    Ticket(CallTicket),
    /// It was made.
    Reply(v1::ChangeResponse),
}

impl IndexService {
    /// A service that makes these changes of the index that API keys know by a name. `stopping` is set before the
    /// server ends the streams of its clients: what has arrived by then may be a part of a change.
    pub fn new(changes: ChangeWorker, name: &str, stopping: Arc<AtomicBool>) -> Self {
        let memory = CallMemory::new(CallLimits::default());
        Self {
            remembered: changes.remembered().clone(),
            changes,
            name: name.into(),
            stopping,
            memory,
            searchers: IndexSearchers::default(),
        }
    }

    /// The same service, which has these searchers serve a change where its client waits for that.
    #[must_use]
    pub fn with_searchers(self, searchers: IndexSearchers) -> Self {
        Self { searchers, ..self }
    }

    /// The same service with other limits of its calls.
    #[must_use]
    pub fn with_limits(self, limits: CallLimits) -> Self {
        Self {
            memory: CallMemory::new(limits),
            ..self
        }
    }

    /// What is counted.
    pub(super) fn metrics(&self) -> &IndexerMetrics {
        self.changes.metrics()
    }

    /// The same as `Index.Upsert` with one message.
    pub(super) async fn upsert_message(
        &self,
        request: Request<v1::UpsertRequest>,
    ) -> Result<Response<v1::ChangeResponse>, Status> {
        let (sent, request) = (self.sent(&request, "Index.Upsert")?, request.into_inner());
        let mut pending = PendingUpsert::begin(&self.memory, &sent.caller);
        let wanted = pending.add(&sent.caller, request).map(|()| pending.into_wanted());
        self.make_for(&sent, wanted).await
    }

    /// The same as `Index.Delete` with one message.
    pub(super) async fn delete_message(
        &self,
        request: Request<v1::DeleteRequest>,
    ) -> Result<Response<v1::ChangeResponse>, Status> {
        let (sent, request) = (self.sent(&request, "Index.Delete")?, request.into_inner());
        let mut pending = PendingDelete::begin(&self.memory, &sent.caller);
        let wanted = pending.add(&sent.caller, request).map(|()| pending.into_wanted());
        self.make_for(&sent, wanted).await
    }

    /// Makes a change and records it; where its client waits for that, its searchers serve it then.
    async fn make_for(
        &self,
        sent: &SentCall,
        wanted: Result<Wanted, Status>,
    ) -> Result<Response<v1::ChangeResponse>, Status> {
        let is_to_be_searchable = wanted.as_ref().is_ok_and(|wanted| wanted.is_to_be_searchable);
        let began = Instant::now();
        let made = match wanted {
            Ok(_) if is_to_be_searchable && self.searchers.is_empty() => Err(without_searchers()),
            Ok(wanted) => self.make(wanted).await,
            Err(status) => Err(status),
        };
        self.record(sent, began, &made);
        let mut made = made?;
        if is_to_be_searchable {
            let is_served = self.serve(made.get_ref(), sent.deadline).await;
            made.get_mut().searchable = Some(is_served);
        }
        Ok(made)
    }

    /// Counts a call, and writes it into the audit log.
    fn record(&self, sent: &SentCall, began: Instant, made: &Result<Response<v1::ChangeResponse>, Status>) {
        let code = made.as_ref().map_or_else(Status::code, |_| Code::Ok);
        self.metrics().answered(sent.name, status_name(code), began.elapsed());
        let mut details = json!({"index": &*self.name});
        if let (Ok(made), Some(details)) = (made, details.as_object_mut()) {
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
        sent.caller.record(sent.name, &details, made.as_ref().map(drop));
    }

    /// Has the searchers serve a change, or where it has changed nothing, the generation on which that was so. Whether
    /// they do by the deadline.
    async fn serve(&self, made: &v1::ChangeResponse, deadline: Instant) -> bool {
        let until = deadline.min(Instant::now() + LONGEST_SEARCHABLE);
        let generation = match made.generation {
            0 => self.changes.current_generation().await,
            generation => Some(generation),
        };
        match generation {
            Some(generation) => self.searchers.serve(generation, until.into()).await,
            None => false,
        }
    }

    /// A call, if its caller may change this index.
    fn sent<T>(&self, request: &Request<T>, name: &'static str) -> Result<SentCall, Status> {
        let caller = Caller::of(request)?;
        if caller.allows_index(&self.name) {
            let time = within_deadline(timeout(request.metadata()).unwrap_or(LONGEST));
            return Ok(SentCall {
                caller,
                name,
                deadline: Instant::now() + time,
            });
        }
        Err(Status::permission_denied(format!(
            "this API key may not change the index `{}`",
            self.name
        )))
    }

    /// Begins a call that has a name: waits for one that has the same name and is under way.
    async fn begin(&self, call: NamedCall) -> Result<Begun, Status> {
        let until = tokio::time::Instant::now() + LONGEST;
        loop {
            match self.remembered.begin(call.clone())? {
                BegunCall::New(ticket) => return Ok(Begun::Ticket(ticket)),
                BegunCall::Made(reply) => return Ok(Begun::Reply(reply)),
                BegunCall::UnderWay(mut ended) => {
                    let ended = timeout_at(until, ended.changed()).await;
                    if ended.is_err() {
                        let late = "the call with the same `request_key` has not ended. Send this one again later";
                        return Err(Status::deadline_exceeded(late));
                    }
                }
            }
        }
    }

    async fn make(&self, wanted: Wanted) -> Result<Response<v1::ChangeResponse>, Status> {
        if self.stopping.load(Ordering::SeqCst) {
            let message = "this server is about to end; nothing was changed. Send the call again, to the next one";
            return Err(refuse_unmade(message.to_owned(), true));
        }
        let mut wanted = wanted;
        let ticket = match wanted.named.take() {
            Some(call) => match self.begin(call).await? {
                Begun::Ticket(ticket) => Some(ticket),
                Begun::Reply(reply) => return Ok(Response::new(reply)),
            },
            None => None,
        };
        let made = self.changes.make(wanted, ticket).await;
        let made =
            made.ok_or_else(|| refuse_for_now("too many changes wait for their turn. Try again later".to_owned()))?;
        Ok(Response::new(made?))
    }
}

/// Refuses a call that waits for searchers, where there are none.
fn without_searchers() -> Status {
    Status::failed_precondition(
        "`wait`: expected DURABLE, got SEARCHABLE, and this server was given no searcher; nothing was changed. Start it with \
         `serve --searcher http://HOST:PORT`, or wait until `Admin.Status` of the searcher tells the generation",
    )
}

#[tonic::async_trait]
impl Index for IndexService {
    async fn upsert(
        &self,
        request: Request<Streaming<v1::UpsertRequest>>,
    ) -> Result<Response<v1::ChangeResponse>, Status> {
        let (sent, mut requests) = (self.sent(&request, "Index.Upsert")?, request.into_inner());
        let wanted = async {
            let mut pending = PendingUpsert::begin(&self.memory, &sent.caller);
            while let Some(request) = pending.received.next(requests.message()).await? {
                pending.add(&sent.caller, request)?;
            }
            Ok(pending.into_wanted())
        };
        self.make_for(&sent, wanted.await).await
    }

    async fn delete(
        &self,
        request: Request<Streaming<v1::DeleteRequest>>,
    ) -> Result<Response<v1::ChangeResponse>, Status> {
        let (sent, mut requests) = (self.sent(&request, "Index.Delete")?, request.into_inner());
        let wanted = async {
            let mut pending = PendingDelete::begin(&self.memory, &sent.caller);
            while let Some(request) = pending.received.next(requests.message()).await? {
                pending.add(&sent.caller, request)?;
            }
            Ok(pending.into_wanted())
        };
        self.make_for(&sent, wanted.await).await
    }
}
