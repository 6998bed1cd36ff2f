//! The cross encoder that scores the best hits of a ranking again: in this process (feature `torch`), or in an encoder
//! service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dyad_proto::client::{ClientConfig, ClientError, Credentials, EncoderClient};
use dyad_proto::v1;

use crate::circuit_breaker::{CircuitBreaker, PROBE_TIME};
use crate::error::{Error, Result};
use crate::question::GOLDEN;

/// Timeout of a health check of the service.
const CHECK: Duration = Duration::from_secs(1);
/// Pause before the next attempt to connect to a service that is not up yet.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A cross encoder.
#[derive(Debug)]
pub struct Reranker {
    model: v1::ModelInfo,
    fingerprint: Arc<str>,
    place: RerankerPlace,
    /// Whether it has failed for the last question, so that this is logged once.
    is_down: AtomicBool,
}

/// Where it runs.
#[derive(Debug)]
enum RerankerPlace {
    #[cfg(feature = "torch")]
    Here(dyad_encoder::serve::Handle),
    Service(Box<EncoderClient>, CircuitBreaker),
}

fn failed(error: &impl ToString, transient: bool) -> Error {
    Error::Reranker {
        reason: error.to_string(),
        transient,
    }
}

fn of_client(error: &ClientError) -> Error {
    failed(error, error.is_transient())
}

fn is_silent(next: Duration) -> Error {
    let reason = format!("its last calls were not answered in time, so none is made. It is probed again in {next:.1?}");
    failed(&reason, true)
}

fn request(query: String, texts: Vec<String>) -> v1::ScoreRequest {
    v1::ScoreRequest {
        query,
        texts,
        raw_scores: true,
        ..v1::ScoreRequest::default()
    }
}

impl Reranker {
    fn new(model: v1::ModelInfo, place: RerankerPlace) -> Result<Self> {
        if model.kind() != v1::ModelKind::CrossEncoder {
            let name = &model.name;
            let reason = format!("`{name}` embeds single texts. A cross encoder is needed, which scores pairs");
            return Err(failed(&reason, false));
        }
        Ok(Self {
            fingerprint: model.fingerprint.as_str().into(),
            model,
            place,
            is_down: AtomicBool::new(false),
        })
    }

    /// Connects to an encoder service of a cross encoder; retries for up to `wait` while it is not up yet.
    pub async fn connect(url: &str, credentials: Credentials, wait: Duration) -> Result<Self> {
        let config = ClientConfig::for_questions(credentials);
        let until = Instant::now() + wait;
        let (client, model) = loop {
            let connected = async {
                let client = EncoderClient::connect(url, config.clone()).await?;
                let model = client.info().await?;
                Ok::<_, ClientError>((client, model))
            };
            match connected.await {
                Err(error) if error.is_transient() && Instant::now() < until => {
                    tracing::info!(%error, "waiting for the cross encoder");
                    tokio::time::sleep(RETRY_PAUSE.min(until.saturating_duration_since(Instant::now()))).await;
                }
                connected => break connected.map_err(|error| of_client(&error))?,
            }
        };
        Self::new(
            model,
            RerankerPlace::Service(Box::new(client), CircuitBreaker::default()),
        )
    }

    /// Loads a model directory into this process.
    #[cfg(feature = "torch")]
    pub async fn load(model: &std::path::Path, options: crate::question::LocalOptions) -> Result<Self> {
        let compute = options.compute().map_err(|reason| failed(&reason, false))?;
        let (directory, options) = (model.to_owned(), dyad_encoder::serve::ServedModelOptions::new(compute));
        let start = move || dyad_encoder::serve::Handle::start(&directory, options);
        let started = tokio::task::spawn_blocking(start).await;
        let handle = started
            .map_err(|error| failed(&error, false))?
            .map_err(|error| failed(&error, false))?;
        let info = handle.info();
        let kind = match info.kind {
            dyad_encoder::ModelKind::CrossEncoder => v1::ModelKind::CrossEncoder,
            dyad_encoder::ModelKind::DualEncoder => v1::ModelKind::DualEncoder,
        };
        let model = v1::ModelInfo {
            name: info.name.clone(),
            fingerprint: info.fingerprint.clone(),
            max_tokens: info.max_tokens as u32,
            device: info.device.to_string(),
            dtype: info.dtype.to_string(),
            kind: kind.into(),
            ..v1::ModelInfo::default()
        };
        Self::new(model, RerankerPlace::Here(handle))
    }

