//! Start a model and embed texts with it, from many tasks and threads.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use tokio::sync::{oneshot, watch};

use super::admission::{Admission, Permit, at_most};
use super::backend::Backend;
use super::queue::Request;
use super::reply::{EncodeError, Encoded, Outcome, Receiver, Reply, micros};
use crate::bundle::{Encoder, ModelInfo};
use crate::device::Compute;
use crate::error::Error;
use crate::tokenize::{Budget, Tokenizer, Tokens};
use crate::tower::Tower;

/// How long a thread sleeps between two tries to be admitted.
const RETRY: Duration = Duration::from_millis(2);

/// How a served model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Device, dtype, threads.
    pub compute: Compute,
    /// Size of a batch.
    pub budget: Budget,
    /// Tokens that may wait or be under way; what comes on top is refused.
    pub queue_tokens: u32,
}

impl Options {
    /// Defaults for a device.
    pub fn new(compute: Compute) -> Self {
        Self { compute, budget: Budget::of(compute.device), queue_tokens: 1 << 20 }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new(Compute::default())
    }
}

/// A running model. Clones share it; dropping the last one waits for the batch that the model is at and ends it.
#[derive(Debug, Clone)]
pub struct Handle {
    running: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    info: ModelInfo,
    tokenizer: Arc<Tokenizer>,
    admission: Admission,
    backend: Arc<Backend>,
    splitters: rayon::ThreadPool,
    /// Its sender lives on the model's thread.
    alive: watch::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Opens a model on a thread of its own and embeds a first text, so that the first caller does not wait for it.
    pub fn start(directory: &Path, options: Options) -> Result<Self, Error> {
        let admission = Admission::new(options.queue_tokens);
        let backend = Arc::new(Backend::new(admission.clone()));
        let (opened, opening) = mpsc::sync_channel(1);
        let (life, alive) = watch::channel(());
        let thread = {
            let (directory, backend) = (directory.to_owned(), Arc::clone(&backend));
            std::thread::Builder::new()
                .name("dyad-model".into())
                .spawn(move || {
                    let _life = life;
                    let encoder = match open_warm(&directory, &options.compute) {
                        Ok(encoder) => encoder,
                        Err(error) => return drop(opened.send(Err(error))),
                    };
                    if opened.send(Ok((encoder.info().clone(), encoder.tokenizer()))).is_ok() {
                        let _stop = StopOnExit(&backend);
                        backend.run(&encoder, options.budget);
                    }
                })
                .map_err(|source| Error::Thread { name: "dyad-model", source })?
        };
        let (info, tokenizer) = opening.recv().map_err(|_| Error::ThreadLost)??;
        let splitters = rayon::ThreadPoolBuilder::new()
            .thread_name(|number| format!("dyad-tokenize-{number}"))
            .build()
            .map_err(|error| Error::Thread { name: "dyad-tokenize", source: std::io::Error::other(error) })?;
        tracing::info!(
            model = %info.name, fingerprint = %info.fingerprint, dim = info.dim, max_tokens = info.max_tokens,
            device = %info.device, dtype = %info.dtype, "model is ready"
        );
        let running = Running { info, tokenizer, admission, backend, splitters, alive, thread: Some(thread) };
        Ok(Self { running: Arc::new(running) })
    }

    /// The model that runs.
    pub fn info(&self) -> &ModelInfo {
        &self.running.info
    }

    /// Embeds texts as they are (a document's passage is joined by the caller); refuses at once where the queue is full.
    ///
    /// Dropping the future takes the request out of the queue.
    pub async fn encode(&self, tower: Tower, texts: Vec<String>, deadline: Instant) -> Result<Encoded, EncodeError> {
        let came = Instant::now();
        let cost = self.check(tower, &texts)?;
        let permit = self.running.admission.try_admit(cost)?;
        self.submit(tower, texts, deadline, came, permit).await
    }

    /// As [`Handle::encode`], but waits for room in the queue: for bulk callers that can be slowed down.
    pub async fn encode_patiently(
        &self,
        tower: Tower,
        texts: Vec<String>,
        deadline: Instant,
    ) -> Result<Encoded, EncodeError> {
        let came = Instant::now();
        let cost = self.check(tower, &texts)?;
        let permit = tokio::time::timeout_at(deadline.into(), self.running.admission.admit(cost))
            .await
            .map_err(|_| late(came))??;
        self.submit(tower, texts, deadline, came, permit).await
    }

