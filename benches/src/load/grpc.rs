//! A server over gRPC: requests that are encoded before anything is measured, and of replies no more than keys.
//!
//! The client shares the machine with the server, so it does as little as it can: a request is copied from bytes, and
//! of a reply it reads what recall and the classes of replies need.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dyad_proto::client::{ClientConfig, ClientConnection, ClientError, connect};
use dyad_proto::limits::MAX_MESSAGE_BYTES;
use prost::Message;
use prost::bytes::{BufMut as _, Bytes};
use tokio::runtime::Handle;
use tonic::client::Grpc as Caller;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};

use super::arrivals::AskedQuestion;
use super::drive::{AnsweringProcess, LoadTarget, ReplyReceiver};
use super::questions::{LoadRequests, QuestionForm};
use super::server::LoadServer;
use super::tally::{DEGRADED, LoadReply, failed};
use super::workload::LoadWorkload;
use crate::error::BenchResult;

/// A server over gRPC; nothing is retried.
pub(super) struct GrpcTarget {
    connections: Vec<ClientConnection>,
    next: AtomicUsize,
    /// Each question in each kind, as a message.
    encoded: Vec<Bytes>,
    questions: usize,
    /// Requests of a call of `SearchBatch`; none: calls of `Search`.
    batch: Option<usize>,
    url: Arc<str>,
    process: AnsweringProcess,
    deadline: Duration,
    runtime: Handle,
}

impl GrpcTarget {
    pub(super) fn connect(
        server: &LoadServer,
        workload: &LoadWorkload,
        requests: &LoadRequests,
        form: QuestionForm,
        batch: Option<usize>,
        runtime: &Handle,
    ) -> BenchResult<Self> {
        let deadline = workload.deadline();
        let config = ClientConfig {
            call_timeout: deadline,
            attempts: 1,
            ..ClientConfig::default()
        };
        let connect = |_| Ok(runtime.block_on(connect(&server.url, &config))?);
        let connections = (0..workload.connections).map(connect).collect::<BenchResult<_>>()?;
        let questions = requests.questions.queries.len();
        let asks = (0..requests.kinds.len())
            .flat_map(|kind| (0..questions).map(move |question| AskedQuestion { kind, question }));
        let encoded = asks
            .map(|ask| requests.request(ask, form).encode_to_vec().into())
            .collect();
        let process = server
            .process()
            .map_or(AnsweringProcess::Unknown, AnsweringProcess::Server);
        let (next, url, runtime) = (AtomicUsize::new(0), server.url.as_str().into(), runtime.clone());
        Ok(Self {
            connections,
            next,
            encoded,
            questions,
            batch,
            url,
            process,
            deadline,
            runtime,
        })
    }

    fn message(&self, ask: AskedQuestion) -> Bytes {
        self.encoded
            .get(ask.kind * self.questions + ask.question)
            .cloned()
            .unwrap_or_default()
    }
}

impl LoadTarget for GrpcTarget {
    fn start(&self, asks: &[AskedQuestion], done: ReplyReceiver) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len().max(1);
        let Some(channel) = self.connections.get(at).cloned() else {
            return;
        };
        let (url, deadline, count) = (Arc::clone(&self.url), self.deadline, asks.len());
        let mut messages = asks.iter().map(|ask| self.message(*ask));
        let class = move |status| class(&ClientError::from_status(&url, 1, &status));
        if self.batch.is_some() {
            let message = BatchRequest {
                requests: messages.collect(),
            }
            .encode_to_vec()
            .into();
            self.runtime.spawn(async move {
                done(
                    match call::<BatchResponse>(channel, SEARCH_BATCH, message, deadline).await {
                        Ok(batch) if batch.responses.len() == count => {
                            batch.responses.into_iter().map(LoadReply::from).collect()
                        }
                        Ok(_) => failed(count, "invalid reply"),
                        Err(status) => failed(count, class(status)),
                    },
                );
            });
        } else {
            let message = messages.next().unwrap_or_default();
            self.runtime.spawn(async move {
                done(match call::<Response>(channel, SEARCH, message, deadline).await {
                    Ok(response) => vec![response.into()],
                    Err(status) => failed(count, class(status)),
                });
            });
        }
    }

    fn process(&self) -> AnsweringProcess {
        self.process
    }

    fn batch(&self) -> usize {
        self.batch.unwrap_or(1)
    }
}

