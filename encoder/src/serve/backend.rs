//! The thread that owns the model: takes batches from the queue, embeds them, hands the rows out.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::admission::Admission;
use super::metrics::Metrics;
use super::queue::{Cut, Queue, Request};
use super::reply::{EncodeError, Reply};
use crate::bundle::Encoder;
use crate::tokenize::{Budget, Tokens};

/// How often the thread looks up while nothing comes.
const IDLE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct State {
    queue: Queue<Arc<Reply>>,
    open: bool,
}

/// What callers and the model's thread share.
#[derive(Debug)]
pub(crate) struct Backend {
    state: Mutex<State>,
    wake: Condvar,
    admission: Admission,
    metrics: Arc<Metrics>,
}

impl Backend {
    pub(crate) fn new(admission: Admission, metrics: Arc<Metrics>) -> Self {
        let state = Mutex::new(State { queue: Queue::new(), open: true });
        Self { state, wake: Condvar::new(), admission, metrics }
    }

    /// Queues a request; once stopped, answers it at once.
    pub(crate) fn push(&self, request: Request<Arc<Reply>>) {
        self.put(request, Queue::push);
    }

    /// As [`Backend::push`], before all others.
    pub(crate) fn push_first(&self, request: Request<Arc<Reply>>) {
        self.put(request, Queue::push_first);
    }

    fn put(&self, request: Request<Arc<Reply>>, put: impl FnOnce(&mut Queue<Arc<Reply>>, Request<Arc<Reply>>)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.open {
            put(&mut state.queue, request);
            self.wake.notify_one();
        } else {
            request.reply.fail(EncodeError::Stopped);
        }
    }

    /// Lets the thread end after the batch it is at; everything that waits is told.
    pub(crate) fn stop(&self) {
        self.admission.close();
        let waiting = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.open = false;
            state.queue.drain()
        };
        self.wake.notify_all();
        for reply in waiting {
            reply.fail(EncodeError::Stopped);
        }
    }

    /// Embeds until stopped.
    pub(crate) fn run(&self, encoder: &Encoder, budget: Budget) {
        while let Some(cut) = self.next(budget) {
            embed(encoder, &cut, &self.metrics);
        }
    }

    /// Waits for the next batch; nothing once stopped.
    fn next(&self, budget: Budget) -> Option<Cut<Arc<Reply>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.open {
            for dead in state.queue.drop_dead(Instant::now(), |reply| reply.is_gone()) {
                dead.expire();
            }
            if let Some(cut) = state.queue.cut(budget) {
                return Some(cut);
            }
            state = self.wake.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }
}

fn embed(encoder: &Encoder, cut: &Cut<Arc<Reply>>, metrics: &Metrics) {
    let started = Instant::now();
    // Pieces of one request need not lie side by side.
    let mut replies: Vec<&Arc<Reply>> = cut.pieces.iter().map(|piece| &piece.reply).collect();
    replies.sort_by_key(|reply| Arc::as_ptr(reply));
    replies.dedup_by(|a, b| Arc::ptr_eq(a, b));
    for reply in &replies {
        reply.begin(started);
    }
    let texts: Vec<&Tokens> = cut.pieces.iter().map(|piece| &piece.tokens).collect();
    match encoder.embed(cut.tower, &texts) {
        Ok(vectors) => {
            let spent = started.elapsed();
            metrics.batch(&texts, spent);
            for reply in &replies {
                reply.spent(spent);
            }
            for (piece, row) in cut.pieces.iter().zip(vectors.chunks_exact(encoder.info().dim)) {
                piece.reply.fill(piece.position, row);
            }
        }
        Err(error) => {
            metrics.batch_failed();
            tracing::error!(%error, rows = texts.len(), "a batch failed");
            let error = Arc::new(error);
            for reply in &replies {
                reply.fail(EncodeError::Model(Arc::clone(&error)));
            }
        }
    }
}
