//! The engines of a run, opened by name, with the server and the requests that they share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyad_command::JobCancellation;
use dyad_index::{Snapshot, manifest};
use dyad_proto::client::{AdminClient, ClientConfig, SearcherClient};
use dyad_proto::v1;
use dyad_searcher::run::{Engine, EngineConfig};
use tokio::runtime::Runtime;

use super::drive::LoadTarget;
use super::grpc::GrpcTarget;
use super::questions::{LoadQuestions, LoadRequests, QuestionForm};
use super::server::LoadServer;
use super::targets::{InProcess, LibraryTarget};
use super::truth::{BATCH_TIME, ExactAnswers};
use super::workload::LoadWorkload;
use crate::error::{BenchError, BenchResult};

/// Our engines.
pub(super) const ENGINES: [&str; 5] = ["library", "engine", "grpc-vectors", BATCH, "grpc-text"];
/// The one whose calls carry many requests.
const BATCH: &str = "grpc-vectors-batch";

/// Where a run finds its server.
#[derive(Debug, Clone)]
pub struct ServerPlace {
    /// A server that runs already.
    pub url: Option<String>,
    /// The program that serves, else.
    pub searcher: PathBuf,
    /// The log file of the process.
    pub log: PathBuf,
}

/// Engines that are open.
pub(super) struct LoadEngines {
    pub(super) ours: Vec<(String, Arc<dyn LoadTarget>)>,
    pub(super) requests: Arc<LoadRequests>,
    pub(super) truth: ExactAnswers,
    /// Held for as long as they are measured: connections first, the server last.
    _runtime: Runtime,
    _server: Option<LoadServer>,
}

impl LoadEngines {
    /// Opens those of our engines that are named, and asks for the exact answers.
    pub(super) fn open(
        workload: &LoadWorkload,
        names: &[String],
        place: &ServerPlace,
        cancel: &JobCancellation,
        note: &dyn Fn(&str),
    ) -> BenchResult<Self> {
        let names: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| ENGINES.contains(name))
            .collect();
        let questions = LoadQuestions::read(&workload.questions)?;
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }
            .worker_threads(workload.threads)
            .thread_name("load")
            .enable_all()
            .build()?;
        let server = names
            .iter()
            .any(|name| name.starts_with("grpc"))
            .then(|| match &place.url {
                Some(url) => Ok(LoadServer::running(url)),
                None => LoadServer::start(&place.searcher, &workload.server, &place.log, cancel),
            });
        let server = server.transpose()?;
        let fingerprint = match &server {
            _ if questions.vectors.is_none() => String::new(),
            Some(server) => runtime.block_on(fingerprint(&server.url))?,
            None => {
                manifest::current(index(workload)?)
                    .map_err(|error| refused(&error))?
                    .model
                    .fingerprint
            }
        };
        let requests = Arc::new(LoadRequests {
            kinds: workload.kinds.clone(),
            questions,
            fingerprint,
        });
        let mut ours: Vec<(String, Arc<dyn LoadTarget>)> = Vec::new();
        for &name in &names {
            let form = if name == "grpc-text" {
                QuestionForm::Text
            } else {
                QuestionForm::Vector
            };
            let batch = (name == BATCH).then_some(workload.batch);
            requests.check(name, form, batch)?;
            let target: Arc<dyn LoadTarget> = match (name, &server) {
                ("library", _) => Arc::new(LibraryTarget::new(
                    Snapshot::open(index(workload)?).map_err(|e| refused(&e))?,
                    &requests,
                )?),
                ("engine", _) => Arc::new(InProcess {
                    engine: open_engine(workload)?,
                    requests: Arc::clone(&requests),
                    deadline: workload.deadline(),
                    runtime: runtime.handle().clone(),
                }),
                (_, Some(server)) => Arc::new(GrpcTarget::connect(
                    server,
                    workload,
                    &requests,
                    form,
                    batch,
                    runtime.handle(),
                )?),
                (_, None) => continue,
            };
            ours.push((name.to_owned(), target));
        }
        note("exact answers");
        let truth = match ours.as_slice() {
            [] => ExactAnswers::default(),
            _ => runtime.block_on(truth(workload, server.as_ref(), &requests))?,
        };
        note("load");
        Ok(Self {
            ours,
            requests,
            truth,
            _runtime: runtime,
            _server: server,
        })
    }
}

fn refused(error: &dyn std::fmt::Display) -> BenchError {
    BenchError::Refused(error.to_string())
}

fn index(workload: &LoadWorkload) -> BenchResult<&Path> {
    let missing = "engines in this process need `server.index` in the workload, or --index";
    workload
        .server
        .index
        .as_deref()
        .ok_or_else(|| BenchError::Refused(missing.to_owned()))
}

/// Opens the searcher's engine with the caches of a server that is started here.
fn open_engine(workload: &LoadWorkload) -> BenchResult<Arc<Engine>> {
    let (server, bytes) = (&workload.server, |mb: u32| (mb as usize) << 20);
    let caches = (bytes(server.question_cache_mb), bytes(server.filter_cache_mb));
    let config = EngineConfig {
        question_cache: caches.0,
        filter_cache: caches.1,
        ..EngineConfig::default()
    };
    Ok(Arc::new(
        Engine::open(index(workload)?, None, config).map_err(|error| refused(&error))?,
    ))
}

/// The fingerprint of the model whose index is served.
async fn fingerprint(url: &str) -> BenchResult<String> {
    let admin = AdminClient::connect(url, ClientConfig::default()).await?;
    Ok(admin
        .status(v1::StatusRequest::default())
        .await?
        .index_model
        .unwrap_or_default()
        .fingerprint)
}

async fn truth(
    workload: &LoadWorkload,
    server: Option<&LoadServer>,
    requests: &LoadRequests,
) -> BenchResult<ExactAnswers> {
    let Some(server) = server else {
        return ExactAnswers::of_engine(&*open_engine(workload)?, requests).await;
    };
    let config = ClientConfig {
        call_timeout: BATCH_TIME,
        ..ClientConfig::default()
    };
    let client = SearcherClient::connect(&server.url, config).await?;
    let form = if requests.questions.vectors.is_some() {
        QuestionForm::Vector
    } else {
        QuestionForm::Text
    };
    ExactAnswers::of_server(&client, requests, form).await
}