/// The class of an error: the status of a server that replied, or what kept it from replying.
fn class(error: &ClientError) -> Cow<'static, str> {
    tracing::debug!(%error, "gRPC");
    match error {
        ClientError::Refused { code, .. } => format!("{code:?}").into(),
        ClientError::Deadline { .. } => "DeadlineExceeded".into(),
        ClientError::Unreachable { .. } => "unreachable".into(),
        _ => "invalid reply".into(),
    }
}

const SEARCH: &str = "/dyad.v1.Searcher/Search";
const SEARCH_BATCH: &str = "/dyad.v1.Searcher/SearchBatch";

/// One call, as the generated client makes it.
async fn call<R: Message + Default + 'static>(
    channel: ClientConnection,
    path: &'static str,
    message: Bytes,
    deadline: Duration,
) -> Result<R, Status> {
    let mut caller = Caller::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    caller
        .ready()
        .await
        .map_err(|error| Status::unknown(format!("the connection is not ready: {error}")))?;
    let mut request = Request::new(message);
    request.set_timeout(deadline);
    let codec = EncodedCodec(PhantomData);
    Ok(caller
        .unary(request, PathAndQuery::from_static(path), codec)
        .await?
        .into_inner())
}

/// Messages that are encoded already; replies as `R`.
struct EncodedCodec<R>(PhantomData<R>);

impl<R: Message + Default + 'static> Codec for EncodedCodec<R> {
    type Encode = Bytes;
    type Decode = R;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(PhantomData)
    }

    fn decoder(&mut self) -> Self {
        Self(PhantomData)
    }
}

impl<R> Encoder for EncodedCodec<R> {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl<R: Message + Default> Decoder for EncodedCodec<R> {
    type Item = R;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<R>, Status> {
        R::decode(buffer)
            .map(Some)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

/// `SearchBatchRequest`, of encoded requests.
#[derive(Clone, PartialEq, Message)]
struct BatchRequest {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    requests: Vec<Bytes>,
}

/// What is read of `SearchBatchResponse`.
#[derive(Clone, PartialEq, Message)]
struct BatchResponse {
    #[prost(message, repeated, tag = "1")]
    responses: Vec<Response>,
}

/// What is read of `SearchResponse`: the decoder skips all other fields.
#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(message, repeated, tag = "1")]
    hits: Vec<HitKey>,
    #[prost(bool, tag = "5")]
    degraded: bool,
}

/// What is read of `Hit`.
#[derive(Clone, PartialEq, Message)]
struct HitKey {
    #[prost(string, tag = "2")]
    key: String,
}

impl From<Response> for LoadReply {
    fn from(response: Response) -> Self {
        if response.degraded {
            return Self::Failed(DEGRADED.into());
        }
        Self::Answered(response.hits.into_iter().map(|hit| hit.key).collect())
    }
}

#[cfg(test)]
mod tests {
    use dyad_proto::v1;

    use super::*;

    fn search(query: &str) -> v1::SearchRequest {
        v1::SearchRequest {
            query: query.to_owned(),
            k: 3,
            vector: vec![0.5, -1.0],
            ..Default::default()
        }
    }

    fn response(keys: &[&str], degraded: bool) -> v1::SearchResponse {
        let document = Some(v1::Document {
            key: "d".to_owned(),
            text: "text".to_owned(),
            ..Default::default()
        });
        let hit = |key: &&str| v1::Hit {
            key: (*key).to_owned(),
            document: document.clone(),
            ..Default::default()
        };
        v1::SearchResponse {
            hits: keys.iter().map(hit).collect(),
            degraded,
            ef: 7,
            ..Default::default()
        }
    }

    #[test]
    fn a_batch_of_encoded_requests_is_the_message_of_the_contract() {
        let requests = vec![search("a"), search("b")];
        let encoded = requests.iter().map(|request| request.encode_to_vec().into()).collect();
        let message = BatchRequest { requests: encoded }.encode_to_vec();
        assert_eq!(
            v1::SearchBatchRequest::decode(message.as_slice()).unwrap().requests,
            requests
        );
    }

    #[test]
    fn keys_and_degraded_answers_are_read_as_the_contract_has_them() {
        let responses = vec![response(&["x", "y"], false), response(&["z"], true)];
        let message = v1::SearchBatchResponse { responses }.encode_to_vec();
        let batch = BatchResponse::decode(message.as_slice()).unwrap();
        let replies: Vec<LoadReply> = batch.responses.into_iter().map(LoadReply::from).collect();
        assert!(
            matches!(&replies[..], [LoadReply::Answered(keys), LoadReply::Failed(class)]
            if keys == &["x", "y"] && class == DEGRADED)
        );
    }
}
