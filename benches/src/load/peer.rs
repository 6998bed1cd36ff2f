//! A peer from text to hits: a model and an index in one worker process (`benches/peers/load.py`), asked by one client inside it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_command::JobCancellation;
use dyad_proto::v1;
use serde::Deserialize;
use serde_json::json;

use super::arrivals::Ask;
use super::questions::Requests;
use super::tally::{Reply, Sent, Tally};
use super::workload::Workload;
use crate::dataset::npy;
use crate::error::{Error, Result};
use crate::harness::{Described, Opened, Programs, Worker, write_lines};

/// A worker with its corpus embedded and its index open.
pub(super) struct Peer {
    pub(super) name: String,
    /// Version and settings.
    pub(super) described: Described<NoDetails>,
    worker: Worker,
    scratch: PathBuf,
    k: u32,
    threads: usize,
}

/// Of a peer there is nothing to say but its version and settings.
#[derive(Debug, serde::Serialize, Deserialize)]
pub(super) struct NoDetails {}

/// What a client inside a worker has done.
#[derive(Debug, Deserialize)]
struct Asked {
    asked: usize,
}

/// The hits of one question.
#[derive(Debug, Deserialize)]
struct Hits {
    question: usize,
    keys: Vec<String>,
}

impl Peer {
    /// Starts a worker, and has it embed the corpus, unless it did so in an earlier run.
    pub(super) fn open(
        name: &str,
        workload: &Workload,
        requests: &Requests,
        (programs, cache): (&Programs, &Path),
        (deadline, cancel): (Duration, &JobCancellation),
    ) -> Result<Self> {
        let refused = |problem: &str| Error::Refused(format!("{name}: {problem}"));
        let [kind] = requests.kinds.as_slice() else {
            return Err(refused("peers rank by vectors alone: expected a workload of one kind, in MODE_DENSE"));
        };
        let is_plain = kind.request.mode() == v1::Mode::Dense && kind.request.filter.is_none();
        let (Some(corpus), Some(model), true) = (&workload.questions.data, &workload.server.question_tower, is_plain)
        else {
            let needed =
                "`questions.data`, a BEIR folder with its corpus, and a model directory as `server.question_tower`";
            return Err(refused(&format!("a peer needs {needed}; and MODE_DENSE without a filter")));
        };
        let mut command = programs.command(name, None);
        command.env("OMP_NUM_THREADS", workload.threads.to_string());
        let mut worker = Worker::start(name, command, deadline, cancel.clone())?;
        let described = worker.describe()?;
        let open = json!({
            "op": "open",
            "model": fs_err::canonicalize(model)?,
            "corpus": corpus,
            "threads": workload.threads,
            "cache": cache,
        });
        let _: Opened = worker.ask(&open)?;
        let scratch = cache.join(format!("load-{name}-{}", std::process::id()));
        let texts: Vec<&str> = requests.questions.queries.iter().map(|query| query.text.as_str()).collect();
        write_lines(&scratch.with_extension("texts.jsonl"), &texts)?;
        Ok(Self { name: name.to_owned(), described, worker, scratch, k: kind.request.k, threads: workload.threads })
    }

    /// One client for `seconds`, after a warm-up.
    pub(super) fn measure(&mut self, warm_up: Duration, seconds: f64, mut tally: Tally) -> Result<Tally> {
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
        let Asked { asked } = self.worker.ask(&request)?;
        let latencies = npy::read_f64(&latencies)?;
        self.worker.require("ask", format!("{asked} latencies"), format!("{} latencies", latencies.len()))?;
        let hits = crate::harness::read_lines::<Hits>(&hits).map_err(|error| Error::file(&hits, error))?;
        let mut answers = hits.into_iter().map(|Hits { question, keys }| (Ask { kind: 0, question }, keys));
        let sent = Sent { intended: warm_up, sent: warm_up };
        for latency in latencies {
            let latency = Duration::try_from_secs_f64(latency)
                .map_err(|_| self.worker.unexpected("ask", "latencies in seconds", latency))?;
            // Hits are of the questions, and there may be fewer of those than requests.
            let (ask, keys) = answers.next().unwrap_or((Ask { kind: 0, question: usize::MAX }, Vec::new()));
            tally.record(ask, sent, warm_up + latency, Reply::Answered(keys));
        }
        Ok(tally)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        for extension in ["texts.jsonl", "latencies.npy", "hits.jsonl"] {
            // What was not written cannot be removed.
            let _ = fs_err::remove_file(self.scratch.with_extension(extension));
        }
    }
}
