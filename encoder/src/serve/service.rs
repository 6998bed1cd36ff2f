//! gRPC over a [`Handle`]: `Info`, `Encode`, `EncodeStream`, `Score`.

use std::pin::Pin;
use std::time::{Duration, Instant};

use dyad_proto::access::Caller;
use dyad_proto::pushback::RETRY_PUSHBACK;
use dyad_proto::service::CallObserver as _;
use dyad_proto::service::deadline::{LONGEST, timeout, within_deadline};
use dyad_proto::{v1, validate, vector};
use futures_util::{Stream, StreamExt};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Request, Response, Status, Streaming};

use super::error::EncodeError;
use super::handle::Handle;
use super::passages::{ReadDocument, ReadPassage};
use super::precision::{Precision, QuantizedVectors};
use super::reply::EncodedReply;
use super::request::{EncodeOptions, Input, RequestPrompt, Truncation};
use crate::config::Tower;
use crate::error::Error;
use crate::model::{ModelInfo, ModelKind};

/// Requests of one stream that are under way at once: one at the model, the others queued after it.
const STREAM_WINDOW: usize = 4;

/// The encoder service of one model.
#[derive(Debug, Clone)]
pub struct EncoderService {
    handle: Handle,
}

impl EncoderService {
    /// Serves a running model.
    pub fn new(handle: Handle) -> Self {
        Self { handle }
    }
}

type Replies = Pin<Box<dyn Stream<Item = Result<v1::EncodeResponse, Status>> + Send>>;

#[tonic::async_trait]
impl v1::encoder_server::Encoder for EncoderService {
    async fn info(&self, _: Request<v1::InfoRequest>) -> Result<Response<v1::InfoResponse>, Status> {
        Ok(Response::new(v1::InfoResponse {
            model: Some(model_info(self.handle.info())),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: dyad_command::revision().to_owned(),
            prompts: prompts(self.handle.info()),
        }))
    }

    async fn encode(&self, request: Request<v1::EncodeRequest>) -> Result<Response<v1::EncodeResponse>, Status> {
        let (came, deadline) = (Instant::now(), deadline(request.metadata()));
        let request = request.into_inner();
        let asked = AskedReply::of(&request, came);
        let (tower, options) = checked(&request, deadline)?;
        let encoded = self
            .handle
            .encode(tower, input(request), options)
            .await
            .map_err(|error| status(&error))?;
        Ok(Response::new(asked.response(encoded)))
    }

    async fn score(&self, request: Request<v1::ScoreRequest>) -> Result<Response<v1::ScoreResponse>, Status> {
        let (came, deadline) = (Instant::now(), deadline(request.metadata()));
        let request = request.into_inner();
        validate::fields(&request)?;
        let options = EncodeOptions {
            truncation: truncation(request.truncation()),
            ..EncodeOptions::until(deadline)
        };
        let v1::ScoreRequest {
            id,
            query,
            texts,
            raw_scores,
            ..
        } = request;
        let scored = self
            .handle
            .score(query, texts, raw_scores, options)
            .await
            .map_err(|error| status(&error))?;
        Ok(Response::new(v1::ScoreResponse {
            id,
            timings: Some(timings(came, &scored)),
            scores: scored.vectors,
            tokens: scored.tokens,
            truncated_texts: scored.truncated,
            fingerprint: scored.fingerprint.to_string(),
        }))
    }

    type EncodeStreamStream = Replies;

