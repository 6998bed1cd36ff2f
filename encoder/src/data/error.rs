//! Why there is no batch.

use crate::error::Error;

/// Failure to read training data, or to sample from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A source of examples cannot be read.
    #[error(transparent)]
    Source(#[from] dyad_corpus::Error),
    /// A source of examples that a setting names cannot be read.
    #[error("`{key}`: {source}")]
    Setting {
        /// Its key in the TOML file.
        key: &'static str,
        /// Why not.
        source: Box<dyad_corpus::Error>,
    },
    /// A text cannot be tokenized or embedded.
    #[error(transparent)]
    Model(#[from] Error),
    /// No example at all.
    #[error("there are no training examples. Name a source with some")]
    Empty,
    /// An example that nothing answers; readers refuse such.
    #[error("example {example} has no positive passage")]
    NoPositive {
        /// Counted from 1.
        example: usize,
    },
    /// A passage that does not say where it stands, where vectors know documents.
    #[error(
        "passage `{text}` does not say where it stands in its document, which `data.context` reads: expected `document` (or `paragraph`), `start` and `end` with it. Give it \
         these, or train with `context = \"title\"`"
    )]
    NoSpan {
        /// The beginning of the passage.
        text: String,
    },
    /// A passage that is not where it says.
    #[error("passage `{text}`: {problem}. Correct its `document`, `start` and `end`, or leave the example out")]
    Place {
        /// The beginning of the passage.
        text: String,
        /// What is wrong.
        problem: dyad_corpus::CorpusProblem,
    },
    /// More texts or passages than can be numbered.
    #[error("more than {limit} texts in one data set. Split it into stages")]
    TooLarge {
        /// The largest number that is supported.
        limit: u32,
    },
    /// A batch that cannot be filled.
    #[error(
        "a batch of {batch} is larger than the data: {examples} examples. Use a batch of at most {examples}, or more data"
    )]
    BatchSize {
        /// The examples of a batch that were asked for.
        batch: usize,
        /// The number of examples that there are.
        examples: usize,
    },
    /// Hard negatives that no example has.
    #[error(
        "`stages.{stage}.batch.negatives` is {wanted}, and 0 of {examples} examples have negatives. Find some with [mine] or `dyad-encoder mine`, give examples that have them, or set it to 0"
    )]
    NoNegatives {
        /// Name of the stage.
        stage: String,
        /// The negatives of a question that were asked for.
        wanted: usize,
        /// Number of examples.
        examples: usize,
    },
    /// A batch of nothing.
    #[error("a batch must have at least 1 example, got: 0")]
    NoBatch,
    /// A cursor after the last batch.
    #[error(
        "cursor at batch {position} of epoch {epoch}, which has {batches}. The checkpoint belongs to other data or another batch size"
    )]
    Cursor {
        /// The epoch of the cursor.
        epoch: u64,
        /// The batch of the cursor.
        position: u64,
        /// Batches of an epoch.
        batches: u64,
    },
    /// A cursor of other data.
    #[error(
        "the checkpoint was written with other training data: expected digest {expected}, got: {got}. Train over the same data, lengths and tokenizer, or start a new run"
    )]
    OtherData {
        /// The digest in the checkpoint.
        expected: String,
        /// The digest of the data that was read.
        got: String,
    },
    /// Options of mining that contradict each other.
    #[error("{what} must be {expected}, got: {got}")]
    Option {
        /// The name of the option.
        what: &'static str,
        /// Values that are accepted.
        expected: String,
        /// The value that was given.
        got: String,
    },
    /// A vector that is not finite, or of another length.
    #[error("vectors of {what}: expected {expected} values, got {got}")]
    Vectors {
        /// `questions` or `answers`.
        what: &'static str,
        /// Rows times dimension.
        expected: usize,
        /// The number of values that was given.
        got: usize,
    },
    /// A searcher that cannot be asked.
    #[error(transparent)]
    Searcher(#[from] dyad_proto::client::ClientError),
    /// A searcher over vectors of another model: its scores cannot be compared with those of the positives.
    #[error(
        "the index at `{url}` was built by a model with fingerprint {got}, `--model` has {expected}. Mine with the index's model, or build the index again"
    )]
    OtherModel {
        /// The address of the searcher.
        url: String,
        /// Fingerprint of the model that mines.
        expected: String,
        /// Fingerprint of the index's model.
        got: String,
    },
    /// The thread that works ahead gave nothing in time.
    #[error("no batch within {seconds} s from thread `{name}`. The machine is overloaded, or the data's disk hangs")]
    Late {
        /// Name of the thread.
        name: &'static str,
        /// The deadline in seconds.
        seconds: u64,
    },
    /// The thread that works ahead died.
    #[error("thread `{name}` ended early; its panic message is in the log above")]
    Lost {
        /// Name of the thread.
        name: &'static str,
    },
    /// A signal came in between.
    #[error("interrupted")]
    Interrupted,
}

/// Sources that cannot fail.
impl From<std::convert::Infallible> for DataError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
