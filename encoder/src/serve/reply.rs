//! A request's vectors as they come together, and the ways in which they may not.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::admission::Permit;
use super::request::keep_leading;
use crate::error::Error;

/// Vectors of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded {
    /// Row-major, one row of `dim` values per text in the order of the texts, each of unit length.
    pub vectors: Vec<f32>,
    /// Values per row: the model's, or the `dimensions` that were asked for.
    pub dim: usize,
    /// Tokens per text after truncation, special tokens included.
    pub tokens: Vec<u32>,
    /// Texts that were cut at the model's longest input.
    pub truncated: u32,
    /// Waiting for admission, a tokenizer thread and the model, in microseconds.
    pub queue_us: u64,
    /// Tokenizing, in microseconds.
    pub tokenize_us: u64,
    /// Forward passes of the batches that this request was in, in microseconds.
    pub embed_us: u64,
}

/// Why texts were not embedded.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Nothing to embed.
    #[error("`texts` is empty. Send at least one text")]
    NoTexts,
    /// A text without a visible character.
    #[error("`texts[{position}]` is empty. Leave it out or send its title")]
    EmptyText {
        /// Its place in the request.
        position: usize,
    },
    /// A text is longer than the model reads, and was not to be cut.
    #[error("`texts[{position}]` has {}{tokens} tokens, the model reads {limit}. Shorten it, or let it be truncated", more_than(*more))]
    TooLong {
        /// Its place in the request.
        position: usize,
        /// Its tokens, prompt and special tokens included; of a text of more than 64 KiB those of its beginning.
        tokens: usize,
        /// Whether it has more than those.
        more: bool,
        /// The model's longest input.
        limit: usize,
    },
    /// A token id that the tokenizer does not have.
    #[error(
        "`texts[{position}][{place}]` is token id {id}, the vocabulary has {vocabulary} tokens. Use the model's own tokenizer, or send text"
    )]
    UnknownToken {
        /// Place of the text in the request.
        position: usize,
        /// Place of the id in the text.
        place: usize,
        /// The id.
        id: u32,
        /// Tokens of the vocabulary.
        vocabulary: usize,
    },
    /// A special token at an end of a text, where one is put anyway.
    #[error(
        "`texts[{position}][{place}]` is the special token `{token}` ({id}), which is put there anyway. Tokenize with `add_special_tokens=False`"
    )]
    SpecialToken {
        /// Place of the text in the request.
        position: usize,
        /// Place of the id in the text.
        place: usize,
        /// The id.
        id: u32,
        /// The token.
        token: String,
    },
    /// Vectors cannot have so many values.
    #[error("`dimensions` must be 1 to {dim}, the values of the model's vectors, got: {asked}")]
    Dimensions {
        /// As asked.
        asked: usize,
        /// The model's.
        dim: usize,
    },
    /// More waits already than may.
    #[error(
        "the queue is full: {waiting} tokens wait, {needed} more would pass the limit of {limit}. Try again later with back-off, send fewer texts at once, or raise `--queue-tokens`"
    )]
    QueueFull {
        /// Tokens that the request can have at most.
        needed: usize,
        /// Tokens admitted and not answered.
        waiting: usize,
        /// The limit.
        limit: usize,
    },
    /// What is embedded first takes longer than the request has.
    #[error(
        "the model is too busy to answer in time: {ahead} tokens come first, which takes about {} ms, and {} ms are left. Try again in {} ms, allow more time, or add encoders",
        wait.as_millis(), left.as_millis(), retry_after(*wait, *left).as_millis()
    )]
    Overloaded {
        /// Tokens that are embedded first.
        ahead: usize,
        /// Until an answer, by the rate of recent batches and with a margin.
        wait: Duration,
        /// Until the deadline.
        left: Duration,
    },
    /// The request alone is larger than the queue.
    #[error(
        "the request can have {needed} tokens, the queue holds {limit}. Send fewer texts at once, or raise `--queue-tokens`"
    )]
    TooLarge {
        /// Tokens that the request can have at most.
        needed: usize,
        /// The limit.
        limit: usize,
    },
    /// The deadline passed first.
    #[error("the deadline passed after {waited_ms} ms. Allow more time, send fewer texts at once, or add encoders")]
    Deadline {
        /// Time since the request came.
        waited_ms: u64,
    },
    /// The thread that owns the model has ended.
    #[error("the model has stopped. Start the process again; its log says why")]
    Stopped,
    /// The tokenizer or the network failed.
    #[error("{0}")]
    Model(Arc<Error>),
}

impl EncodeError {
    /// When another try may succeed, where the queue is at fault.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::QueueFull { .. } => Some(FULL),
            Self::Overloaded { wait, left, .. } => Some(retry_after(*wait, *left)),
            _ => None,
        }
    }

    /// One word for metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NoTexts | Self::EmptyText { .. } => "empty",
            Self::TooLong { .. } => "too_long",
            Self::UnknownToken { .. } | Self::SpecialToken { .. } => "token_id",
            Self::Dimensions { .. } => "dimensions",
            Self::QueueFull { .. } => "queue_full",
            Self::Overloaded { .. } => "overloaded",
            Self::TooLarge { .. } => "too_large",
            Self::Deadline { .. } => "deadline",
            Self::Stopped => "stopped",
            Self::Model(error) => match &**error {
                Error::Tokenize { .. } => "tokenize",
                _ => "model",
            },
        }
    }
}

/// Before a count that is not all.
pub(crate) fn more_than(more: bool) -> &'static str {
    if more { "more than " } else { "" }
}

/// A queue of the default size is worked off in some seconds; whoever comes again sooner finds it as full.
const FULL: Duration = Duration::from_secs(1);

/// Until the queue is short enough, if nobody else comes.
fn retry_after(wait: Duration, left: Duration) -> Duration {
    wait.saturating_sub(left).clamp(Duration::from_millis(1), Duration::from_mins(1))
}

/// What a request's receiver gets.
pub(crate) type Outcome = Result<Encoded, EncodeError>;

/// Whoever waits for a reply.
#[derive(Debug)]
pub(crate) enum Receiver {
    Task(oneshot::Sender<Outcome>),
    Thread(SyncSender<Outcome>),
}

#[derive(Debug)]
struct Assembly {
    encoded: Encoded,
    missing: usize,
    queued: Instant,
    started: bool,
    receiver: Receiver,
    /// The request's share of the queue, given back just before the reply; a probe has none.
    permit: Option<Permit>,
}

/// A reply under way; empty once it is sent.
#[derive(Debug)]
pub(crate) struct Reply(Mutex<Option<Assembly>>);

impl Reply {
    /// A reply that lacks all its vectors. `encoded` holds tokens and timings so far.
    pub(crate) fn new(encoded: Encoded, queued: Instant, receiver: Receiver, permit: Option<Permit>) -> Self {
        let missing = encoded.tokens.len();
        Self(Mutex::new(Some(Assembly { encoded, missing, queued, started: false, receiver, permit })))
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_gone(&self) -> bool {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            None => true,
            Some(Assembly { receiver: Receiver::Task(sender), .. }) => sender.is_closed(),
            Some(Assembly { receiver: Receiver::Thread(_), .. }) => false,
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
            && let Some(assembly) = slot.take()
        {
            drop(assembly.permit);
            assembly.receiver.send(Ok(assembly.encoded));
        }
    }

    /// Says that the deadline has passed, unless the reply is sent already.
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
    pub(crate) fn send(self, outcome: Outcome) {
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