    async fn encode_stream(&self, request: Request<Streaming<v1::EncodeRequest>>) -> Result<Response<Replies>, Status> {
        // A deadline that the caller sends is for the whole stream; without one, or with the longest, each request has
        // its own.
        let whole = timeout(request.metadata())
            .filter(|time| *time < LONGEST)
            .map(|timeout| Instant::now() + within_deadline(timeout));
        let (handle, caller) = (self.handle.clone(), Caller::of(&request)?);
        let replies = request.into_inner().map(move |request| {
            let (handle, caller) = (handle.clone(), caller.clone());
            async move {
                let (came, request) = (Instant::now(), request?);
                let asked = AskedReply::of(&request, came);
                let deadline = whole.unwrap_or_else(|| came + within_deadline(LONGEST));
                let answer = async {
                    caller.check_still()?;
                    let (tower, options) = checked(&request, deadline)?;
                    // A stream is slowed down instead of refused.
                    handle
                        .encode_patiently(tower, input(request), options)
                        .await
                        .map_err(|error| status(&error))
                };
                let answer = answer.await;
                let code = answer.as_ref().map_or_else(Status::code, |_| Code::Ok);
                handle
                    .metrics()
                    .answered(Some("/dyad.v1.Encoder/EncodeStream"), code, came.elapsed());
                answer.map(|encoded| asked.response(encoded))
            }
        });
        Ok(Response::new(Box::pin(replies.buffered(STREAM_WINDOW))))
    }
}

/// A model as the wire describes it.
pub(crate) fn model_info(info: &ModelInfo) -> v1::ModelInfo {
    v1::ModelInfo {
        name: info.name.clone(),
        fingerprint: info.fingerprint.clone(),
        dim: if info.kind == ModelKind::DualEncoder {
            info.dim as u32
        } else {
            0
        },
        metric: v1::Metric::Cosine.into(),
        max_tokens: info.max_tokens as u32,
        device: info.device.to_string(),
        dtype: info.dtype.to_string(),
        kind: match info.kind {
            ModelKind::DualEncoder => v1::ModelKind::DualEncoder.into(),
            ModelKind::CrossEncoder => v1::ModelKind::CrossEncoder.into(),
        },
        two_towers: Some(info.has_two_towers),
        full_dim: 0,
    }
}

