//! What can go wrong on a query's way, and the gRPC status of each.

use std::time::Duration;

use dyad_index::ModelRecord;
use dyad_proto::service::deadline::RETRY_PUSHBACK;
use tonic::Status;
use tonic::metadata::MetadataValue;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// A searcher that cannot start, or a request that cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The index cannot be opened or read.
    #[error(transparent)]
    Index(#[from] dyad_index::Error),
    /// The question tower is not of the model that made the index.
    #[error(
        "the question tower does not fit the index: the index was made with `{}` (fingerprint {}, {} values), the tower is \
         `{}` (fingerprint {}, {} values). Start with the model that made the index, or embed the corpus again with this one",
        index.name, index.fingerprint, index.dim, tower.name, tower.fingerprint, tower.dim
    )]
    Model {
        /// The index's model.
        index: Box<ModelRecord>,
        /// The tower's model.
        tower: Box<ModelRecord>,
    },
    /// The question tower cannot be opened, or failed.
    #[error("question tower: {reason}")]
    Tower {
        /// Why.
        reason: String,
        /// Another try may succeed.
        transient: bool,
    },
    /// The question tower has more to do than it can in the time of the request.
    #[error("question tower: {reason}")]
    TowerBusy {
        /// The tower's words.
        reason: String,
        /// When another try may succeed, where the tower says so.
        retry_after: Option<Duration>,
    },
    /// The time for the question tower is over.
    #[error("question tower: no vector within {0:?}")]
    TowerLate(Duration),
    /// More requests than the searcher takes at once.
    #[error(
        "{limit} requests are under way, which is the most this searcher takes. Try later, or raise `--max-requests`"
    )]
    Busy {
        /// The limit.
        limit: usize,
    },
    /// A verification is under way.
    #[error("a verification is already under way. Wait for its answer")]
    Verifying,
    /// The time for the request is over.
    #[error("the deadline of {0:?} passed before the answer was complete")]
    Deadline(Duration),
    /// The document to explain is not in the index.
    #[error("no document with the key `{0}`")]
    NoDocument(String),
    /// A search ended without an answer, because its thread panicked.
    #[error("a search failed inside. The log says why")]
    Internal,
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Index(dyad_index::Error::NoGeneration { .. } | dyad_index::Error::NoIndex { .. })
            | Error::NoDocument(_) => Self::not_found(text),
            Error::Index(dyad_index::Error::Locked { .. }) | Error::Model { .. } => Self::failed_precondition(text),
            Error::Index(_) => Self::data_loss(text),
            Error::Tower { transient: true, .. } => Self::unavailable(text),
            Error::Tower { transient: false, .. } | Error::Internal => Self::internal(text),
            Error::TowerBusy { retry_after, .. } => {
                let mut status = Self::resource_exhausted(text);
                if let Some(millis) = retry_after.and_then(|time| i64::try_from(time.as_millis()).ok()) {
                    status.metadata_mut().insert(RETRY_PUSHBACK, MetadataValue::from(millis));
                }
                status
            }
            Error::Busy { .. } | Error::Verifying => Self::resource_exhausted(text),
            Error::Deadline(_) | Error::TowerLate(_) => Self::deadline_exceeded(text),
        }
    }
}
