//! A question tower in an encoder service.

use std::time::{Duration, Instant};

use dyad_index::ModelRecord;
use dyad_proto::client::{ClientConfig, ClientError, Credentials, EncoderClient};
use dyad_proto::v1;
use tonic::Code;

use super::embedded::{EmbeddedQuestions, GOLDEN, failed, is_cross_encoder};
use crate::circuit_breaker::{CircuitBreaker, PROBE_TIME};
use crate::error::{Error, Result};

/// An encoder service and the model that it had when the searcher started.
#[derive(Debug, Clone)]
pub struct Remote {
    client: EncoderClient,
    model: ModelRecord,
    breaker: CircuitBreaker,
}

fn request(questions: Vec<String>) -> v1::EncodeRequest {
    v1::EncodeRequest {
        tower: v1::Tower::Question.into(),
        texts: questions,
        ..Default::default()
    }
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        failed(error.to_string(), error.is_transient())
    }
}

impl Remote {
    pub(super) async fn connect(url: &str, credentials: Credentials) -> Result<Self> {
        let client = EncoderClient::connect(url, ClientConfig::for_questions(credentials)).await?;
        let info = client.info().await?;
        if info.kind() == v1::ModelKind::CrossEncoder {
            return Err(failed(is_cross_encoder(&info.name), false));
        }
        let (dim, max_tokens, metric) = (info.dim as usize, info.max_tokens as usize, info.metric().as_str_name());
        let model = ModelRecord::of_unit_vectors(info.name, info.fingerprint, dim, metric, max_tokens)?;
        Ok(Self {
            client,
            model,
            breaker: CircuitBreaker::default(),
        })
    }

    pub(super) fn model(&self) -> &ModelRecord {
        &self.model
    }

    /// Asks the service for its model. Where it answers that, but no questions, the error is [`Error::TowerSilent`].
    pub(super) async fn check(&self) -> Result<()> {
        self.check_model(&self.client.info().await?.fingerprint)?;
        self.breaker
            .is_open()
            .map_or(Ok(()), |next| Err(Error::TowerSilent { next }))
    }

    fn check_model(&self, fingerprint: &str) -> Result<()> {
        if fingerprint == self.model.fingerprint {
            return Ok(());
        }
        let reason = format!(
            "`{}` now serves a model with fingerprint {fingerprint}, expected {} (`{}`). Restart it with that model",
            self.client.url(),
            self.model.fingerprint,
            self.model.name
        );
        Err(failed(reason, false))
    }

    pub(super) async fn embed(&self, questions: Vec<String>, time: Duration) -> Result<EmbeddedQuestions> {
        let started = Instant::now();
        let count = questions.len();
        let client = self.client.clone();
        let probe = async move { client.encode_within(request(vec![GOLDEN.to_owned()]), PROBE_TIME).await };
        let call = self.client.encode_within(request(questions), time);
        let called = Box::pin(self.breaker.call(count, time, call, probe)).await;
        let reply = called
            .map_err(|next| Error::TowerSilent { next })?
            .map_err(|error| match error {
                ClientError::Deadline { .. } => Error::TowerLate(time),
                ClientError::Refused {
                    code: Code::ResourceExhausted,
                    retry_after,
                    ..
                } => Error::TowerBusy {
                    reason: error.to_string(),
                    retry_after,
                },
                error => error.into(),
            })?;
        self.check_model(&reply.fingerprint)?;
        let vectors = dyad_proto::vector::unpack(&reply.vectors, count, self.model.dim, "vectors")
            .map_err(|error| failed(error.to_string(), false))?;
        let timings = reply.timings.unwrap_or_default();
        let embed_us = (started.elapsed().as_micros() as u64).saturating_sub(timings.queue_us + timings.tokenize_us);
        let (tokens, truncated) = (reply.tokens, reply.truncated_texts);
        let (queue_us, tokenize_us) = (timings.queue_us, timings.tokenize_us);
        Ok(EmbeddedQuestions {
            vectors,
            tokens,
            truncated,
            queue_us,
            tokenize_us,
            embed_us,
        })
    }
}