/// The prompts that a model has names for.
fn prompts(info: &ModelInfo) -> Vec<v1::ModelPrompt> {
    let prompt = |(name, text): (&str, &str)| v1::ModelPrompt {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    info.named_prompts.iter().map(prompt).collect()
}

fn truncation(asked: v1::Truncation) -> Truncation {
    match asked {
        v1::Truncation::Truncate => Truncation::Truncate,
        v1::Truncation::Refuse => Truncation::Refuse,
    }
}

fn timings(came: Instant, encoded: &EncodedReply) -> v1::Timings {
    v1::Timings {
        total_us: super::reply::micros(came.elapsed()),
        queue_us: encoded.queue_us,
        tokenize_us: encoded.tokenize_us,
        embed_us: encoded.embed_us,
        ..v1::Timings::default()
    }
}

fn checked(request: &v1::EncodeRequest, deadline: Instant) -> Result<(Tower, EncodeOptions), Status> {
    validate::encode_request(request)?;
    let tower = match request.tower() {
        v1::Tower::Question => Tower::Question,
        v1::Tower::Answer => Tower::Answer,
        v1::Tower::Unspecified => {
            return Err(Status::invalid_argument(
                "tower: expected TOWER_QUESTION or TOWER_ANSWER",
            ));
        }
    };
    let truncation = truncation(request.truncation());
    let dimensions = (request.dimensions > 0).then_some(request.dimensions as usize);
    let prompt = match &request.prompt {
        Some(text) => RequestPrompt::Text(text.clone()),
        None if request.prompt_name.is_empty() => RequestPrompt::OfTower,
        None => RequestPrompt::Named(request.prompt_name.clone()),
    };
    Ok((
        tower,
        EncodeOptions {
            deadline,
            truncation,
            dimensions,
            prompt,
        },
    ))
}

fn input(request: v1::EncodeRequest) -> Input {
    let v1::EncodeRequest {
        texts,
        documents,
        late_weight: weight,
        ..
    } = request;
    if documents.is_empty() {
        return Input::Texts(texts);
    }
    let passage = |passage: v1::DocumentPassage| ReadPassage {
        text: passage.text as usize,
        bytes: passage.start as usize..passage.end as usize,
    };
    let document = |document: v1::PassageDocument| ReadDocument {
        text: document.text,
        passages: document.passages.into_iter().map(passage).collect(),
    };
    Input::Passages {
        texts,
        documents: documents.into_iter().map(document).collect(),
        weight,
    }
}

/// What a request says of its reply.
#[derive(Debug, Clone, Copy)]
struct AskedReply {
    id: u64,
    precision: Precision,
    came: Instant,
}

impl AskedReply {
    fn of(request: &v1::EncodeRequest, came: Instant) -> Self {
        Self {
            id: request.id,
            precision: Precision::of_wire(request.precision()),
            came,
        }
    }

    fn response(self, encoded: EncodedReply) -> v1::EncodeResponse {
        let timings = Some(timings(self.came, &encoded));
        let (vectors, ranges) = match self.precision.quantize(&encoded.vectors, encoded.dim) {
            None => (vector::pack(&encoded.vectors), Vec::new()),
            Some(QuantizedVectors { bytes, ranges }) => (bytes, vector::pack(ranges.as_flattened())),
        };
        v1::EncodeResponse {
            id: self.id,
            dim: encoded.dim as u32,
            vectors,
            precision: self.precision.wire().into(),
            ranges,
            tokens: encoded.tokens,
            document_tokens: encoded.document_tokens,
            truncated: encoded.truncated.len() as u32,
            truncated_texts: encoded.truncated,
            timings,
            fingerprint: encoded.fingerprint.to_string(),
        }
    }
}

fn status(error: &EncodeError) -> Status {
    let message = error.to_string();
    match error {
        EncodeError::OtherKind { .. } | EncodeError::NoMeans { .. } => Status::failed_precondition(message),
        EncodeError::NoTexts
        | EncodeError::EmptyQuery
        | EncodeError::EmptyText { .. }
        | EncodeError::TooLong { .. }
        | EncodeError::UnknownToken { .. }
        | EncodeError::SpecialToken { .. }
        | EncodeError::Dimensions { .. }
        | EncodeError::UnknownPrompt(_)
        | EncodeError::PromptTooLong { .. }
        | EncodeError::PromptOfPairs => Status::invalid_argument(message),
        EncodeError::QueueFull { .. } | EncodeError::Overloaded { .. } | EncodeError::TooLarge { .. } => {
            Status::with_metadata(Code::ResourceExhausted, message, pushback(error.retry_after()))
        }
        EncodeError::Deadline { .. } => Status::deadline_exceeded(message),
        EncodeError::Stopped => Status::unavailable(message),
        EncodeError::Model(error) => match &**error {
            Error::Tokenize { .. } => Status::invalid_argument(message),
            _ => Status::internal(message),
        },
    }
}

/// gRPC's word for "try again after this many milliseconds", which its clients with a retry policy obey; a negative
/// number tells them not to.
fn pushback(retry_after: Option<Duration>) -> MetadataMap {
    let millis = retry_after.map_or(-1, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let mut metadata = MetadataMap::new();
    metadata.insert(RETRY_PUSHBACK, MetadataValue::from(millis));
    metadata
}

fn deadline(metadata: &MetadataMap) -> Instant {
    Instant::now() + within_deadline(timeout(metadata).unwrap_or(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_full_says_when_to_come_again_and_what_never_fits_does_not() {
        let pushback = |error: EncodeError| {
            let status = status(&error);
            assert_eq!(status.code(), Code::ResourceExhausted);
            status
                .metadata()
                .get(RETRY_PUSHBACK)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        let (wait, left) = (Duration::from_millis(1500), Duration::from_secs(1));
        assert_eq!(pushback(EncodeError::Overloaded { ahead: 5, wait, left }), "500");
        assert_eq!(
            pushback(EncodeError::QueueFull {
                needed: 1,
                waiting: 2,
                limit: 2
            }),
            "1000"
        );
        assert_eq!(pushback(EncodeError::TooLarge { needed: 3, limit: 2 }), "-1");
        assert_eq!(
            status(&EncodeError::Deadline { waited_ms: 5 }).code(),
            Code::DeadlineExceeded
        );
    }
}
