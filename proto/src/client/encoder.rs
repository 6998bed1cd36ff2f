//! Client of `Encoder`.

use std::time::Duration;

use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::backoff::{ClientConfig, LONGEST, begin, retry};
use super::channel::{ClientConnection, connect};
use super::error::{ClientError, fits};
use crate::limits::{MAX_ENCODE_BYTES, MAX_MESSAGE_BYTES};
use crate::v1;
use crate::v1::encoder_client::EncoderClient as Generated;
use crate::vector;

/// A connection to an encoder service. Clones share it.
#[derive(Debug, Clone)]
pub struct EncoderClient {
    inner: Generated<ClientConnection>,
    config: ClientConfig,
    url: String,
}

impl EncoderClient {
    /// Connects to `http://HOST:PORT` or `https://HOST:PORT`.
    pub async fn connect(url: &str, config: ClientConfig) -> Result<Self, ClientError> {
        let inner = Generated::new(connect(url, &config).await?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self {
            inner,
            config,
            url: url.to_owned(),
        })
    }

    /// The server's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The model that the service serves.
    pub async fn info(&self) -> Result<v1::ModelInfo, ClientError> {
        let call = || {
            let mut inner = self.inner.clone();
            async move { inner.info(v1::InfoRequest {}).await }
        };
        let reply = retry(&self.config, &self.url, self.config.call_timeout, call)
            .await?
            .into_inner();
        reply.model.ok_or_else(|| ClientError::Contract {
            url: self.url.clone(),
            reason: "`model` is missing".to_owned(),
        })
    }

    /// Embeds one batch; the reply holds one vector per text in the precision that was asked for, finite where it is of
    /// f32.
    pub async fn encode(&self, request: v1::EncodeRequest) -> Result<v1::EncodeResponse, ClientError> {
        self.encode_within(request, self.config.call_timeout).await
    }

    /// As [`EncoderClient::encode`], with a given deadline for each attempt.
    pub async fn encode_within(
        &self,
        request: v1::EncodeRequest,
        deadline: Duration,
    ) -> Result<v1::EncodeResponse, ClientError> {
        let (texts, asked) = (request.texts.len(), request.precision());
        let call = |mut inner: Generated<ClientConnection>, request| async move { inner.encode(request).await };
        let reply = self.call(request, deadline, call).await?;
        if reply.precision() != asked {
            let (asked, got) = (asked.as_str_name(), reply.precision().as_str_name());
            return Err(ClientError::Contract {
                url: self.url.clone(),
                reason: format!("`precision`: expected {asked}, got {got}, which earlier releases make of all"),
            });
        }
        self.check(&reply, texts)?;
        Ok(reply)
    }

    /// Scores texts for a query; the reply holds one finite score per text.
    pub async fn score(&self, request: v1::ScoreRequest) -> Result<v1::ScoreResponse, ClientError> {
        self.score_within(request, self.config.call_timeout).await
    }

    /// As [`EncoderClient::score`], with a given deadline for each attempt.
    pub async fn score_within(
        &self,
        request: v1::ScoreRequest,
        deadline: Duration,
    ) -> Result<v1::ScoreResponse, ClientError> {
        let texts = request.texts.len();
        let call = |mut inner: Generated<ClientConnection>, request| async move { inner.score(request).await };
        let reply = self.call(request, deadline, call).await?;
        let contract = |reason| ClientError::Contract {
            url: self.url.clone(),
            reason,
        };
        if reply.scores.len() != texts {
            return Err(contract(format!(
                "`scores`: expected {texts}, one per text, got {}",
                reply.scores.len()
            )));
        }
        match reply.scores.iter().position(|score| !score.is_finite()) {
            Some(text) => Err(contract(format!(
                "`scores[{text}]`: expected a finite number, got {}",
                reply.scores[text]
            ))),
            None => Ok(reply),
        }
    }

    /// Calls with a deadline for each attempt.
    async fn call<Q, R, F>(
        &self,
        request: Q,
        deadline: Duration,
        method: impl Fn(Generated<ClientConnection>, Request<Q>) -> F,
    ) -> Result<R, ClientError>
    where
        Q: prost::Message + Clone,
        F: Future<Output = Result<Response<R>, Status>>,
    {
        fits(&self.url, &request, MAX_ENCODE_BYTES)?;
        let call = || {
            let mut request = Request::new(request.clone());
            request.set_timeout(deadline.min(LONGEST));
            method(self.inner.clone(), request)
        };
        // Boxed: it is large, and its callers hold it next to much else.
        Ok(Box::pin(retry(&self.config, &self.url, deadline, call))
            .await?
            .into_inner())
    }

    /// Embeds many batches over one call; replies keep the order of the requests. Nothing is retried. No request is
    /// answered after `deadline`; one of 10 minutes or more is for each request.
    pub async fn stream(
        &self,
        requests: impl Stream<Item = v1::EncodeRequest> + Send + 'static,
        deadline: Duration,
    ) -> Result<Streaming<v1::EncodeResponse>, ClientError> {
        let mut inner = self.inner.clone();
        begin(&self.url, requests, deadline, async |request| {
            inner.encode_stream(request).await
        })
        .await
    }

    /// A status of this server as an error that names it.
    pub fn error(&self, status: &Status) -> ClientError {
        ClientError::from_status(&self.url, 1, status)
    }

    /// Checks that a reply holds `texts` vectors, with their ranges where their precision has some; finite ones.
    pub fn check(&self, reply: &v1::EncodeResponse, texts: usize) -> Result<(), ClientError> {
        let precision = reply.precision();
        let vectors = vector::check(&reply.vectors, texts, reply.dim as usize, precision, "vectors");
        let checked = match precision {
            v1::Precision::Int8 | v1::Precision::Uint8 => {
                vectors.and_then(|()| vector::unpack(&reply.ranges, texts, 2, "ranges").map(drop))
            }
            _ => vectors,
        };
        checked.map_err(|error| ClientError::Contract {
            url: self.url.clone(),
            reason: error.to_string(),
        })
    }
}
