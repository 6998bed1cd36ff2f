//! An embedding job and its outcome.

use std::path::PathBuf;
use std::time::Duration;

use dyad_corpus::embeddings::{EmbeddingsSummary, VectorType};
use dyad_corpus::{PassageContext, ReadOptions};
use dyad_files::space::{FreeSpace, SpaceError};

use crate::config::Tower;
use crate::error::Error;
use crate::tokenize::Budget;

/// An embedding job.
#[derive(Debug, Clone)]
pub struct EmbedJob {
    /// File, BEIR folder, folder of files that are a document each, or `-` for standard input.
    pub corpus: PathBuf,
    /// How to read it.
    pub read: ReadOptions,
    /// The tower whose prompt the documents get.
    pub tower: Tower,
    /// What of its document reaches a passage's vector.
    pub context: PassageContext,
    /// Size of a batch.
    pub budget: Budget,
    /// Directory of the embeddings.
    pub out: PathBuf,
    /// Number type of the stored vectors.
    pub vectors: VectorType,
    /// Rows per part: at most this many are lost by an interruption.
    pub part_rows: u64,
    /// Whether the job fails at a document that is longer than the model reads; else its vector is of its beginning.
    pub refuse_long: bool,
    /// Tells whether the directory's disk has room; a stream is not asked for, since its length is not known.
    pub free_space: FreeSpace,
}

/// How a job ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmbedOutcome {
    /// The directory held everything already.
    NothingToDo {
        /// Documents in it.
        documents: u64,
    },
    /// Everything is embedded now.
    Embedded(EmbedReport),
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedReport {
    /// The whole set of vectors, those of earlier runs included.
    pub summary: EmbeddingsSummary,
    /// Documents of parts that an earlier run has made.
    pub documents_kept: u64,
    /// Documents of other parts whose vectors an earlier run has made.
    pub documents_reused: u64,
    /// Tokens embedded by this run.
    pub tokens: u64,
    /// Documents of this run that were longer than the model reads.
    pub documents_truncated: u64,
    /// Time of this run without opening the model.
    pub elapsed: Duration,
}

/// How a job ended otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The corpus cannot be read or the embeddings cannot be written.
    #[error(transparent)]
    Corpus(#[from] dyad_corpus::Error),
    /// The disk has less room than the vectors will take.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The model failed.
    #[error(transparent)]
    Model(#[from] Error),
    /// Standard input or a pipe gave other documents than the run that is resumed.
    #[error(
        "the corpus differs from the earlier run in part {part}, and a stream cannot be read twice. Remove the output directory, or give a file"
    )]
    ChangedInput {
        /// Number of the part, from 0.
        part: usize,
    },
    /// A document that the model does not read whole.
    #[error(
        "document `{key}` has more than the {max_tokens} tokens that the model reads. Let such documents be truncated (`--on-long truncate`), or all be split (`--split WORDS`)"
    )]
    LongText {
        /// The key of the document.
        key: String,
        /// Longest input of the model in tokens.
        max_tokens: usize,
    },
    /// A passage of no document, where its document is to be read.
    #[error(
        "document `{key}` is no passage of another one, in which it could be read (`--context {context}`). Split documents into passages (`--split WORDS`), or name the \
         file of the documents that they were cut from (`--documents FILE`)"
    )]
    NoPlace {
        /// The key of the document.
        key: String,
        /// The context that was asked for.
        context: PassageContext,
    },
    /// A model whose vectors are no means of tokens.
    #[error(
        "`--context {context}`: expected a model whose vectors are the means of its token vectors, of which passages have some. Use `--context title`"
    )]
    NoMeans {
        /// The context that was asked for.
        context: PassageContext,
    },
    /// An earlier run has truncated documents.
    #[error(
        "`{}` holds {documents} documents that an earlier run has truncated at {max_tokens} tokens. Use `--on-long truncate` again, or another `--out`",
        out.display()
    )]
    LongKept {
        /// The output directory.
        out: PathBuf,
        /// How many.
        documents: u64,
        /// Longest input of the model in tokens.
        max_tokens: usize,
    },
    /// A signal.
    #[error("interrupted; {rows} documents are kept in `{}`. Run the same command again to resume", out.display())]
    Interrupted {
        /// Documents in whole parts.
        rows: u64,
        /// The output directory.
        out: PathBuf,
    },
    /// The reader's thread died.
    #[error("the thread that reads the corpus ended early; its panic message is in the log above")]
    ReaderLost,
}
