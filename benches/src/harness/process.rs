//! Worker processes: which program holds an engine, how it is started, asked with a deadline, and killed by its id.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dyad_command::JobCancellation;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::memory_limit::WorkerMemoryLimit;
use super::serve::{EngineDescription, WorkerMemory};
use crate::error::{BenchError, BenchResult, check};

/// The engine that others are compared with.
pub const OURS: &str = "dyad";
/// Lines of stderr (and of chatter on stdout) that are kept for an error message.
const KEPT_LINES: usize = 12;
/// Longest line; an engine describes itself in far less.
const MAX_LINE: u64 = 1 << 20;
/// Time between two looks at the cancellation.
const TICK: Duration = Duration::from_millis(50);
/// Time that a worker has to end once it is asked to.
const QUIT: Duration = Duration::from_secs(5);

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct WorkerPrograms {
    /// The program of our own workers: this binary.
    pub ours: PathBuf,
    /// Python with the peers' packages.
    pub python: PathBuf,
    /// The script that is the worker of the peers.
    pub peers: PathBuf,
}

impl WorkerPrograms {
    /// The command of an engine's worker: our own where the engine is one of ours in a comparison, else the peers'
    /// program.
    pub(crate) fn command(&self, engine: &str, own: Option<&str>) -> Command {
        let mut command = Command::new(if own.is_some() { &self.ours } else { &self.python });
        match own {
            Some(comparison) => command.args(["worker", comparison]),
            None => command.arg(&self.peers),
        };
        command.args(["--engine", engine]);
        command
    }
}

type Kept = Arc<Mutex<VecDeque<String>>>;

/// A running worker.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    engine: String,
    child: Child,
    stdin: Option<ChildStdin>,
    replies: Receiver<String>,
    stderr: Kept,
    /// Reads stderr, and ends with it.
    listener: Option<JoinHandle<()>>,
    /// Time for each reply.
    deadline: Duration,
    cancel: JobCancellation,
    gone: bool,
    /// Removed after the process has ended.
    limit: Option<WorkerMemoryLimit>,
}

