//! The threads of the model: each takes batches from the queue, embeds them, hands the rows out.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::admission::EncodeAdmission;
use super::error::EncodeError;
use super::line::WaitingLine;
use super::metrics::EncoderMetrics;
use super::queue::{Cut, QueuedRequest, RequestQueue};
use super::reply::PendingReply;
use crate::config::Tower;
use crate::error::Error;
use crate::model::BatchRunner;
use crate::tokenize::{Budget, Tokens};

/// How often a thread looks up while nothing comes.
const IDLE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct BackendState {
    line: WaitingLine<Arc<PendingReply>>,
    open: bool,
}

/// State shared by callers and the model's threads.
#[derive(Debug)]
pub(crate) struct ModelBackend {
    state: Mutex<BackendState>,
    wake: Condvar,
    admission: EncodeAdmission,
    metrics: Arc<EncoderMetrics>,
}

impl ModelBackend {
    pub(crate) fn new(admission: EncodeAdmission, budget: Budget, metrics: Arc<EncoderMetrics>) -> Self {
        let state = Mutex::new(BackendState {
            line: WaitingLine::new(budget),
            open: true,
        });
        Self {
            state,
            wake: Condvar::new(),
            admission,
            metrics,
        }
    }

    /// Whether a request of at least this many tokens can be answered before its deadline.
    pub(crate) fn in_time(&self, tokens: usize, deadline: Instant) -> Result<(), EncodeError> {
        self.lock().line.in_time(tokens, deadline, Instant::now())
    }

    /// Queues a request if it can be answered in its time; if not, or once stopped, answers it at once.
    pub(crate) fn offer(&self, request: QueuedRequest<Arc<PendingReply>>) {
        let state = self.lock();
        match state.line.in_time(request.tokens(), request.deadline, Instant::now()) {
            Ok(()) => self.put(state, request, RequestQueue::push),
            Err(error) => {
                drop(state);
                request.reply.fail(error);
            }
        }
    }

    /// Queues a request; once stopped, answers it at once.
    pub(crate) fn push(&self, request: QueuedRequest<Arc<PendingReply>>) {
        self.put(self.lock(), request, RequestQueue::push);
    }

    /// As [`ModelBackend::push`], before all others.
    pub(crate) fn push_first(&self, request: QueuedRequest<Arc<PendingReply>>) {
        self.put(self.lock(), request, RequestQueue::push_first);
    }