    /// As [`Handle::encode_patiently`], for callers without a runtime. Must not be called from a task.
    pub fn encode_blocking(&self, tower: Tower, texts: Vec<String>, deadline: Instant) -> Result<Encoded, EncodeError> {
        let came = Instant::now();
        let cost = self.check(tower, &texts)?;
        let permit = loop {
            match self.running.admission.try_admit(cost) {
                Err(EncodeError::QueueFull { .. }) if Instant::now() < deadline => std::thread::sleep(RETRY),
                Err(EncodeError::QueueFull { .. }) => return Err(late(came)),
                other => break other?,
            }
        };
        let (sender, receiver) = mpsc::sync_channel(1);
        self.enqueue(tower, texts, deadline, came, (Receiver::Thread(sender), permit));
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(outcome) => outcome,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(late(came)),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(EncodeError::Stopped),
        }
    }

    /// Completes when the model's thread has ended, for whatever reason.
    pub async fn ended(&self) {
        let mut alive = self.running.alive.clone();
        while alive.changed().await.is_ok() {}
    }

    /// Whether the model's thread has ended.
    pub fn has_ended(&self) -> bool {
        self.running.alive.has_changed().is_err()
    }

    fn check(&self, tower: Tower, texts: &[String]) -> Result<usize, EncodeError> {
        if texts.is_empty() {
            return Err(EncodeError::NoTexts);
        }
        if let Some(position) = texts.iter().position(|text| text.trim().is_empty()) {
            return Err(EncodeError::EmptyText { position });
        }
        let prompt_bytes = self.running.tokenizer.prompt(tower).text.len();
        Ok(at_most(texts, prompt_bytes, self.running.info.max_tokens))
    }

    async fn submit(
        &self,
        tower: Tower,
        texts: Vec<String>,
        deadline: Instant,
        came: Instant,
        permit: Permit,
    ) -> Outcome {
        let (sender, receiver) = oneshot::channel();
        self.enqueue(tower, texts, deadline, came, (Receiver::Task(sender), permit));
        match tokio::time::timeout_at(deadline.into(), receiver).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(EncodeError::Stopped),
            Err(_) => Err(late(came)),
        }
    }

    /// Tokenizes on the pool, then queues.
    fn enqueue(
        &self,
        tower: Tower,
        texts: Vec<String>,
        deadline: Instant,
        came: Instant,
        (receiver, mut permit): (Receiver, Permit),
    ) {
        let (tokenizer, backend) = (Arc::clone(&self.running.tokenizer), Arc::clone(&self.running.backend));
        let dim = self.running.info.dim;
        self.running.splitters.spawn(move || {
            let started = Instant::now();
            let split = |text: String| {
                if Instant::now() >= deadline {
                    return Err(late(came));
                }
                tokenizer.encode(tower, &text).map_err(|error| EncodeError::Model(Arc::new(error)))
            };
            let texts: Vec<Tokens> = match texts.into_par_iter().map(split).collect() {
                Ok(texts) => texts,
                Err(error) => return receiver.send(Err(error)),
            };
            let tokens: Vec<u32> = texts.iter().map(|text| text.ids.len() as u32).collect();
            permit.shrink(tokens.iter().map(|&count| count as usize).sum());
            let queued = Instant::now();
            let encoded = Encoded {
                vectors: vec![0.0; texts.len() * dim],
                dim,
                tokens,
                truncated: texts.iter().filter(|text| text.truncated).count() as u32,
                queue_us: micros(started.saturating_duration_since(came)),
                tokenize_us: micros(queued.saturating_duration_since(started)),
                embed_us: 0,
            };
            let reply = Arc::new(Reply::new(encoded, queued, receiver, permit));
            backend.push(Request { tower, texts, deadline, reply });
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.backend.stop();
        // libtorch must not run on while the process tears its globals down.
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the model's thread panicked");
        }
    }
}

/// Tells everyone when the model's thread ends, by a panic too.
struct StopOnExit<'a>(&'a Backend);

impl Drop for StopOnExit<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn open_warm(directory: &Path, compute: &Compute) -> Result<Encoder, Error> {
    let encoder = Encoder::open(directory, compute)?;
    let text = encoder.tokenizer().encode(Tower::Answer, "warm up")?;
    encoder.embed(Tower::Answer, &[&text])?;
    Ok(encoder)
}

fn late(came: Instant) -> EncodeError {
    EncodeError::Deadline { waited_ms: u64::try_from(came.elapsed().as_millis()).unwrap_or(u64::MAX) }
}
