//! `Searcher`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_proto::access::Caller;
use dyad_proto::service::UntilSent;
use dyad_proto::service::deadline::{LONGEST, timeout, within_deadline};
use dyad_proto::status::status_name;
use dyad_proto::v1::searcher_server::Searcher;
use dyad_proto::{v1, validate};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::task::JoinHandle;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status, Streaming};
use tracing::Instrument as _;

use crate::metrics::CountedCall;
use crate::run::{Answer, Engine, QueuePolicy, ReplyBudget, Turns};

/// Requests of one stream that are searched concurrently; their documents are read one after another.
const STREAM_WIDTH: usize = 16;

/// The service.
#[derive(Debug, Clone)]
pub struct SearchService {
    engine: Arc<Engine>,
}

impl SearchService {
    /// A service around an engine.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

/// The time that the client's deadline leaves.
fn time(metadata: &MetadataMap) -> Option<Duration> {
    timeout(metadata).map(within_deadline)
}

/// A reply that holds its budget of the reply memory until it is sent.
fn reply<T>(message: T, budget: ReplyBudget) -> Response<T> {
    let mut response = Response::new(message);
    response.extensions_mut().insert(UntilSent::new(budget));
    response
}

/// A task that ends when it is dropped.
struct AbortedTask<T>(JoinHandle<T>);

impl<T> Drop for AbortedTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A status that names the request of a stream that it is about.
fn of_request(id: u64, status: &Status) -> Status {
    Status::with_metadata(
        status.code(),
        format!("request with id {id}: {}", status.message()),
        status.metadata().clone(),
    )
}

#[tonic::async_trait]
impl Searcher for SearchService {
    async fn search(&self, request: Request<v1::SearchRequest>) -> Result<Response<v1::SearchResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let request = request.into_inner();
        validate::search_request(&request)?;
        let answered = self.engine.search(request, &caller, time, QueuePolicy::Refused).await;
        let (answer, budget) = answered.map_err(|error| error.told_to(&caller))?;
        Ok(reply(answer.into_response(), budget))
    }

    async fn search_batch(
        &self,
        request: Request<v1::SearchBatchRequest>,
    ) -> Result<Response<v1::SearchBatchResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let request = request.into_inner();
        validate::search_batch_request(&request)?;
        let answered = self.engine.search_batch(request.requests, &caller, time).await;
        let (answers, budget) = answered.map_err(|error| error.told_to(&caller))?;
        let responses = answers.into_iter().map(Answer::into_response).collect();
        Ok(reply(v1::SearchBatchResponse { responses }, budget))
    }

    type SearchStreamStream = Pin<Box<dyn Stream<Item = Result<v1::SearchStreamResponse, Status>> + Send>>;

    async fn search_stream(
        &self,
        request: Request<Streaming<v1::SearchRequest>>,
    ) -> Result<Response<Self::SearchStreamStream>, Status> {
        let (engine, caller) = (Arc::clone(&self.engine), Caller::of(&request)?);
        // Requests of a stream are queued instead of refused: until the call's deadline, or for the longest deadline
        // each.
        let deadline = timeout(request.metadata())
            .filter(|time| *time < LONGEST)
            .map(|time| Instant::now() + within_deadline(time));
        let mut turns = Turns::default();
        let replies = request.into_inner().map(move |request| {
            let (engine, caller, (turn, end)) = (Arc::clone(&engine), caller.clone(), turns.add());
            let answered = async move {
                let counted = CountedCall::new(engine.metrics(), "Searcher.SearchStream");
                let answered = async {
                    let request = request?;
                    let id = request.id;
                    let answered = async {
                        caller.check_still()?;
                        validate::search_request(&request)?;
                        let left =
                            deadline.map_or(LONGEST, |deadline| deadline.saturating_duration_since(Instant::now()));
                        let search = engine.search(request, &caller, Some(left), QueuePolicy::Queued(turn));
                        Ok::<_, Status>(Box::pin(search).await.map_err(|error| error.told_to(&caller))?)
                    };
                    let (answer, budget) = answered.await.map_err(|status| of_request(id, &status))?;
                    Ok::<_, Status>((
                        v1::SearchStreamResponse {
                            id,
                            response: Some(answer.into_response()),
                        },
                        budget,
                    ))
                };
                let answered = answered.await;
                counted.end(status_name(answered.as_ref().map_or_else(Status::code, |_| Code::Ok)));
                answered
            };
            // The transport polls the replies only while its client reads: without a task of its own a request would
            // keep its place meanwhile.
            let mut task = AbortedTask(tokio::spawn(answered.in_current_span()));
            async move {
                let answered = (&mut task.0).await;
                (answered.unwrap_or_else(|_| Err(crate::Error::Internal.into())), end)
            }
        });
        // When the next reply is polled, the transport has taken the one before: its budget is released, and the next
        // one's turn comes.
        let replies = stream::unfold(
            (Box::pin(replies.buffered(STREAM_WIDTH)), None),
            |(mut replies, sent)| async move {
                drop(sent);
                let (reply, end) = replies.next().await?;
                let (reply, budget) = reply.map_or_else(
                    |status| (Err(status), None),
                    |(reply, budget)| (Ok(reply), Some(budget)),
                );
                Some((reply, (replies, Some((budget, end)))))
            },
        );
        Ok(Response::new(Box::pin(replies)))
    }

    async fn get_documents(
        &self,
        request: Request<v1::GetDocumentsRequest>,
    ) -> Result<Response<v1::GetDocumentsResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let request = request.into_inner();
        validate::fields(&request)?;
        let read = self.engine.documents(request, &caller, time).await;
        let (documents, budget) = read.map_err(|error| error.told_to(&caller))?;
        Ok(reply(documents, budget))
    }

    async fn sample_documents(
        &self,
        request: Request<v1::SampleDocumentsRequest>,
    ) -> Result<Response<v1::SampleDocumentsResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let request = request.into_inner();
        validate::sample_documents_request(&request)?;
        let sampled = self.engine.sample(request, &caller, time).await;
        let (sample, budget) = sampled.map_err(|error| error.told_to(&caller))?;
        Ok(reply(sample, budget))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let request = request.into_inner();
        validate::explain_request(&request)?;
        let explained = self
            .engine
            .explain(request.search.unwrap_or_default(), request.key, &caller, time)
            .await;
        let (explanation, budget) = explained.map_err(|error| error.told_to(&caller))?;
        Ok(reply(explanation, budget))
    }
}
