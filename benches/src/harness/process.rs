//! A worker process: started, asked with a deadline, killed by its id.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dyad_command::Cancellation;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{Error, Result, check};

/// Lines of stderr (and of chatter on stdout) that are kept for an error message.
const KEPT_LINES: usize = 12;
/// Longest line; an engine describes itself in far less.
const MAX_LINE: u64 = 1 << 20;
/// Between two looks at the cancellation.
const TICK: Duration = Duration::from_millis(50);
/// For a worker that was asked to end.
const QUIT: Duration = Duration::from_secs(5);

/// A request of a protocol, which goes over as a JSON object.
pub trait Request: Serialize {
    /// Its name on the wire; a worker ends after `quit`.
    fn op(&self) -> &'static str;
}

/// A running worker.
#[derive(Debug)]
pub struct Worker {
    engine: String,
    child: Child,
    stdin: Option<ChildStdin>,
    replies: Receiver<String>,
    stderr: Arc<Mutex<VecDeque<String>>>,
    /// Reads stderr, and ends with it.
    listener: Option<JoinHandle<()>>,
    cancel: Cancellation,
    gone: bool,
}

impl Worker {
    /// Starts a worker in a process group of its own, so that Ctrl-C reaches only the harness, which then ends it.
    pub fn start(engine: &str, mut command: Command, cancel: Cancellation) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|source| Error::Start {
            engine: engine.to_owned(),
            program: command.get_program().to_string_lossy().into_owned(),
            source,
            hint: "Peers need a Python environment with their packages (--python)",
        })?;
        let (sender, replies) = sync_channel(4);
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(out) = child.stdout.take() {
            let kept = Arc::clone(&stderr);
            thread::spawn(move || {
                each_line(out, |line| {
                    // A library that prints to stdout says nothing of the protocol.
                    if line.starts_with('{') {
                        return sender.send(line).is_ok();
                    }
                    keep(&kept, line);
                    true
                });
            });
        }
        let listener = child.stderr.take().map(|errors| {
            let kept = Arc::clone(&stderr);
            thread::spawn(move || {
                each_line(errors, |line| {
                    keep(&kept, line);
                    true
                });
            })
        });
        let stdin = child.stdin.take();
        Ok(Self { engine: engine.to_owned(), child, stdin, replies, stderr, listener, cancel, gone: false })
    }

    /// The engine's name.
    pub fn engine(&self) -> &str {
        &self.engine
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request and waits for its reply. A worker that is late, gone or garbled is killed and stays so.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &impl Request, deadline: Duration) -> Result<T> {
        let op = request.op();
        let line = self.exchange(request, op, deadline).inspect_err(|_| self.kill())?;
        let reply = |expected: &str| Error::Reply {
            engine: self.engine.clone(),
            op,
            expected: expected.to_owned(),
            got: line.trim().chars().take(200).collect(),
        };
        let Ok(value) = serde_json::from_str::<Value>(&line) else {
            let error = reply("one JSON object");
            self.kill();
            return Err(error);
        };
        if let Some(message) = value.get("error") {
            let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
            return Err(Error::Refused { engine: self.engine.clone(), op, message });
        }
        let parsed = serde_json::from_value(value);
        let parsed = parsed.map_err(|error| reply(&format!("the fields of the protocol ({error})")));
        if parsed.is_err() {
            self.kill();
        }
        parsed
    }

    fn exchange(&mut self, request: &impl Request, op: &'static str, deadline: Duration) -> Result<String> {
        if self.gone {
            return Err(self.ended(op));
        }
        let mut line = serde_json::to_string(request).map_err(std::io::Error::from)?;
        line.push('\n');
        let sent = self.stdin.as_mut().map(|stdin| stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.ended(op));
        }
        let until = Instant::now() + deadline;
        loop {
            check(&self.cancel)?;
            let left = until.saturating_duration_since(Instant::now());
            match self.replies.recv_timeout(left.min(TICK)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended(op)),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    let (engine, seconds) = (self.engine.clone(), deadline.as_secs());
                    return Err(Error::Deadline { engine, op, seconds, stderr: self.last_words() });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Asks the worker to end, and kills it if it does not.
    pub fn quit(mut self) {
        if let Some(mut stdin) = self.stdin.take() {
            let _ = stdin.write_all(b"{\"op\":\"quit\"}\n");
        }
        let until = Instant::now() + QUIT;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn ended(&mut self, op: &'static str) -> Error {
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
        Error::Ended { engine: self.engine.clone(), op, status, stderr: self.last_words() }
    }

    /// What it wrote to stderr last, to follow a message.
    fn last_words(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_empty() {
            return String::new();
        }
        let lines: Vec<&str> = kept.iter().map(String::as_str).collect();
        format!(". It said:\n{}", lines.join("\n"))
    }

    fn kill(&mut self) {
        // Fails only where the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.gone = true;
    }
}

impl Drop for Worker {
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

fn keep(kept: &Mutex<VecDeque<String>>, line: String) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.push_back(line);
    if kept.len() > KEPT_LINES {
        kept.pop_front();
    }
}