impl WorkerProcess {
    /// Starts a worker in a process group of its own, so that Ctrl-C reaches only the harness, which then ends it.
    pub(crate) fn start(
        engine: &str,
        mut command: Command,
        deadline: Duration,
        cancel: JobCancellation,
    ) -> BenchResult<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().map_err(|source| {
            let program = command.get_program().to_string_lossy();
            let hint = "Peers need a Python environment with their packages (--python)";
            BenchError::Engine {
                engine: engine.to_owned(),
                problem: format!("cannot start `{program}`: {source}. {hint}"),
            }
        })?;
        let (sender, replies) = sync_channel(4);
        let stderr = Kept::default();
        if let Some(out) = child.stdout.take() {
            let kept = Arc::clone(&stderr);
            // A library that prints to stdout says nothing of the protocol.
            let hear = move |line: String| {
                if line.starts_with('{') {
                    sender.send(line).is_ok()
                } else {
                    keep(&kept, line)
                }
            };
            thread::spawn(move || each_line(out, hear));
        }
        let listener = child.stderr.take().map(|errors| {
            let kept = Arc::clone(&stderr);
            thread::spawn(move || each_line(errors, |line| keep(&kept, line)))
        });
        let stdin = child.stdin.take();
        let engine = engine.to_owned();
        Ok(Self {
            engine,
            child,
            stdin,
            replies,
            stderr,
            listener,
            deadline,
            cancel,
            gone: false,
            limit: None,
        })
    }

    /// Limits what the worker takes from now on, pages of files included.
    pub(crate) fn limit_memory(&mut self, bytes: u64) -> BenchResult<()> {
        self.limit = Some(WorkerMemoryLimit::set(self.child.id(), bytes)?);
        Ok(())
    }

    /// The engine's name.
    pub(crate) fn engine(&self) -> &str {
        &self.engine
    }

    /// Sends a request, which is an object with an `op`, and waits for its reply. A worker that is late, gone or
    /// garbled is killed and stays so.
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, request: &impl Serialize) -> BenchResult<T> {
        let request = serde_json::to_value(request).map_err(std::io::Error::from)?;
        let op = request["op"].as_str().unwrap_or_default();
        let line = self.exchange(&request, op).inspect_err(|_| self.kill())?;
        let got = || line.trim().chars().take(200).collect::<String>();
        let Ok(value) = serde_json::from_str::<Value>(&line) else {
            self.kill();
            return Err(self.unexpected(op, "one JSON object", got()));
        };
        if let Some(message) = value.get("error") {
            let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
            return Err(self.failed(format!("`{op}`: {message}")));
        }
        serde_json::from_value(value).map_err(|error| {
            self.kill();
            self.unexpected(op, format!("the fields of the protocol ({error})"), got())
        })
    }

    /// What an engine says of itself. One that answers to another name is refused.
    pub(crate) fn describe<M: DeserializeOwned>(&mut self) -> BenchResult<EngineDescription<M>> {
        let described: EngineDescription<M> = self.ask(&json!({ "op": "describe" }))?;
        self.require("describe", &self.engine, &described.engine)?;
        Ok(described)
    }

    /// Its memory; with `settle` freed memory is given back first and a new peak begins.
    pub(crate) fn memory(&mut self, settle: bool) -> BenchResult<WorkerMemory> {
        self.ask(&json!({ "op": "memory", "settle": settle }))
    }

    /// Refuses a reply that says something else than was expected.
    pub(crate) fn require(&self, op: &str, expected: impl Display, got: impl Display) -> BenchResult<()> {
        let same = expected.to_string() == got.to_string();
        if same {
            Ok(())
        } else {
            Err(self.unexpected(op, expected, got))
        }
    }

    /// A figure of a reply, refused in the words of `expected` where it is not above 0.
    pub(crate) fn above_zero(&self, op: &str, expected: &str, got: f64) -> BenchResult<f64> {
        if got.is_finite() && got > 0.0 {
            Ok(got)
        } else {
            Err(self.unexpected(op, expected, got))
        }
    }

    /// The error of a reply that the protocol does not allow.
    pub(crate) fn unexpected(&self, op: &str, expected: impl Display, got: impl Display) -> BenchError {
        self.failed(format!("reply to `{op}`: expected {expected}, got {got}"))
    }

    fn failed(&self, problem: String) -> BenchError {
        BenchError::Engine {
            engine: self.engine.clone(),
            problem,
        }
    }

    fn exchange(&mut self, request: &Value, op: &str) -> BenchResult<String> {
        if self.gone {
            return Err(self.ended(op));
        }
        let line = format!("{request}\n");
        let sent = self
            .stdin
            .as_mut()
            .map(|stdin| stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.ended(op));
        }
        let until = Instant::now() + self.deadline;
        loop {
            check(&self.cancel)?;
            let left = until.saturating_duration_since(Instant::now());
            match self.replies.recv_timeout(left.min(TICK)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended(op)),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    let (seconds, stderr) = (self.deadline.as_secs(), self.last_words());
                    let problem = format!("no answer to `{op}` within {seconds} s; the worker was killed{stderr}");
                    return Err(self.failed(problem));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Asks the worker to end, and kills it if it does not.
    pub(crate) fn quit(mut self) {
        if let Some(mut stdin) = self.stdin.take() {
            let _ = stdin.write_all(b"{\"op\":\"quit\"}\n");
        }
        let until = Instant::now() + QUIT;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn ended(&mut self, op: &str) -> BenchError {
        let until = Instant::now() + Duration::from_millis(500);
        // Its last words may be read a little later than its end is seen.
        let heard = |listener: &Option<JoinHandle<()>>| listener.as_ref().is_none_or(JoinHandle::is_finished);
        let mut status = self.child.try_wait();
        while Instant::now() < until && (matches!(status, Ok(None)) || !heard(&self.listener)) {
            thread::sleep(Duration::from_millis(5));
            status = self.child.try_wait();
        }
        let status = match status {
            Ok(Some(status)) => status.to_string(),
            _ => "it closed its output".to_owned(),
        };
        self.failed(format!(
            "the worker ended during `{op}` ({status}){}",
            self.last_words()
        ))
    }

    /// What it wrote to stderr last, to follow a message.
    fn last_words(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = kept.iter().map(String::as_str).collect();
        if lines.is_empty() {
            String::new()
        } else {
            format!(". It said:\n{}", lines.join("\n"))
        }
    }

    fn kill(&mut self) {
        // Fails only where the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.gone = true;
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Hands on every line until the end, or until the receiver wants no more.
fn each_line(from: impl Read, mut receive: impl FnMut(String) -> bool) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while let Ok(1..) = from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        if !receive(text) {
            return;
        }
    }
}

/// Keeps the last lines; more are always welcome.
fn keep(kept: &Mutex<VecDeque<String>>, line: String) -> bool {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.push_back(line);
    if kept.len() > KEPT_LINES {
        kept.pop_front();
    }
    true
}
