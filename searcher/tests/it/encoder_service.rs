//! A stand-in for the encoder service, whose vectors are words.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dyad_proto::pushback::RETRY_PUSHBACK;
use dyad_proto::service::{self, Health, ServerConfig};
use dyad_proto::v1::encoder_server::{Encoder, EncoderServer};
use dyad_proto::{v1, validate, vector};
use tokio::sync::{oneshot, watch};
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::fixture::{DIM, MAX_TOKENS, embed};

/// The stand-in for an encoder service.
struct Words {
    fingerprint: String,
    metric: v1::Metric,
    broken: Arc<AtomicBool>,
    hangs: Arc<AtomicBool>,
    drifted: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    released: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl Encoder for Words {
    async fn info(&self, _: Request<v1::InfoRequest>) -> Result<Response<v1::InfoResponse>, Status> {
        let model = v1::ModelInfo {
            name: "words".into(),
            fingerprint: self.fingerprint.clone(),
            dim: DIM as u32,
            metric: self.metric.into(),
            max_tokens: MAX_TOKENS,
            ..Default::default()
        };
        Ok(Response::new(v1::InfoResponse {
            model: Some(model),
            ..Default::default()
        }))
    }

    async fn encode(&self, request: Request<v1::EncodeRequest>) -> Result<Response<v1::EncodeResponse>, Status> {
        let request = request.into_inner();
        validate::encode_request(&request)?;
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.broken.load(Ordering::SeqCst) {
            return Err(Status::internal("the model is out of memory"));
        }
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if request.texts.iter().any(|text| text.contains("crowd")) {
            let mut busy = Status::resource_exhausted("the model is too busy. Try again in 8 ms");
            busy.metadata_mut().insert(RETRY_PUSHBACK, 8.into());
            return Err(busy);
        }
        if request.texts.iter().any(|text| text.contains("sleep")) {
            tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        }
        if request.texts.iter().any(|text| text.contains("wait")) {
            drop(self.released.clone().wait_for(|released| *released).await);
        }
        let mut values: Vec<f32> = request.texts.iter().flat_map(|text| embed(text)).collect();
        if self.drifted.load(Ordering::SeqCst) {
            values.reverse();
        }
        let (dim, vectors, fingerprint) = (DIM as u32, vector::pack(&values), self.fingerprint.clone());
        let words = |text: &String| text.split_whitespace().count() as u32;
        let tokens = request.texts.iter().map(|text| words(text).min(MAX_TOKENS)).collect();
        let is_long = |(_, text): &(u32, &String)| words(text) > MAX_TOKENS;
        let truncated_texts: Vec<u32> = (0..)
            .zip(&request.texts)
            .filter(is_long)
            .map(|(number, _)| number)
            .collect();
        Ok(Response::new(v1::EncodeResponse {
            id: request.id,
            dim,
            vectors,
            tokens,
            truncated: truncated_texts.len() as u32,
            fingerprint,
            truncated_texts,
            ..Default::default()
        }))
    }

    async fn score(&self, _: Request<v1::ScoreRequest>) -> Result<Response<v1::ScoreResponse>, Status> {
        Err(Status::failed_precondition("this model embeds single texts"))
    }

    type EncodeStreamStream = Pin<Box<dyn futures_util::Stream<Item = Result<v1::EncodeResponse, Status>> + Send>>;

    async fn encode_stream(
        &self,
        _: Request<Streaming<v1::EncodeRequest>>,
    ) -> Result<Response<Self::EncodeStreamStream>, Status> {
        Err(Status::unimplemented("a searcher does not stream"))
    }
}

/// An encoder service that ends when dropped.
pub(crate) struct EncoderService {
    pub(crate) url: String,
    pub(crate) broken: Arc<AtomicBool>,
    /// Whether calls are never answered.
    pub(crate) hangs: Arc<AtomicBool>,
    /// Whether all vectors are other ones from now on.
    pub(crate) drifted: Arc<AtomicBool>,
    /// Calls so far.
    pub(crate) asked: Arc<AtomicUsize>,
    /// Texts with `wait` are embedded once this is true.
    pub(crate) released: watch::Sender<bool>,
    pub(crate) stop: std::sync::Mutex<Option<oneshot::Sender<()>>>,
}

impl EncoderService {
    /// Ends the service.
    pub(crate) fn stop(&self) {
        drop(self.stop.lock().unwrap().take());
    }
}

pub(crate) async fn encoder(fingerprint: &str) -> EncoderService {
    encoder_at("127.0.0.1:0", fingerprint).await
}

pub(crate) async fn encoder_at(address: &str, fingerprint: &str) -> EncoderService {
    encoder_of(address, fingerprint, v1::Metric::Cosine).await
}

/// An encoder service whose model says that its vectors are compared like this.
pub(crate) async fn encoder_of(address: &str, fingerprint: &str, metric: v1::Metric) -> EncoderService {
    let listener = service::bind(address).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let (broken, hangs, drifted) = (
        Arc::<AtomicBool>::default(),
        Arc::<AtomicBool>::default(),
        Arc::<AtomicBool>::default(),
    );
    let asked = Arc::<AtomicUsize>::default();
    let (fingerprint, (released, wait)) = (fingerprint.to_owned(), watch::channel(false));
    let words = Words {
        fingerprint,
        metric,
        broken: Arc::clone(&broken),
        hangs: Arc::clone(&hangs),
        drifted: Arc::clone(&drifted),
        asked: Arc::clone(&asked),
        released: wait,
    };
    let health = Health::new().serving::<EncoderServer<Words>>().await;
    let shutdown = async { drop(stopped.await) };
    tokio::spawn(service::serve(
        listener,
        Routes::new(service::encoder(words)),
        health,
        shutdown,
        ServerConfig::default(),
    ));
    EncoderService {
        url,
        broken,
        hangs,
        drifted,
        asked,
        released,
        stop: std::sync::Mutex::new(Some(stop)),
    }
}