    fn put(
        &self,
        mut state: MutexGuard<'_, BackendState>,
        request: QueuedRequest<Arc<PendingReply>>,
        put: impl FnOnce(&mut RequestQueue<Arc<PendingReply>>, QueuedRequest<Arc<PendingReply>>),
    ) {
        if state.open {
            put(state.line.queue(), request);
            self.wake.notify_one();
        } else {
            drop(state);
            request.reply.fail(EncodeError::Stopped);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BackendState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the threads end after the batches that they are at; everything that waits is told.
    pub(crate) fn stop(&self) {
        self.admission.close();
        let waiting = {
            let mut state = self.lock();
            state.open = false;
            state.line.queue().drain()
        };
        self.wake.notify_all();
        for reply in waiting {
            reply.fail(EncodeError::Stopped);
        }
    }

    /// Embeds or scores until stopped, on this thread and on one more for each other runner that the model may have,
    /// which end with it.
    ///
    /// With several batches at once, a request waits for one only where all runners have one, and the threads of a
    /// machine with many cores do not wait for each other in every kernel of a small batch.
    pub(crate) fn run(&self, runner: &BatchRunner) {
        let one = || {
            let runner = runner.clone();
            move |tower, skipped, texts: &[&Tokens]| runner.run(tower, skipped, texts)
        };
        self.run_all((0..runner.at_once()).map(|_| one()).collect(), runner.dim());
    }

    /// As [`ModelBackend::run`] by functions that make rows of `dim` values.
    fn run_all<F>(&self, runners: Vec<F>, dim: usize)
    where
        F: Fn(Tower, usize, &[&Tokens]) -> Result<Vec<f32>, Error> + Send,
    {
        self.lock().line.set_runners(runners.len());
        let work = |number: usize, run: F| {
            let _stop = StopOnExit(self);
            while let Some(cut) = self.next(number) {
                let embedded = embed(&run, dim, &cut, &self.metrics);
                self.lock().line.end(number, Instant::now(), embedded);
            }
        };
        std::thread::scope(|scope| {
            let mut runners = runners.into_iter().enumerate();
            let first = runners.next();
            for (number, run) in runners {
                let named = std::thread::Builder::new().name(format!("dyad-model-{number}"));
                if let Err(error) = named.spawn_scoped(scope, move || work(number, run)) {
                    tracing::warn!(threads = number, %error, "the system gives no more threads; going on with fewer");
                    self.lock().line.limit_runners(number);
                    break;
                }
            }
            if let Some((number, run)) = first {
                work(number, run);
            }
        });
    }

    /// Waits for the next batch of this runner; nothing once stopped.
    fn next(&self, number: usize) -> Option<Cut<Arc<PendingReply>>> {
        let mut state = self.lock();
        while state.open {
            let now = Instant::now();
            for dead in state.line.queue().drop_dead(now, |reply| reply.is_gone()) {
                dead.expire();
            }
            if let Some(cut) = state.line.begin(number, now) {
                if !state.line.queue().is_empty() {
                    self.wake.notify_one();
                }
                return Some(cut);
            }
            state = self
                .wake
                .wait_timeout(state, IDLE)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        None
    }
}

/// Notifies all callers when a thread of the model ends, also by a panic.
struct StopOnExit<'a>(&'a ModelBackend);

impl Drop for StopOnExit<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Embeds a batch by a function that makes rows of `dim` values. Whether it succeeded.
fn embed<F>(run: &F, dim: usize, cut: &Cut<Arc<PendingReply>>, metrics: &EncoderMetrics) -> bool
where
    F: Fn(Tower, usize, &[&Tokens]) -> Result<Vec<f32>, Error>,
{
    let started = Instant::now();
    // Pieces of one request need not lie side by side.
    let mut replies: Vec<&Arc<PendingReply>> = cut.pieces.iter().map(|piece| &piece.reply).collect();
    replies.sort_by_key(|reply| Arc::as_ptr(reply));
    replies.dedup_by(|a, b| Arc::ptr_eq(a, b));
    for reply in &replies {
        reply.begin(started);
    }
    let texts: Vec<&Tokens> = cut.pieces.iter().map(|piece| &piece.tokens).collect();
    match run(cut.tower, cut.skipped, &texts) {
        Ok(vectors) => {
            let spent = started.elapsed();
            metrics.batch(&texts, spent);
            for reply in &replies {
                reply.spent(spent);
            }
            let mut rows = vectors.chunks_exact(dim);
            for piece in &cut.pieces {
                for (number, row) in rows.by_ref().take(piece.tokens.vectors()).enumerate() {
                    piece.reply.fill(piece.position + number, row);
                }
            }
            true
        }
        Err(error) => {
            metrics.batch_failed();
            tracing::error!(%error, rows = texts.len(), "a batch failed");
            let error = Arc::new(error);
            for reply in &replies {
                reply.fail(EncodeError::Model(Arc::clone(&error)));
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::super::submit::blank;
    use super::*;
    use crate::serve::reply::{Receiver, ReplyOutcome};

    fn request(deadline: Duration) -> (QueuedRequest<Arc<PendingReply>>, oneshot::Receiver<ReplyOutcome>) {
        let (sender, receiver) = oneshot::channel();
        let texts = vec![Tokens {
            ids: vec![1; 10],
            ..Tokens::default()
        }];
        let reply = Arc::new(PendingReply::new(
            blank(&texts, &[], 4),
            None,
            Instant::now(),
            Receiver::Task(sender),
            None,
        ));
        (
            QueuedRequest {
                tower: Tower::Question,
                skipped: 0,
                texts,
                contexts: Vec::new(),
                deadline: Instant::now() + deadline,
                reply,
            },
            receiver,
        )
    }

    #[test]
    fn what_cannot_be_answered_in_time_is_told_so_at_once_and_the_patient_wait() {
        let backend = ModelBackend::new(EncodeAdmission::new(1000), Budget::CPU, Arc::new(EncoderMetrics::new()));
        let minute = Duration::from_mins(1);
        backend.lock().line.measure(1 << 20, 1, Duration::from_hours(1));
        // Idle: whatever was measured, the first is taken.
        let (first, mut answer) = request(minute);
        backend.offer(first);
        assert!(answer.try_recv().is_err(), "it waits");
        assert!(matches!(
            backend.in_time(1, Instant::now() + minute),
            Err(EncodeError::Overloaded { .. })
        ));
        let (refused, mut answer) = request(minute);
        backend.offer(refused);
        let error = answer.try_recv().unwrap().unwrap_err();
        assert!(matches!(error, EncodeError::Overloaded { ahead: 10, .. }), "{error}");
        assert_eq!(error.retry_after(), Some(minute), "no longer than that");
        let (patient, mut answer) = request(minute);
        backend.push(patient);
        assert!(answer.try_recv().is_err(), "it waits");
        assert_eq!(backend.next(0).unwrap().tokens(), 20);
        // While these are at the model no other request is taken either.
        let (refused, mut answer) = request(minute);
        backend.offer(refused);
        assert!(matches!(answer.try_recv(), Ok(Err(EncodeError::Overloaded { .. }))));
    }

    /// A backend with three runners whose batches are of one text, and the number of texts that each has had.
    fn with_runners(
        work: impl Fn(usize) + Sync,
        then: impl FnOnce(&ModelBackend, &[AtomicUsize]) + Send,
    ) -> std::thread::Result<()> {
        let budget = Budget { tokens: 10, rows: 1 };
        let backend = ModelBackend::new(EncodeAdmission::new(1000), budget, Arc::new(EncoderMetrics::new()));
        let texts = [0; 3].map(AtomicUsize::new);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            std::thread::scope(|scope| {
                let (backend, work, texts) = (&backend, &work, &texts);
                scope.spawn(move || then(backend, texts));
                let runner = |number: usize| {
                    move |_, _, batch: &[&Tokens]| {
                        texts[number].fetch_add(batch.len(), Ordering::Relaxed);
                        work(number);
                        Ok(vec![0.5; 4 * batch.len()])
                    }
                };
                backend.run_all((0..3).map(runner).collect(), 4);
            });
        }))
    }

    fn texts(count: usize) -> (QueuedRequest<Arc<PendingReply>>, oneshot::Receiver<ReplyOutcome>) {
        let (sender, receiver) = oneshot::channel();
        let texts = vec![
            Tokens {
                ids: vec![1; 10],
                ..Tokens::default()
            };
            count
        ];
        let reply = Arc::new(PendingReply::new(
            blank(&texts, &[], 4),
            None,
            Instant::now(),
            Receiver::Task(sender),
            None,
        ));
        let deadline = Instant::now() + Duration::from_mins(1);
        (
            QueuedRequest {
                tower: Tower::Question,
                skipped: 0,
                texts,
                contexts: Vec::new(),
                deadline,
                reply,
            },
            receiver,
        )
    }

    /// One request wakes one runner, and what it leaves the others, at once: three texts that wait for each other.
    #[test]
    fn the_texts_of_a_request_are_embedded_by_all_runners() {
        let all = Barrier::new(3);
        let met = |_| {
            all.wait();
        };
        with_runners(met, |backend, texts_of| {
            let (request, answer) = texts(3);
            backend.push(request);
            let begun = Instant::now();
            assert_eq!(answer.blocking_recv().unwrap().unwrap().vectors, [0.5; 12]);
            assert!(texts_of.iter().all(|texts| texts.load(Ordering::Relaxed) == 1));
            assert!(begun.elapsed() < IDLE, "nobody had to look up by himself");
            backend.stop();
        })
        .unwrap();
    }

    #[test]
    fn a_runner_that_panics_ends_all_and_everybody_is_told() {
        let all = Barrier::new(3);
        let calls = AtomicUsize::new(0);
        let panics = |number| {
            if calls.fetch_add(1, Ordering::Relaxed) < 3 {
                all.wait();
            }
            assert_ne!(number, 1, "one of three");
        };
        let ended = with_runners(panics, |backend, _| {
            let (first, answer) = texts(3);
            let (waiting, unanswered) = texts(1);
            backend.push(first);
            backend.push(waiting);
            assert!(matches!(answer.blocking_recv(), Err(_) | Ok(Err(_))));
            assert!(matches!(unanswered.blocking_recv(), Err(_) | Ok(Err(_))));
            let (late, refused) = texts(1);
            backend.push(late);
            assert!(matches!(refused.blocking_recv(), Ok(Err(EncodeError::Stopped))));
        });
        assert!(ended.is_err());
    }
}
