//! Start a model, and embed texts or score pairs with it, from many tasks and threads.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dyad_proto::service::{CallObserver, Security};
use tokio::sync::{Mutex, oneshot, watch};

use super::admission::EncodeAdmission;
use super::backend::ModelBackend;
use super::error::{EncodeError, NotReady, late};
use super::metrics::EncoderMetrics;
use super::reply::{EncodedReply, ReplyOutcome};
use super::request::{EncodeOptions, Input};
use super::served::{OpenedModel, ServedModel};
use crate::config::PromptOptions;
use crate::config::Tower;
use crate::device::Compute;
use crate::error::Error;
use crate::model::{ModelInfo, ScoreActivation};
use crate::tokenize::Budget;

/// How long a thread sleeps between two tries to be admitted.
const RETRY: Duration = Duration::from_millis(2);

/// How a served model runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedModelOptions {
    /// Device, dtype, threads.
    pub compute: Compute,
    /// Size of a batch.
    pub budget: Budget,
    /// Tokens that may wait or be under way; what comes on top is refused.
    pub queue_tokens: u32,
    /// Prompts in place of those of the model's files.
    pub prompts: PromptOptions,
}

impl ServedModelOptions {
    /// Defaults for a device.
    pub fn new(compute: Compute) -> Self {
        Self {
            compute,
            budget: Budget::of(compute.device, compute.dtype),
            queue_tokens: 1 << 20,
            prompts: PromptOptions::default(),
        }
    }
}

impl Default for ServedModelOptions {
    fn default() -> Self {
        Self::new(Compute::default())
    }
}

/// A running model. Clones share it; dropping the last one waits for the batches that the model is at and ends it.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(super) running: Arc<RunningModel>,
}

#[derive(Debug)]
pub(super) struct RunningModel {
    pub(super) opened: OpenedModel,
    pub(super) admission: EncodeAdmission,
    pub(super) backend: Arc<ModelBackend>,
    metrics: Arc<EncoderMetrics>,
    /// The last answer to whether the model works, and when it was given.
    pub(super) last_probe: Mutex<Option<(Instant, Result<(), NotReady>)>>,
    pub(super) splitters: rayon::ThreadPool,
    /// Its sender lives on the model's first thread, which ends after the others.
    alive: watch::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Opens a model of either kind on a thread of its own and runs it once, so that the first caller does not wait for
    /// it.
    pub fn start(directory: &Path, options: ServedModelOptions) -> Result<Self, Error> {
        let admission = EncodeAdmission::new(options.queue_tokens);
        let metrics = Arc::new(EncoderMetrics::new());
        let backend = Arc::new(ModelBackend::new(
            admission.clone(),
            options.budget,
            Arc::clone(&metrics),
        ));
        let (opened, opening) = mpsc::sync_channel(1);
        let (life, alive) = watch::channel(());
        let thread = {
            let (directory, backend) = (directory.to_owned(), Arc::clone(&backend));
            std::thread::Builder::new()
                .name("dyad-model".into())
                .spawn(move || {
                    let _life = life;
                    let model = match ServedModel::open_warm(&directory, &options.compute, &options.prompts) {
                        Ok(model) => model,
                        Err(error) => return drop(opened.send(Err(error))),
                    };
                    if opened.send(Ok(model.opened())).is_ok() {
                        backend.run(&model.runner());
                    }
                })
                .map_err(|source| Error::Thread {
                    name: "dyad-model",
                    source,
                })?
        };
        let opened = opening.recv().map_err(|_| Error::ThreadLost)??;
        let info = &opened.info;
        let splitters = rayon::ThreadPoolBuilder::new()
            .thread_name(|number| format!("dyad-tokenize-{number}"))
            // The caller is told by the channel that the panic closes; without a handler the process would end.
            .panic_handler(|_| tracing::error!("a tokenizer thread panicked at one request"))
            .build()
            .map_err(|error| Error::Thread {
                name: "dyad-tokenize",
                source: std::io::Error::other(error),
            })?;
        tracing::info!(
            model = %info.name, fingerprint = %info.fingerprint, dim = info.dim, max_tokens = info.max_tokens,
            device = %info.device, dtype = %info.dtype, "model is ready"
        );
        metrics.describe(info);
        let (last_probe, thread) = (Mutex::default(), Some(thread));
        let running = RunningModel {
            opened,
            admission,
            backend,
            metrics,
            last_probe,
            splitters,
            alive,
            thread,
        };
        Ok(Self {
            running: Arc::new(running),
        })
    }

