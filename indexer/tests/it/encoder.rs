//! Builds that embed through an encoder service, which answers out of order, is full, changes, or dies.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dyad_command::JobCancellation;
use dyad_corpus::embeddings::{EmbeddingsHeader, EmbeddingsModel};
use dyad_corpus::logit_scale;
use dyad_index::verify::verify_current as verify;
use dyad_indexer::control::JobControl;
use dyad_indexer::source::{RemoteConfig, RemoteSource};
use dyad_indexer::{Error, job};
use dyad_proto::client::ClientConfig;
use dyad_proto::service::{self, Health, ServerConfig};
use dyad_proto::v1::encoder_server::{Encoder, EncoderServer};
use dyad_proto::{v1, vector};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio_stream::Stream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

use crate::command_line::{dyad_indexer, text};
use crate::fixture::{DIM, Fixture, documents, header, is_truncated, row_of};

/// What the service does with call number `n` (from 0).
#[derive(Clone, Copy)]
enum Mood {
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
        Ok(Response::new(v1::InfoResponse { model: Some(model) }))
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
    calls: Arc<AtomicUsize>,
    die: Arc<Notify>,
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

fn start(mood: Mood) -> Running {
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

pub(crate) fn connect(url: &str) -> Result<RemoteSource, Error> {
    connect_all(&[url], Duration::from_mins(1), &JobCancellation::new())
}

fn connect_all(urls: &[&str], away: Duration, cancel: &JobCancellation) -> Result<RemoteSource, Error> {
    let client = ClientConfig {
        attempts: 3,
        first_wait: Duration::from_millis(10),
        call_timeout: Duration::from_secs(20),
        ..ClientConfig::default()
    };
    let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
    RemoteSource::connect_all(
        &urls,
        RemoteConfig {
            batch_texts: 16,
            in_flight: 4,
            away,
            client,
            ..RemoteConfig::default()
        },
        cancel,
    )
}

/// Builds generation 1 from files, then fails to build generation 2 from the service.
fn refused(mood: Mood) -> String {
    let fixture = Fixture::new(200);
    fixture.build().unwrap();
    let before = fixture.files();
    let server = start(mood);
    let error = anyhow::Error::from(fixture.build_from(&mut connect(&server.url).unwrap()).unwrap_err());
    assert!(fixture.files() == before);
    let text = format!("{error:#}");
    assert!(text.contains(&server.url), "{text}");
    text
}

#[test]
fn an_index_is_the_same_from_a_service_as_from_files() {
    let from_files = Fixture::new(200);
    from_files.build().unwrap();
    let counts = |fixture: &Fixture| {
        let change = dyad_index::manifest::current(&fixture.index()).unwrap().change.unwrap();
        (change.indexed, change.truncated)
    };
    assert_eq!(counts(&from_files), (200, Some(29)), "every seventh");
    let dense = |fixture: &Fixture| {
        let files = fixture
            .files()
            .into_iter()
            .filter(|(path, _)| path.ends_with("dense.dyad"));
        files.map(|(_, bytes)| bytes).collect::<Vec<_>>()
    };
    for mood in [Mood::Well, Mood::OutOfOrder, Mood::Full] {
        let fixture = Fixture::new(200);
        let server = start(mood);
        fixture.build_from(&mut connect(&server.url).unwrap()).unwrap();
        assert_eq!(verify(&fixture.index()).unwrap().problems, [""; 0]);
        assert!(dense(&fixture) == dense(&from_files));
        assert_eq!(counts(&fixture), counts(&from_files));
    }
}

#[test]
fn a_service_that_dies_in_the_middle_is_named_with_the_documents() {
    let error = refused(Mood::Dies(5));
    // The number of the batch depends on the replies still in flight.
    assert!(
        error.contains("documents `doc-00") && error.contains("could not be embedded"),
        "{error}"
    );
    assert!(error.contains("no server answers at"), "{error}");
}

#[test]
fn a_service_that_changes_its_model_is_refused() {
    let error = refused(Mood::Changes(3));
    assert!(error.contains("expected fingerprint f00d, got beef"), "{error}");
}

#[test]
fn a_service_that_answers_too_little_is_refused() {
    let error = refused(Mood::Short);
    assert!(error.contains("documents `doc-0000` to `doc-0015`"), "{error}");
    assert!(error.contains("16 vectors of 24"), "{error}");
}

#[test]
fn a_service_that_is_not_there_creates_no_index() {
    let error = connect("http://127.0.0.1:9").unwrap_err().to_string();
    assert!(
        error.contains("no server answers at `http://127.0.0.1:9` (3 attempts)"),
        "{error}"
    );
    let error = connect("https://127.0.0.1:9").unwrap_err().to_string();
    assert!(error.contains("no server answers at `https://127.0.0.1:9`"), "{error}");
}

#[test]
fn waiting_for_a_service_can_be_cancelled() {
    let fixture = Fixture::new(50);
    let server = start(Mood::Hangs);
    let cancel = JobCancellation::new();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            cancel.cancel();
        });
        let mut source = connect(&server.url).unwrap();
        let control = JobControl {
            cancel: &cancel,
            ..JobControl::silent()
        };
        job::build_index(&fixture.config(), &mut source, control).unwrap_err()
    });
    assert!(matches!(error, Error::Cancelled), "{error}");
    assert!(fixture.files().is_empty());
}

