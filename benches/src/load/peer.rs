//! A peer from text to hits: a model and an index in one worker process (`benches/peers/load.py`), asked by one client
//! inside it.

use std::path::PathBuf;
use std::time::Duration;

use dyad_proto::v1;
use serde::Deserialize;
use serde_json::json;

use super::arrivals::AskedQuestion;
use super::questions::LoadRequests;
use super::tally::{LoadReply, RequestTally, SentAt};
use super::workload::LoadWorkload;
use crate::dataset::npy;
use crate::error::{BenchError, BenchResult};
use crate::harness::{EngineDescription, EngineSettings, OpenedReply, WorkerProcess, read_lines, write_lines};

/// A worker with its corpus embedded and its index open.
pub(super) struct LoadPeer {
    /// Version and settings.
    pub(super) described: EngineDescription<NoDetails>,
    worker: WorkerProcess,
    scratch: PathBuf,
    k: u32,
    threads: usize,
}

/// What a peer says of itself beyond its version and settings: nothing.
#[derive(Debug, serde::Serialize, Deserialize)]
pub(super) struct NoDetails {}

/// What a client inside a worker has done.
#[derive(Debug, Deserialize)]
struct AskedCount {
    asked: usize,
}

/// The hits of one question.
#[derive(Debug, Deserialize)]
struct PeerHits {
    question: usize,
    keys: Vec<String>,
}

impl LoadPeer {
    /// Starts a worker, and has it embed the corpus, unless it did so in an earlier run.
    pub(super) fn open(
        name: &str,
        workload: &LoadWorkload,
        requests: &LoadRequests,
        settings: &EngineSettings,
    ) -> BenchResult<Self> {
        let refused = |problem: &str| BenchError::Refused(format!("{name}: {problem}"));
        let [kind] = requests.kinds.as_slice() else {
            return Err(refused(
                "peers rank by vectors alone: expected a workload of one kind, in MODE_DENSE",
            ));
        };
        let is_plain = kind.request.mode() == v1::Mode::Dense && kind.request.filter.is_none();
        let (Some(corpus), Some(model), true) = (&workload.questions.data, &workload.server.question_tower, is_plain)
        else {
            let needed =
                "`questions.data`, a BEIR folder with its corpus, and a model directory as `server.question_tower`";
            return Err(refused(&format!(
                "a peer needs {needed}; and MODE_DENSE without a filter"
            )));
        };
        let EngineSettings {
            programs,
            cache,
            deadline,
            cancel,
            ..
        } = settings;
        let mut command = programs.command(name, None);
        command.env("OMP_NUM_THREADS", workload.threads.to_string());
        let mut worker = WorkerProcess::start(name, command, *deadline, cancel.clone())?;
        let described = worker.describe()?;
        let open = json!({
            "op": "open",
            "model": fs_err::canonicalize(model)?,
            "corpus": corpus,
            "threads": workload.threads,
            "cache": cache,
        });
        let _: OpenedReply = worker.ask(&open)?;
        let scratch = cache.join(format!("load-{name}-{}", std::process::id()));
        let texts: Vec<&str> = requests
            .questions
            .queries
            .iter()
            .map(|query| query.text.as_str())
            .collect();
        write_lines(&scratch.with_extension("texts.jsonl"), &texts)?;
        Ok(Self {
            described,
            worker,
            scratch,
            k: kind.request.k,
            threads: workload.threads,
        })
    }

    /// The engine's name.
    pub(super) fn name(&self) -> &str {
        self.worker.engine()
    }

    /// One client for `seconds`, after a warm-up.
    pub(super) fn measure(
        &mut self,
        warm_up: Duration,
        seconds: f64,
        mut tally: RequestTally,
    ) -> BenchResult<RequestTally> {
        let path = |extension: &str| self.scratch.with_extension(extension);
        let (latencies, hits) = (path("latencies.npy"), path("hits.jsonl"));
        let request = json!({
            "op": "ask",
            "texts": path("texts.jsonl"),
            "k": self.k,
            "threads": self.threads,
            "warm_up_s": warm_up.as_secs_f64(),
            "seconds": seconds,
            "latencies": latencies,
            "hits": hits,
        });
        let AskedCount { asked } = self.worker.ask(&request)?;
        let latencies = npy::read_f64(&latencies)?;
        self.worker.require(
            "ask",
            format!("{asked} latencies"),
            format!("{} latencies", latencies.len()),
        )?;
        let hits = read_lines::<PeerHits>(&hits).map_err(|error| BenchError::file(&hits, error))?;
        let mut answers = hits
            .into_iter()
            .map(|PeerHits { question, keys }| (AskedQuestion { kind: 0, question }, keys));
        let sent = SentAt {
            intended: warm_up,
            sent: warm_up,
        };
        for latency in latencies {
            let latency = Duration::try_from_secs_f64(latency)
                .map_err(|_| self.worker.unexpected("ask", "latencies in seconds", latency))?;
            // Hits are of the questions, and there may be fewer of those than requests.
            let (ask, keys) = answers.next().unwrap_or((
                AskedQuestion {
                    kind: 0,
                    question: usize::MAX,
                },
                Vec::new(),
            ));
            tally.record(ask, sent, warm_up + latency, LoadReply::Answered(keys));
        }
        Ok(tally)
    }
}

impl Drop for LoadPeer {
    fn drop(&mut self) {
        for extension in ["texts.jsonl", "latencies.npy", "hits.jsonl"] {
            // What was not written cannot be removed.
            let _ = fs_err::remove_file(self.scratch.with_extension(extension));
        }
    }
}
