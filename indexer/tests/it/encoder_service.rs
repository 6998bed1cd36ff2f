//! An encoder service to build with, which answers out of order, is full, changes, or dies.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dyad_corpus::logit_scale;
use dyad_proto::service::{self, Health, ServerConfig};
use dyad_proto::v1::encoder_server::{Encoder, EncoderServer};
use dyad_proto::{v1, vector};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio_stream::Stream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::fixture::{DIM, Fixture, is_truncated, row_of};

/// What the service does with call number `n` (from 0).
#[derive(Clone, Copy)]
pub(crate) enum Mood {
    Well,
    /// Later calls are answered first.
    OutOfOrder,
    /// The first calls are refused as too much.
    Full,
    /// The process is gone after this many calls.
    Dies(usize),
    /// Another model after this many calls.
    Changes(usize),
    /// One vector too few.
    Short,
    /// Answers never.
    Hangs,
    /// Refuses the first batches, as where its GPU is gone for a time.
    Refuses(usize),
    /// Has the answer tower alone.
    OneTower,
}

struct Fake {
    mood: Mood,
    calls: Arc<AtomicUsize>,
    die: Arc<Notify>,
}

#[tonic::async_trait]
impl Encoder for Fake {
    async fn info(&self, _: Request<v1::InfoRequest>) -> Result<Response<v1::InfoResponse>, Status> {
        let model = v1::ModelInfo {
            name: "hash".into(),
            fingerprint: "f00d".into(),
            dim: DIM as u32,
            metric: v1::Metric::Cosine.into(),
            max_tokens: 64,
            two_towers: Some(true),
            ..Default::default()
        };
        Ok(Response::new(v1::InfoResponse {
            model: Some(model),
            ..Default::default()
        }))
    }

    async fn encode(&self, request: Request<v1::EncodeRequest>) -> Result<Response<v1::EncodeResponse>, Status> {
        let request = request.into_inner();
        let are = |kind: &[String]| request.texts.iter().all(|text| kind.contains(text));
        let (are_paired_questions, are_paired) = (
            are(&logit_scale::questions()),
            are(&[logit_scale::questions(), logit_scale::documents()].concat()),
        );
        let are_questions = are_paired_questions || request.texts.iter().all(|text| text.starts_with("asked "));
        assert_eq!(
            request.tower(),
            if are_questions {
                v1::Tower::Question
            } else {
                v1::Tower::Answer
            }
        );
        let mut fingerprint = "f00d";
        // Moods are of documents.
        let call = if are_paired {
            0
        } else {
            self.calls.fetch_add(1, Ordering::Relaxed)
        };
        match self.mood {
            _ if are_paired && !matches!(self.mood, Mood::OneTower) => {}
            Mood::OutOfOrder => tokio::time::sleep(Duration::from_millis(40 - 10 * (call as u64 % 4))).await,
            Mood::Full if call < 4 => return Err(Status::resource_exhausted("the queue is full")),
            Mood::Dies(after) if call >= after => {
                self.die.notify_one();
                std::future::pending::<()>().await;
            }
            Mood::Changes(after) if call >= after => fingerprint = "beef",
            Mood::Hangs => std::future::pending::<()>().await,
            Mood::Refuses(first) if call < first => return Err(Status::unavailable("no GPU")),
            Mood::OneTower if are_questions => return Err(Status::failed_precondition("there is no question tower")),
            _ => {}
        }
        let mut rows: Vec<f32> = request.texts.iter().flat_map(|text| tower_row(text)).collect();
        if matches!(self.mood, Mood::Short) && !are_paired {
            rows.truncate(rows.len() - DIM);
        }
        Ok(Response::new(v1::EncodeResponse {
            id: request.id,
            dim: DIM as u32,
            vectors: vector::pack(&rows),
            fingerprint: fingerprint.into(),
            truncated: request.texts.iter().filter(|text| is_truncated(text)).count() as u32,
            ..Default::default()
        }))
    }

    async fn score(&self, _: Request<v1::ScoreRequest>) -> Result<Response<v1::ScoreResponse>, Status> {
        Err(Status::failed_precondition("this model embeds single texts"))
    }

    type EncodeStreamStream = Pin<Box<dyn Stream<Item = Result<v1::EncodeResponse, Status>> + Send>>;

    async fn encode_stream(
        &self,
        _: Request<Streaming<v1::EncodeRequest>>,
    ) -> Result<Response<Self::EncodeStreamStream>, Status> {
        Err(Status::unimplemented("not asked for here"))
    }
}

/// By [`row_of`], but that the questions by which a logit scale is measured lie near their documents.
pub(crate) fn tower_row(text: &str) -> Vec<f32> {
    let paired = logit_scale::questions().iter().position(|question| question == text);
    let Some(document) = paired.map(|at| logit_scale::documents().swap_remove(at)) else {
        return row_of(text);
    };
    let sum: Vec<f32> = row_of(text)
        .iter()
        .zip(row_of(&document))
        .map(|(own, other)| own + 0.7 * other)
        .collect();
    let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
    sum.into_iter().map(|value| value / length).collect()
}

/// A service that embeds documents alone.
pub(crate) fn answer_service() -> Running {
    start(Mood::OneTower)
}

/// A service that ends when it is dropped.
pub(crate) struct Running {
    pub(crate) url: String,
    /// Batches that it was asked for.
    pub(crate) calls: Arc<AtomicUsize>,
    pub(crate) die: Arc<Notify>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.die.notify_one();
    }
}

/// A service that embeds by [`row_of`].
pub(crate) fn encoder_service() -> Running {
    start(Mood::Well)
}

/// A program that says where this service listens, as `dyad-encoder serve` does, and lives as long as its input; with a
/// log of its arguments and its end.
pub(crate) fn own_encoder(fixture: &Fixture, service: &Running) -> (String, PathBuf) {
    let (program, log) = (fixture.path("encoder.sh"), fixture.path("log"));
    let (address, shown) = (service.url.trim_start_matches("http://"), log.display());
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>{shown}\necho listening on {address}\ncat >/dev/null\necho ended >>{shown}\n"
    );
    fs_err::write(&program, script).unwrap();
    fs_err::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    (program.display().to_string(), log)
}

pub(crate) fn start(mood: Mood) -> Running {
    let runtime = Runtime::new().unwrap();
    let die = Arc::new(Notify::new());
    let calls = Arc::new(AtomicUsize::new(0));
    let fake = Fake {
        mood,
        calls: calls.clone(),
        die: die.clone(),
    };
    let url = runtime.block_on(async {
        let listener = service::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = Routes::new(service::encoder(fake));
        let health = Health::new().serving::<EncoderServer<Fake>>().await;
        tokio::spawn(service::serve(
            listener,
            routes,
            health,
            std::future::pending(),
            ServerConfig::default(),
        ));
        url
    });
    let running = Running {
        url,
        calls,
        die: die.clone(),
    };
    std::thread::spawn(move || {
        runtime.block_on(die.notified());
        // Listener and connections close, as at the end of a process.
        runtime.shutdown_background();
    });
    running
}