    /// The model.
    pub fn model(&self) -> &v1::ModelInfo {
        &self.model
    }

    /// The model's fingerprint.
    pub(crate) fn fingerprint(&self) -> &Arc<str> {
        &self.fingerprint
    }

    /// Whether it answers now, and is still of the model that it was at the start; takes a second at most.
    pub async fn check(&self) -> Result<()> {
        match &self.place {
            #[cfg(feature = "torch")]
            RerankerPlace::Here(handle) if handle.has_ended() => Err(failed(&"the model has stopped", true)),
            #[cfg(feature = "torch")]
            RerankerPlace::Here(_) => Ok(()),
            RerankerPlace::Service(client, breaker) => {
                let info = tokio::time::timeout(CHECK, client.info()).await;
                let info = info.map_err(|_| failed(&format!("no answer within {CHECK:?}"), true))?;
                self.check_fingerprint(&info.map_err(|error| of_client(&error))?.fingerprint)?;
                breaker.is_open().map_or(Ok(()), |next| Err(is_silent(next)))
            }
        }
    }

    fn check_fingerprint(&self, got: &str) -> Result<()> {
        if got == self.model.fingerprint {
            return Ok(());
        }
        let v1::ModelInfo { name, fingerprint, .. } = &self.model;
        let reason = format!(
            "it now is a model with fingerprint {got}, expected {fingerprint} (`{name}`). Restart it with that model"
        );
        Err(failed(&reason, false))
    }

    /// Scores of texts for a question, in their order; each finite. They are logits: a sigmoid would make the best ones
    /// equal in f32. Takes `time` at most.
    pub async fn score(&self, question: String, texts: Vec<String>, time: Duration) -> Result<Vec<f32>> {
        let (count, deadline) = (texts.len(), Instant::now() + time);
        let scoring = async {
            match &self.place {
                #[cfg(feature = "torch")]
                RerankerPlace::Here(handle) => {
                    let options = dyad_encoder::serve::EncodeOptions::until(deadline);
                    let scored = handle.score(question, texts, true, options).await;
                    scored
                        .map(|scored| scored.vectors)
                        .map_err(|error| failed(&error, true))
                }
                RerankerPlace::Service(client, breaker) => {
                    let prober = client.clone();
                    let probe = async move {
                        let texts = vec![GOLDEN.to_owned()];
                        prober.score_within(request(GOLDEN.to_owned(), texts), PROBE_TIME).await
                    };
                    let called = breaker
                        .call(count, time, client.score_within(request(question, texts), time), probe)
                        .await;
                    let reply = called.map_err(is_silent)?.map_err(|error| of_client(&error))?;
                    self.check_fingerprint(&reply.fingerprint)?;
                    Ok(reply.scores)
                }
            }
        };
        let scores = match tokio::time::timeout_at(deadline.into(), scoring).await {
            Ok(Ok(scores)) if scores.len() == count && scores.iter().all(|score| score.is_finite()) => Ok(scores),
            Ok(Ok(scores)) => Err(failed(
                &format!("expected {count} finite scores, got {}", scores.len()),
                false,
            )),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(failed(&format!("no scores within {time:.1?}"), true)),
        };
        self.note(scores.as_ref().err());
        scores
    }

    /// Logs once that it has failed, and once that it is back.
    fn note(&self, error: Option<&Error>) {
        let model = &self.model.name;
        match error {
            Some(error) => {
                if !self.is_down.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        model,
                        "the cross encoder gives no scores, hits keep their order: {error}"
                    );
                }
            }
            None => {
                if self.is_down.swap(false, Ordering::Relaxed) {
                    tracing::info!(model, "the cross encoder gives scores again");
                }
            }
        }
    }
}