    /// The model that runs.
    pub fn info(&self) -> &ModelInfo {
        &self.running.opened.info
    }

    /// What a cross encoder makes of a logit.
    pub(crate) fn activation(&self) -> ScoreActivation {
        self.running.opened.activation
    }

    /// Embeds texts or token ids; refuses at once where the queue is full, or too long for the deadline.
    ///
    /// Dropping the future takes the request out of the queue.
    pub async fn encode(
        &self,
        tower: Tower,
        input: impl Into<Input>,
        options: EncodeOptions,
    ) -> Result<EncodedReply, EncodeError> {
        let input = input.into();
        let outcome = async {
            let job = self.job(tower, input, options)?;
            let permit = self.running.admission.try_admit(job.cost)?;
            // Before it is tokenized: a text has one token at least.
            self.running.backend.in_time(job.texts(), job.options.deadline)?;
            self.submit(job, permit, ModelBackend::offer).await
        };
        self.counted(tower, outcome.await)
    }

    /// Scores texts for a query by a cross encoder: logits where they are asked for `raw`, else what the model makes of
    /// them. Refuses as [`Handle::encode`] does.
    pub async fn score(
        &self,
        query: String,
        texts: Vec<String>,
        raw: bool,
        options: EncodeOptions,
    ) -> Result<EncodedReply, EncodeError> {
        let mut scored = self
            .encode(Tower::Answer, Input::Pairs { query, texts }, options)
            .await?;
        if !raw {
            let activation = self.activation();
            scored
                .vectors
                .iter_mut()
                .for_each(|score| *score = activation.of(*score));
        }
        Ok(scored)
    }

    /// As [`Handle::encode`], but waits for room in the queue: for bulk callers that can be slowed down.
    pub async fn encode_patiently(
        &self,
        tower: Tower,
        input: impl Into<Input>,
        options: EncodeOptions,
    ) -> Result<EncodedReply, EncodeError> {
        let input = input.into();
        let outcome = async {
            let job = self.job(tower, input, options)?;
            let permit = match self.running.admission.admit(job.cost, job.options.deadline).await {
                Err(EncodeError::QueueFull { .. }) => return Err(job.late()),
                admitted => admitted?,
            };
            self.submit(job, permit, ModelBackend::push).await
        };
        self.counted(tower, outcome.await)
    }

    /// As [`Handle::encode_patiently`], for callers without a runtime. Must not be called from a task.
    pub fn encode_blocking(
        &self,
        tower: Tower,
        input: impl Into<Input>,
        options: EncodeOptions,
    ) -> Result<EncodedReply, EncodeError> {
        let outcome = self.job(tower, input.into(), options).and_then(|job| {
            let permit = loop {
                match self.running.admission.try_admit(job.cost) {
                    Err(EncodeError::QueueFull { .. }) if Instant::now() < job.options.deadline => {
                        std::thread::sleep(RETRY);
                    }
                    Err(EncodeError::QueueFull { .. }) => return Err(job.late()),
                    other => break other?,
                }
            };
            self.submit_blocking(job, permit)
        });
        self.counted(tower, outcome)
    }

    /// Work that is not for the runtime's threads: runs on those that tokenize, unless the deadline passes before one
    /// of them is free, or the caller goes away.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EncodeError> {
        let came = Instant::now();
        let (sender, receiver) = oneshot::channel();
        self.running.splitters.spawn(move || {
            if !sender.is_closed() {
                drop(sender.send(work()));
            }
        });
        match tokio::time::timeout_at(deadline.into(), receiver).await {
            Ok(outcome) => outcome.map_err(|_| EncodeError::Stopped),
            Err(_) => Err(late(came)),
        }
    }

    pub(crate) fn metrics(&self) -> &EncoderMetrics {
        &self.running.metrics
    }

    /// What is told of a server's calls, so that they are in the metrics with its keys and TLS.
    pub fn observer(&self, security: &Security) -> Arc<dyn CallObserver> {
        self.running.metrics.secure(security);
        Arc::clone(&self.running.metrics) as Arc<dyn CallObserver>
    }

    /// The text of a scrape by Prometheus.
    pub(crate) fn scrape(&self) -> Result<String, std::fmt::Error> {
        self.running.metrics.text(self.running.admission.load())
    }

    /// Ends the model after the batches that it is at, for all who share it: what waits, and what comes, is refused.
    pub fn stop(&self) {
        self.running.backend.stop();
    }

    /// Completes when the model's threads have ended, for whatever reason.
    pub async fn ended(&self) {
        let mut alive = self.running.alive.clone();
        while alive.changed().await.is_ok() {}
    }

    /// Whether the model's threads have ended.
    pub fn has_ended(&self) -> bool {
        self.running.alive.has_changed().is_err()
    }

    fn counted(&self, tower: Tower, outcome: ReplyOutcome) -> ReplyOutcome {
        self.running.metrics.outcome(tower, &outcome);
        outcome
    }
}

