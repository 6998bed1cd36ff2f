//! What can go wrong while a served system is measured.

use std::io;
use std::path::PathBuf;

use dyad_proto::client::ClientError;
use dyad_proto::validate::Violations;

/// A measurement that was not made. No figures come out of half of one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    /// Questions, judgements or a run that cannot be read or written.
    #[error(transparent)]
    Corpus(#[from] dyad_corpus::Error),
    /// The server cannot be reached, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The operating system said no; its message names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Judgements of a question that is not there.
    #[error(
        "`{}` judges query `{query}`, which `{}` does not hold; queries missing in all: {missing}. \
         Take both files from the same release of the set",
        qrels.display(),
        queries.display()
    )]
    MissingQuery { qrels: PathBuf, queries: PathBuf, query: String, missing: usize },
    /// A question that no server takes.
    #[error("query `{query}`: {violations}")]
    Question { query: String, violations: Violations },
    /// Judgements of other documents than the index has.
    #[error(
        "none of the {documents} judged documents is in the index that `{url}` serves. Serve an index of the corpus of `{}`, \
         or name its folder with `--data`",
        data.display()
    )]
    NoJudgedDocument { url: String, data: PathBuf, documents: usize },
    /// Answers with a part missing.
    #[error(
        "`{url}` gave degraded answers to {degraded} of {asked} questions in mode {system}, query `{query}` first: \
         {reason}. Restore the server, then measure again"
    )]
    Degraded { url: String, system: String, degraded: usize, asked: usize, query: String, reason: String },
    /// Answers that break the contract.
    #[error(
        "`{url}` answered query `{query}` against the contract: {reason}. Check that client and server are of the same release"
    )]
    Contract { url: String, query: String, reason: String },
    /// The index was replaced between two answers, so that they do not compare.
    #[error("`{url}` changed its index during the measurement: expected {expected}, got {got}. Measure again")]
    IndexChanged { url: String, expected: String, got: String },
}
