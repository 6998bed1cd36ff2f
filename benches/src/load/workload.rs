//! A workload of load: questions, kinds of requests and their weights, the server. Read from TOML; unknown keys are
//! refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_proto::v1;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde::{Deserialize, Serialize};

use super::arrivals::Arrivals;
use crate::error::BenchResult;
use crate::harness::{WorkloadFile, plain_names, read_toml, require_some, threads};

/// Fields of a search that the run sets itself.
const SET_HERE: [&str; 4] = ["id", "query", "vector", "fingerprint"];

/// What one run asks. `benches/workloads/README.md` says what every key means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadWorkload {
    /// Name in records.
    pub name: String,
    #[serde(default = "engines")]
    pub(crate) engines: Vec<String>,
    #[serde(default)]
    pub(crate) seed: u64,
    #[serde(default = "repeats")]
    pub(crate) repeats: usize,
    #[serde(default)]
    pub(crate) arrivals: Arrivals,
    /// Clients that take all that an engine has.
    #[serde(default = "clients")]
    pub(crate) clients: usize,
    /// Requests of a call of the engines that make such calls.
    #[serde(default = "batch")]
    pub(crate) batch: usize,
    /// Connections of the clients together.
    #[serde(default = "connections")]
    pub connections: usize,
    #[serde(default = "deadline_ms")]
    pub(crate) deadline_ms: u64,
    #[serde(default = "max_in_flight")]
    pub(crate) max_in_flight: usize,
    #[serde(default = "warm_up_ms")]
    pub(crate) warm_up_ms: u64,
    /// I/O threads of the clients; 0 in the file stands for all that this process may use.
    #[serde(default)]
    pub(crate) threads: usize,
    pub(crate) questions: QuestionFiles,
    #[serde(default)]
    pub(crate) server: ServerFiles,
    #[serde(rename = "kind")]
    pub(crate) kinds: Vec<RequestKind>,
}

/// Where questions come from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionFiles {
    /// A BEIR folder, for its judged questions.
    pub(crate) data: Option<PathBuf>,
    #[serde(default = "split")]
    pub(crate) split: String,
    pub(crate) queries: Option<PathBuf>,
    pub(crate) vectors: Option<PathBuf>,
    pub(crate) limit: Option<usize>,
}

/// What is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerFiles {
    /// Directory of the index.
    pub(crate) index: Option<PathBuf>,
    /// The question tower, as `dyad-searcher serve --question-tower` takes it.
    pub(crate) question_tower: Option<String>,
    /// Size of the question cache of a server that is started here; with 0 a repeated question is embedded again.
    pub(crate) question_cache_mb: u32,
    /// Size of the filter cache of a server that is started here, and of `engine`.
    pub(crate) filter_cache_mb: u32,
    pub(crate) args: Vec<String>,
}

impl Default for ServerFiles {
    fn default() -> Self {
        Self {
            index: None,
            question_tower: None,
            question_cache_mb: 0,
            filter_cache_mb: 64,
            args: Vec::new(),
        }
    }
}

/// A kind of request, and how often it is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestKind {
    pub(crate) name: String,
    #[serde(default = "weight")]
    pub(crate) weight: f64,
    /// `SearchRequest` in the JSON form of proto3, without what the run sets itself.
    pub(crate) search: serde_json::Map<String, serde_json::Value>,
    #[serde(skip)]
    pub(crate) request: v1::SearchRequest,
}

defaults! {
    engines: Vec<String> = ["library", "grpc-vectors", "grpc-text"].map(str::to_owned).to_vec();
    repeats: usize = 3;
    clients: usize = 16;
    batch: usize = 32;
    connections: usize = 4;
    deadline_ms: u64 = 1_000;
    max_in_flight: usize = 4_096;
    warm_up_ms: u64 = 1_000;
    split: String = "test".to_owned();
    weight: f64 = 1.0;
}

impl LoadWorkload {
    /// Reads and checks a workload. Relative paths of questions are looked for next to the file, then under `data_dir`;
    /// that of the index first where the command was given.
    pub fn read(path: &Path, data_dir: Option<&Path>) -> BenchResult<Self> {
        let mut workload: Self = read_toml(path, |workload: &mut Self| workload.check())?;
        let file = WorkloadFile::new(path, data_dir);
        let QuestionFiles {
            data, queries, vectors, ..
        } = &mut workload.questions;
        for entry in [data, queries, vectors].into_iter().flatten() {
            file.locate("questions", entry)?;
        }
        if let Some(index) = workload.server.index.as_mut().filter(|index| !index.exists()) {
            // Where it is nowhere, it may not be needed.
            let _ = file.locate("server.index", index);
        }
        workload.threads = threads(workload.threads);
        Ok(workload)
    }

    fn check(&mut self) -> Result<(), String> {
        plain_names("name", [self.name.as_str()])?;
        plain_names("kind", self.kinds.iter().map(|kind| kind.name.as_str()))?;
        require_some(&[
            ("repeats", self.repeats),
            ("clients", self.clients),
            ("batch", self.batch),
            ("connections", self.connections),
            ("deadline_ms", self.deadline_ms as usize),
            ("max_in_flight", self.max_in_flight),
            ("questions.limit", self.questions.limit.unwrap_or(1)),
        ])?;
        let QuestionFiles {
            data, queries, vectors, ..
        } = &self.questions;
        if data.is_some() && queries.is_some() || data.is_none() && queries.is_none() && vectors.is_none() {
            return Err("`questions`: expected `data` or `queries`, or `vectors` alone or with one of them".to_owned());
        }
        let pool = DescriptorPool::decode(v1::FILE_DESCRIPTOR_SET).map_err(|error| error.to_string())?;
        self.kinds.iter_mut().try_for_each(|kind| kind.check(&pool))
    }

    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms)
    }
}

impl RequestKind {
    fn check(&mut self, pool: &DescriptorPool) -> Result<(), String> {
        let at = format!("kind.{}", self.name);
        if !(self.weight.is_finite() && self.weight > 0.0) {
            return Err(format!("`{at}.weight`: expected a number above 0, got {}", self.weight));
        }
        if let Some(field) = SET_HERE.iter().find(|field| self.search.contains_key(**field)) {
            return Err(format!(
                "`{at}.search`: expected no `{field}`: it comes from `questions`"
            ));
        }
        let wrong = |error: &dyn std::fmt::Display| format!("`{at}.search`: {error}");
        let descriptor = pool
            .get_message_by_name("dyad.v1.SearchRequest")
            .ok_or_else(|| wrong(&"no descriptor"))?;
        let search = serde_json::Value::Object(self.search.clone());
        let message = DynamicMessage::deserialize(descriptor, search).map_err(|error| wrong(&error))?;
        let request: v1::SearchRequest = message.transcode_to().map_err(|error| wrong(&error))?;
        // As a server would: what is left out is a hybrid search for ten hits.
        self.request = request.with_defaults();
        if self.request.mode() == v1::Mode::Compare {
            return Err(wrong(&"expected a mode with one ranking, got MODE_COMPARE"));
        }
        let some = v1::SearchRequest {
            query: "q".to_owned(),
            ..self.request.clone()
        };
        dyad_proto::validate::search_request(&some).map_err(|violations| wrong(&violations))
    }
}
