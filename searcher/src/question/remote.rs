//! A question tower in an encoder service.

use std::time::{Duration, Instant};

use dyad_index::ModelRecord;
use dyad_proto::client::{ClientConfig, ClientError, EncoderClient};
use dyad_proto::v1;

use super::{Embedded, failed, record};
use crate::error::{Error, Result};

/// An encoder service and the model that it had when the searcher started.
#[derive(Debug, Clone)]
pub struct Remote {
    client: EncoderClient,
    model: ModelRecord,
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        failed(error.to_string(), error.is_transient())
    }
}

impl Remote {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        // A query cannot wait through long back-offs: few tries, close together.
        let config = ClientConfig {
            attempts: 3,
            first_wait: Duration::from_millis(50),
            longest_wait: Duration::from_millis(500),
            ..ClientConfig::default()
        };
        let client = EncoderClient::connect(url, config).await?;
        let model = record(&client.info().await?);
        Ok(Self { client, model })
    }

    pub(super) fn model(&self) -> &ModelRecord {
        &self.model
    }

    pub(super) async fn embed(&self, questions: Vec<String>, time: Duration) -> Result<Embedded> {
        let started = Instant::now();
        let count = questions.len();
        let request = v1::EncodeRequest { tower: v1::Tower::Question.into(), texts: questions, ..Default::default() };
        let reply = self.client.encode_within(request, time).await?;
        if reply.fingerprint != self.model.fingerprint {
            let reason = format!(
                "`{}` now serves a model with fingerprint {}, expected {} (`{}`). Restart it with that model",
                self.client.url(),
                reply.fingerprint,
                self.model.fingerprint,
                self.model.name
            );
            return Err(failed(reason, false));
        }
        let vectors = dyad_proto::vector::unpack(&reply.vectors, count, self.model.dim, "vectors")
            .map_err(|error| failed(error.to_string(), false))?;
        let timings = reply.timings.unwrap_or_default();
        let embed_us = (started.elapsed().as_micros() as u64).saturating_sub(timings.queue_us + timings.tokenize_us);
        Ok(Embedded { vectors, queue_us: timings.queue_us, tokenize_us: timings.tokenize_us, embed_us })
    }
}
