//! A stand-in for a cross encoder, to which the shortest text is the best, and a searcher with it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use dyad_proto::client::Credentials;
use dyad_proto::service::{self, Health, ServerConfig};
use dyad_proto::v1::encoder_server::{Encoder, EncoderServer};
use dyad_proto::{v1, validate};
use dyad_searcher::reranker::Reranker;
use dyad_searcher::run::EngineConfig;
use tokio::sync::oneshot;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::encoder_service::{EncoderService, encoder};
use crate::fixture::{self, Served, serve};

/// The stand-in for a cross encoder: a text's score is minus its number of bytes, so that short ones come first.
#[derive(Clone, Default)]
pub(crate) struct Shortest {
    pub(crate) broken: Arc<AtomicBool>,
    pub(crate) slow: Arc<AtomicBool>,
    pub(crate) asked: Arc<AtomicUsize>,
    pub(crate) other: Arc<AtomicBool>,
    pub(crate) pairs: Arc<AtomicUsize>,
}

#[tonic::async_trait]
impl Encoder for Shortest {
    async fn info(&self, _: Request<v1::InfoRequest>) -> Result<Response<v1::InfoResponse>, Status> {
        let kind = v1::ModelKind::CrossEncoder.into();
        let (name, fingerprint) = ("shortest".into(), self.fingerprint());
        let model = Some(v1::ModelInfo {
            name,
            fingerprint,
            kind,
            ..Default::default()
        });
        Ok(Response::new(v1::InfoResponse {
            model,
            ..Default::default()
        }))
    }

    async fn encode(&self, _: Request<v1::EncodeRequest>) -> Result<Response<v1::EncodeResponse>, Status> {
        Err(Status::failed_precondition("a cross encoder has no vectors"))
    }

    async fn score(&self, request: Request<v1::ScoreRequest>) -> Result<Response<v1::ScoreResponse>, Status> {
        let request = request.into_inner();
        validate::fields(&request)?;
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.broken.load(Ordering::SeqCst) {
            return Err(Status::internal("the model is out of memory"));
        }
        if self.slow.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        self.pairs.fetch_add(request.texts.len(), Ordering::SeqCst);
        let scores = request.texts.iter().map(|text| -(text.len() as f32)).collect();
        Ok(Response::new(v1::ScoreResponse {
            scores,
            fingerprint: self.fingerprint(),
            ..Default::default()
        }))
    }

    type EncodeStreamStream = tokio_stream::Empty<Result<v1::EncodeResponse, Status>>;

    async fn encode_stream(
        &self,
        _: Request<Streaming<v1::EncodeRequest>>,
    ) -> Result<Response<Self::EncodeStreamStream>, Status> {
        Err(Status::failed_precondition("a cross encoder has no vectors"))
    }
}

impl Shortest {
    pub(crate) fn fingerprint(&self) -> String {
        if self.other.load(Ordering::SeqCst) {
            "c0de2".into()
        } else {
            "c0de".into()
        }
    }
}

pub(crate) struct Running {
    pub(crate) model: Shortest,
    /// Of the cross encoder.
    pub(crate) url: String,
    pub(crate) served: Served,
    pub(crate) encoder: EncoderService,
    pub(crate) index: tempfile::TempDir,
    pub(crate) _stop: oneshot::Sender<()>,
}

pub(crate) async fn searcher() -> Running {
    searcher_over(|index| fixture::write_index(index, 1, "f00d")).await
}

/// Over the index that is written.
pub(crate) async fn searcher_over(write: impl Fn(&Path)) -> Running {
    let (listener, model) = (service::bind("127.0.0.1:0").await.unwrap(), Shortest::default());
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let health = Health::new().serving::<EncoderServer<Shortest>>().await;
    let routes = Routes::new(service::encoder(model.clone()));
    let shutdown = async { drop(stopped.await) };
    tokio::spawn(service::serve(
        listener,
        routes,
        health,
        shutdown,
        ServerConfig::default(),
    ));
    let index = tempfile::tempdir().unwrap();
    write(index.path());
    let encoder = encoder("f00d").await;
    let reranker = Reranker::connect(&url, Credentials::default(), Duration::ZERO)
        .await
        .unwrap();
    let engine = fixture::open(index.path(), &encoder, EngineConfig::default())
        .await
        .unwrap();
    let served = serve(Arc::new(engine.with_reranker(Some(reranker)))).await;
    Running {
        model,
        url,
        served,
        encoder,
        index,
        _stop: stop,
    }
}

pub(crate) fn bytes(hit: &v1::Hit) -> usize {
    let document = hit.document.as_ref().unwrap();
    format!("{} {}", document.title, document.text).trim().len()
}
