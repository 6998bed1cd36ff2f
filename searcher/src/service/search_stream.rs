//! A stream of searches: several are searched at once, and their replies come in the order of the requests.

use std::sync::Arc;
use std::time::Instant;

use dyad_proto::access::Caller;
use dyad_proto::service::deadline::{LONGEST, timeout, within_deadline};
use dyad_proto::status::status_name;
use dyad_proto::{v1, validate};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::task::JoinHandle;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status, Streaming};
use tracing::Instrument as _;

use super::slow_call::SlowCall;
use crate::metrics::{CountedCall, CountedName};
use crate::run::{Answer, Engine, QueuePolicy, ReplyBudget, Turn, Turns, UntilNext};

/// Requests of one stream that are searched concurrently; their documents are read one after another.
const STREAM_WIDTH: usize = 16;

/// What the requests of one stream have in common.
#[derive(Clone)]
pub(super) struct StreamSearch {
    engine: Arc<Engine>,
    caller: Caller,
    /// The end of the time for all requests; without it each has the longest time.
    deadline: Option<Instant>,
}

/// A reply, and its budget of the reply memory.
struct StreamReply {
    message: v1::SearchStreamResponse,
    budget: ReplyBudget,
}

/// A reply and the end of its turn, which comes when the reply has been sent.
struct EndingTurn {
    reply: Result<StreamReply, Status>,
    end: UntilNext,
}

/// A task that ends when it is dropped.
struct AbortedTask<T>(JoinHandle<T>);

impl<T> Drop for AbortedTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl StreamSearch {
    /// For a call with these headers. Its requests are queued instead of refused: until the call's deadline, or for the
    /// longest deadline each.
    pub(super) fn new(engine: Arc<Engine>, caller: Caller, headers: &MetadataMap) -> Self {
        let time = timeout(headers).filter(|time| *time < LONGEST);
        let deadline = time.map(|time| Instant::now() + within_deadline(time));
        Self {
            engine,
            caller,
            deadline,
        }
    }

    /// The replies to these requests.
    pub(super) fn replies(
        self,
        requests: Streaming<v1::SearchRequest>,
    ) -> impl Stream<Item = Result<v1::SearchStreamResponse, Status>> + Send {
        let mut turns = Turns::default();
        let replies = requests.map(move |request| {
            let (turn, end) = turns.add();
            self.clone().start(request, turn, end)
        });
        // When the next reply is polled, the transport has taken the one before: its budget is released, and the next
        // one's turn comes.
        stream::unfold(
            (Box::pin(replies.buffered(STREAM_WIDTH)), None),
            |(mut replies, sent)| async move {
                drop(sent);
                let EndingTurn { reply, end } = replies.next().await?;
                let (message, budget) = match reply {
                    Ok(StreamReply { message, budget }) => (Ok(message), Some(budget)),
                    Err(status) => (Err(status), None),
                };
                Some((message, (replies, Some((budget, end)))))
            },
        )
    }

    /// Begins a request. The transport polls the replies only while its client reads: without a task of its own a
    /// request would keep its place meanwhile.
    fn start(
        self,
        request: Result<v1::SearchRequest, Status>,
        turn: Turn,
        end: UntilNext,
    ) -> impl Future<Output = EndingTurn> + Send {
        let counted = async move { self.count(request, turn).await };
        let mut task = AbortedTask(tokio::spawn(counted.in_current_span()));
        async move {
            let reply = (&mut task.0)
                .await
                .unwrap_or_else(|_| Err(crate::Error::Internal.into()));
            EndingTurn { reply, end }
        }
    }

    /// Answers a request, and counts it with its status.
    async fn count(&self, request: Result<v1::SearchRequest, Status>, turn: Turn) -> Result<StreamReply, Status> {
        let counted = CountedCall::new(self.engine.metrics(), CountedName::new("Searcher.SearchStream"));
        let reply = self.answer(request, turn).await;
        counted.end(status_name(reply.as_ref().map_or_else(Status::code, |_| Code::Ok)));
        reply
    }

    /// Answers a request with its id, also where it fails.
    async fn answer(&self, request: Result<v1::SearchRequest, Status>, turn: Turn) -> Result<StreamReply, Status> {
        let request = request?;
        let id = request.id;
        let found = self.search(request, turn).await;
        let (answer, budget) = found.map_err(|status| of_request(id, &status))?;
        let response = Some(answer.into_response());
        Ok(StreamReply {
            message: v1::SearchStreamResponse { id, response },
            budget,
        })
    }

    /// Searches as long as the caller is one who may, and the deadline leaves time.
    async fn search(&self, request: v1::SearchRequest, turn: Turn) -> Result<(Answer, ReplyBudget), Status> {
        self.caller.check_still()?;
        let request = request.with_defaults();
        validate::search_request(&request)?;
        let left = self
            .deadline
            .map_or(LONGEST, |deadline| deadline.saturating_duration_since(Instant::now()));
        let slow = SlowCall::of_search(&self.engine, &self.caller, "Searcher.SearchStream", &request);
        let search = self
            .engine
            .search(request, &self.caller, Some(left), QueuePolicy::Queued(turn));
        let answered = Box::pin(search)
            .await
            .map_err(|error| error.told_to(&self.caller).into());
        slow.end_search(&answered);
        answered
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
