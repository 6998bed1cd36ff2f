//! Why texts were not embedded, and why a model must not be asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::{Tower, UnknownPrompt};
use crate::error::Error;
use crate::model::ModelKind;

/// Why texts were not embedded.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Nothing to embed.
    #[error("`texts` is empty. Send at least one text")]
    NoTexts,
    /// A query without a visible character.
    #[error("`query` is empty. Send what is asked")]
    EmptyQuery,
    /// The model is of another kind than the call is for.
    #[error("{}", other_kind(*served, model))]
    OtherKind {
        /// What is served.
        served: ModelKind,
        /// Its name.
        model: String,
    },
    /// Documents of which the texts are passages, for a model whose vectors are no means of tokens.
    #[error(
        "`documents`: expected a model whose vectors are the means of its token vectors, of which passages have some, got `{model}`. Leave them out"
    )]
    NoMeans {
        /// Its name.
        model: String,
    },
    /// A name that the model has no prompt of.
    #[error(transparent)]
    UnknownPrompt(#[from] UnknownPrompt),
    /// A prompt that leaves no room for a text.
    #[error(
        "`prompt` takes {tokens} tokens with those around a text, the model reads {limit}. Shorten it, so that a text has room after it"
    )]
    PromptTooLong {
        /// Its tokens, and those that stand around every text.
        tokens: usize,
        /// The model's longest input.
        limit: usize,
    },
    /// A prompt for pairs of texts.
    #[error("pairs of texts have no prompt. Leave it out")]
    PromptOfPairs,
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
        /// Whether there are more than those.
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
        "`texts[{position}][{place}]` is the special token `{token}` ({id}), which is added automatically. Tokenize with `add_special_tokens=False`"
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
    /// Vectors of the model cannot have that number of values.
    #[error("`dimensions` must be 1 to {dim}, the values of the model's vectors, got: {asked}")]
    Dimensions {
        /// The requested value.
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
    /// The requests before it take longer than its deadline.
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
    /// A thread of the model has ended.
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
            Self::NoTexts | Self::EmptyQuery | Self::EmptyText { .. } => "empty",
            Self::OtherKind { .. } => "other_kind",
            Self::NoMeans { .. } => "no_means",
            Self::TooLong { .. } => "too_long",
            Self::UnknownToken { .. } | Self::SpecialToken { .. } => "token_id",
            Self::Dimensions { .. } => "dimensions",
            Self::UnknownPrompt(_) | Self::PromptTooLong { .. } | Self::PromptOfPairs => "prompt",
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

fn other_kind(served: ModelKind, model: &str) -> String {
    match served {
        ModelKind::CrossEncoder => {
            format!(
                "`{model}` is a cross encoder, which scores pairs and has no vectors. Ask for scores (`Score`, `/v1/rerank`), or another server for vectors"
            )
        }
        ModelKind::DualEncoder => {
            format!(
                "`{model}` embeds single texts and scores no pairs. Ask for vectors (`Encode`, `/v1/embeddings`), or a server of a cross encoder for scores"
            )
        }
    }
}

/// Before a count that is not all.
pub(crate) fn more_than(more: bool) -> &'static str {
    if more { "more than " } else { "" }
}

/// A queue of the default size is processed in some seconds; a client that retries sooner finds it as full.
const FULL: Duration = Duration::from_secs(1);

/// Time until the queue is short enough, without further requests.
fn retry_after(wait: Duration, left: Duration) -> Duration {
    wait.saturating_sub(left)
        .clamp(Duration::from_millis(1), Duration::from_mins(1))
}

/// The error of a request that came then and was not answered in time.
pub(crate) fn late(came: Instant) -> EncodeError {
    EncodeError::Deadline {
        waited_ms: u64::try_from(came.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

/// Why a model must not be asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum NotReady {
    /// The probe was not embedded.
    #[error("the {tower} tower did not embed a probe: {source}")]
    Failed {
        /// Which side.
        tower: Tower,
        /// Why.
        source: EncodeError,
    },
    /// The score of the probe is none that the model can give.
    #[error(
        "the model gave a probe the score {score}, expected a finite number. Start the process again, on another device if it stays"
    )]
    NotFinite {
        /// The score.
        score: f32,
    },
    /// The vector of the probe is none that the model can give.
    #[error(
        "the {tower} tower gave a probe's vector of length {length}, expected 1. Start the process again, on another device if it stays"
    )]
    Wrong {
        /// Which side.
        tower: Tower,
        /// Length of the vector.
        length: f64,
    },
    /// The vector of a golden text is not the one that the model brings.
    #[error(
        "the {tower} tower does not reproduce a golden vector: cosine {cosine}, expected at least {least}. Start the process again, on another device if it stays"
    )]
    Drifted {
        /// Which side.
        tower: Tower,
        /// Between the vectors.
        cosine: f64,
        /// Rounding of the computing type, and no more.
        least: f64,
    },
}