impl Drop for RunningModel {
    fn drop(&mut self) {
        self.backend.stop();
        // libtorch must not run on while the process tears its globals down.
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the model's thread panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as StdMutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::serve::queue::QueuedRequest;
    use crate::serve::reply::{PendingReply, Receiver};
    use crate::serve::submit::blank;
    use crate::tokenize::Tokens;

    fn tiny() -> Handle {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny/plain");
        Handle::start(
            &model,
            ServedModelOptions::new(Compute {
                threads: Some(1),
                ..Compute::default()
            }),
        )
        .unwrap()
    }

    #[tokio::test]
    async fn what_is_late_is_told_so_and_not_embedded() {
        let handle = tiny();
        let texts = || {
            vec![Tokens {
                ids: vec![1, 2],
                ..Tokens::default()
            }]
        };
        let (sender, receiver) = oneshot::channel();
        let reply = Arc::new(PendingReply::new(
            blank(&texts(), &[], 8),
            None,
            Instant::now(),
            Receiver::Task(sender),
            None,
        ));
        handle.running.backend.push(QueuedRequest {
            tower: Tower::Answer,
            skipped: 0,
            texts: texts(),
            contexts: Vec::new(),
            deadline: Instant::now(),
            reply,
        });
        assert!(matches!(receiver.await.unwrap(), Err(EncodeError::Deadline { .. })));
        let passes = handle.scrape().unwrap();
        assert!(passes.contains("dyad_encoder_batch_seconds_count 0"), "{passes}");
    }

    /// Every way in waits for a tokenizer thread, and none for longer than its deadline.
    #[tokio::test]
    async fn no_one_waits_for_a_tokenizer_thread_beyond_the_deadline() {
        let handle = tiny();
        // All threads are taken until this sender is gone: one waits for it, the others for that one.
        let (held, until) = mpsc::channel::<()>();
        let until = Arc::new(StdMutex::new(until));
        for _ in 0..handle.running.splitters.current_num_threads() {
            let until = Arc::clone(&until);
            handle
                .running
                .splitters
                .spawn(move || assert!(until.lock().unwrap().recv().is_err()));
        }
        let soon = || Instant::now() + Duration::from_millis(50);
        let ran = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&ran);
        let late = handle
            .compute(soon(), move || mark.store(true, Ordering::Relaxed))
            .await;
        assert!(matches!(late, Err(EncodeError::Deadline { .. })), "{late:?}");
        let (tower, text) = (Tower::Answer, || vec!["the river".to_owned()]);
        let late = handle.encode(tower, text(), EncodeOptions::until(soon())).await;
        assert!(matches!(late, Err(EncodeError::Deadline { .. })), "{late:?}");
        let late = handle
            .encode_patiently(tower, text(), EncodeOptions::until(soon()))
            .await;
        assert!(matches!(late, Err(EncodeError::Deadline { .. })), "{late:?}");
        let late = handle.encode_blocking(tower, text(), EncodeOptions::until(soon()));
        assert!(matches!(late, Err(EncodeError::Deadline { .. })), "{late:?}");
        drop(held);
        // Requests without a waiting caller are dropped, and the next is served.
        assert_eq!(
            handle
                .compute(Instant::now() + Duration::from_mins(1), || 7)
                .await
                .unwrap(),
            7
        );
        let in_time = EncodeOptions::until(Instant::now() + Duration::from_mins(1));
        assert!(handle.encode(tower, text(), in_time).await.is_ok());
        assert!(!ran.load(Ordering::Relaxed));
    }
}
