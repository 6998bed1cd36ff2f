//! A request's vectors as they come together.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dyad_proto::admission::Admitted;
use tokio::sync::oneshot;

use super::error::EncodeError;
use super::passages::LateRows;
use super::request::keep_leading;

/// Vectors of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedReply {
    /// Row-major, one row of `dim` values per text in the order of the texts, each of unit length.
    pub vectors: Vec<f32>,
    /// Values per row: the model's, or the `dimensions` that were asked for.
    pub dim: usize,
    /// Tokens per text after truncation, special tokens included.
    pub tokens: Vec<u32>,
    /// Tokens of the windows of documents in which the texts were read.
    pub document_tokens: u64,
    /// Fingerprint of the model that made the vectors, with the prompt of the request.
    pub fingerprint: Arc<str>,
    /// Numbers of the texts that were truncated at the model's longest input, ascending.
    pub truncated: Vec<u32>,
    /// Waiting for admission, a tokenizer thread and the model, in microseconds.
    pub queue_us: u64,
    /// Tokenizing, in microseconds.
    pub tokenize_us: u64,
    /// Forward passes of the batches that this request was in, in microseconds, summed also where batches were computed
    /// at once.
    pub embed_us: u64,
}

/// The reply to a request.
pub(crate) type ReplyOutcome = Result<EncodedReply, EncodeError>;

/// Whoever waits for a reply.
#[derive(Debug)]
pub(crate) enum Receiver {
    Task(oneshot::Sender<ReplyOutcome>),
    Thread(SyncSender<ReplyOutcome>),
}

#[derive(Debug)]
struct Assembly {
    encoded: EncodedReply,
    late: Option<LateRows>,
    missing: usize,
    queued: Instant,
    started: bool,
    receiver: Receiver,
    /// The request's share of the queue, given back just before the reply; a probe has none.
    permit: Option<Admitted>,
}

/// A reply under way; empty once it is sent.
#[derive(Debug)]
pub(crate) struct PendingReply(Mutex<Option<Assembly>>);

impl PendingReply {
    /// A reply that lacks all its vectors. `encoded` holds tokens and timings so far.
    pub(crate) fn new(
        encoded: EncodedReply,
        late: Option<LateRows>,
        queued: Instant,
        receiver: Receiver,
        permit: Option<Admitted>,
    ) -> Self {
        let missing = encoded.vectors.len() / encoded.dim.max(1);
        Self(Mutex::new(Some(Assembly {
            encoded,
            late,
            missing,
            queued,
            started: false,
            receiver,
            permit,
        })))
    }

    /// Whether the caller is gone.
    pub(crate) fn is_gone(&self) -> bool {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            None => true,
            Some(Assembly {
                receiver: Receiver::Task(sender),
                ..
            }) => sender.is_closed(),
            Some(Assembly {
                receiver: Receiver::Thread(_),
                ..
            }) => false,
        }
    }

    /// Notes that a batch with rows of this request begins: the first one ends its time in the queue.
    pub(crate) fn begin(&self, now: Instant) {
        if let Some(assembly) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)
            && !assembly.started
        {
            assembly.started = true;
            assembly.encoded.queue_us += micros(now.saturating_duration_since(assembly.queued));
        }
    }

    /// Adds the time of a batch with rows of this request.
    pub(crate) fn spent(&self, forward: Duration) {
        if let Some(assembly) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            assembly.encoded.embed_us += micros(forward);
        }
    }

    /// Puts a row, or what is asked of it, into its place and sends the reply with the last one.
    pub(crate) fn fill(&self, position: usize, row: &[f32]) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(assembly) = &mut *slot else { return };
        let start = position * assembly.encoded.dim;
        let end = start + assembly.encoded.dim;
        if let Some(place) = assembly.encoded.vectors.get_mut(start..end) {
            keep_leading(row, place);
        }
        assembly.missing = assembly.missing.saturating_sub(1);
        if assembly.missing == 0
            && let Some(mut assembly) = slot.take()
        {
            drop(slot);
            if let Some(late) = &assembly.late {
                let EncodedReply { vectors, dim, .. } = &mut assembly.encoded;
                late.add_to(vectors, *dim);
            }
            drop(assembly.permit);
            assembly.receiver.send(Ok(assembly.encoded));
        }
    }

    /// Reports that the deadline has passed, unless the reply is sent already.
    pub(crate) fn expire(&self) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(assembly) = slot.take() {
            let waited_ms = u64::try_from(assembly.queued.elapsed().as_millis()).unwrap_or(u64::MAX);
            drop(assembly.permit);
            assembly.receiver.send(Err(EncodeError::Deadline { waited_ms }));
        }
    }

    /// Sends an error, unless the reply is sent already.
    pub(crate) fn fail(&self, error: EncodeError) {
        if let Some(assembly) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            drop(assembly.permit);
            assembly.receiver.send(Err(error));
        }
    }
}

impl Receiver {
    /// Sends the outcome; a receiver that went away has no use for it.
    pub(crate) fn send(self, outcome: ReplyOutcome) {
        match self {
            Self::Task(sender) => drop(sender.send(outcome)),
            Self::Thread(sender) => drop(sender.try_send(outcome)),
        }
    }
}

/// Whole microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