#[test]
fn a_service_that_stays_away_is_asked_by_the_first_batches_alone() {
    let fixture = Fixture::new(640);
    let (well, away) = (start(Mood::Well), start(Mood::Refuses(usize::MAX)));
    let mut source = connect_all(&[&well.url, &away.url], Duration::from_mins(1), &JobCancellation::new()).unwrap();
    job::build_index(&fixture.config(), &mut source, JobControl::silent()).unwrap();
    verify(&fixture.index()).unwrap();
    // Of 40 batches every second would be its own; eight are under way when it is found away, each with three attempts.
    let (of_well, of_away) = (well.calls.load(Ordering::Relaxed), away.calls.load(Ordering::Relaxed));
    assert_eq!(of_well, 40);
    assert!((3..=24).contains(&of_away), "{of_away}");
}

#[test]
fn a_service_that_is_back_gets_its_batches_again() {
    let fixture = Fixture::new(640);
    let (well, away) = (start(Mood::Well), start(Mood::Refuses(3)));
    let soon = Duration::from_millis(1);
    let mut source = connect_all(&[&well.url, &away.url], soon, &JobCancellation::new()).unwrap();
    job::build_index(&fixture.config(), &mut source, JobControl::silent()).unwrap();
    verify(&fixture.index()).unwrap();
    let (of_well, of_away) = (well.calls.load(Ordering::Relaxed), away.calls.load(Ordering::Relaxed));
    assert_eq!(of_well + of_away - 3, 40);
    assert!(of_away > 13, "{of_away}");
}

#[test]
fn a_connection_to_a_service_can_be_cancelled() {
    // It accepts connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let cancel = JobCancellation::new();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            cancel.cancel();
        });
        connect_all(&[&url], Duration::from_mins(1), &cancel).unwrap_err()
    });
    assert!(matches!(error, Error::Cancelled), "{error}");
}

#[test]
fn batches_are_limited_by_name() {
    let config = RemoteConfig {
        batch_texts: 5_000,
        ..RemoteConfig::default()
    };
    let error = RemoteSource::connect("http://127.0.0.1:9", config, &JobCancellation::new())
        .unwrap_err()
        .to_string();
    assert_eq!(error, "`batch-texts` must be between 1 and 1024: 5000");
}

/// `--model` in place of `--encoder`: the command starts a service and ends it.
#[test]
fn commands_start_an_encoder_of_their_own() {
    let (fixture, service) = (Fixture::new(20), encoder_service());
    let other = EmbeddingsHeader {
        model: EmbeddingsModel {
            fingerprint: "before".to_owned(),
            ..header().model
        },
        ..header()
    };
    fixture.write_embeddings("before", other, &documents(20));
    let (program, log) = own_encoder(&fixture, &service);
    let run = |command: &str, more: &[&str]| {
        let own = ["--model", "m", "--encoder-program", &program, "--threads", "1"];
        let index = fixture.index().display().to_string();
        let output = dyad_indexer()
            .args([command, "--index", &index])
            .args(own)
            .args(more)
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let corpus = fixture.path("corpus.jsonl").display().to_string();
    assert!(run("build", &["--corpus", &corpus]).contains("20 documents"));
    fixture.write_corpus(&documents(23)[20..]);
    assert!(run("append", &["--corpus", &corpus]).contains("23"));
    // An index of another model, by `--embeddings`; then by the model again, for which a sample says what it takes.
    fixture.write_corpus(&documents(20));
    fs_err::remove_dir_all(fixture.index()).unwrap();
    let index = fixture.index().display().to_string();
    let before = fixture.path("before").display().to_string();
    let built = dyad_indexer()
        .args(["build", "--index", &index, "--corpus", &corpus, "--embeddings", &before])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let planned = run("reembed", &["--dry-run"]);
    assert!(
        planned.contains("dry run: 20 documents") && planned.contains(" tokens; embedding"),
        "{planned}"
    );
    assert!(run("reembed", &[]).contains("re-embedded 20 documents by `hash` (fingerprint f00d)"));
    assert_eq!(verify(&fixture.index()).unwrap().problems, [""; 0]);
    let log = fs_err::read_to_string(log).unwrap();
    assert_eq!(
        log.matches("serve --model m --listen 127.0.0.1:0 --while-input\n")
            .count(),
        4,
        "{log}"
    );
    // Either, and one of them.
    let refused = |more: &[&str]| {
        let output = dyad_indexer()
            .args(["reembed", "--index", &index])
            .args(more)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert!(refused(&[]).contains("--encoder"));
    assert!(refused(&["--model", "m", "--encoder", &service.url]).contains("cannot be used with"));
}
