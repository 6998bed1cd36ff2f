//! Shards for which a call has no answer, and why.

use std::time::Duration;

use dyad_proto::client::ClientError;
use tonic::Code;

/// What leaves have answered, and the shards for which none has.
#[derive(Debug)]
pub(super) struct AnswersOfShards<R> {
    pub(super) answers: Vec<R>,
    pub(super) lost: Vec<LostShards>,
}

/// Shards that were lost for one reason.
#[derive(Debug)]
pub(super) struct LostShards {
    pub(super) shards: Vec<u32>,
    pub(super) reason: LostReason,
}

/// Why shards were lost.
#[derive(Debug)]
pub(super) enum LostReason {
    /// No leaf that answers holds them. What the last one that was asked has said, where one was.
    NoLeaf(Option<String>),
    /// The leaves that were asked have too much to do.
    Busy(BusyLeaf),
    /// The time was over.
    Late,
}

/// A leaf that has too much to do.
#[derive(Debug)]
pub(crate) struct BusyLeaf {
    /// Its name.
    pub(crate) leaf: String,
    /// What it says.
    pub(crate) reason: String,
    /// When another try may succeed, where it says so.
    pub(crate) retry_after: Option<Duration>,
}

impl BusyLeaf {
    /// Where a leaf of this name has refused a call because it has too much to do.
    pub(super) fn new(leaf: String, error: &ClientError) -> Option<Self> {
        match error {
            ClientError::Refused {
                code: Code::ResourceExhausted,
                retry_after,
                ..
            } => Some(Self {
                leaf,
                reason: error.to_string(),
                retry_after: *retry_after,
            }),
            _ => None,
        }
    }
}

/// Why leaves have not answered.
#[derive(Debug)]
pub(crate) enum LeafFailure {
    /// No leaf that answers holds these shards. The last error of one that was asked, where one was.
    Missing { shards: Vec<u32>, error: Option<String> },
    /// The time is over.
    Late,
    /// A leaf has too much to do, and so have others, or too many calls were made twice.
    Busy(BusyLeaf),
    /// A leaf refuses what another one would refuse too.
    Refused { leaf: String, error: ClientError },
}

impl LeafFailure {
    /// Of a call that needs all shards and has lost some.
    pub(super) fn of_lost(lost: Vec<LostShards>) -> Self {
        let (mut missing, mut said) = (Vec::new(), None);
        for LostShards { shards, reason } in lost {
            match reason {
                LostReason::Late => return Self::Late,
                LostReason::Busy(busy) => return Self::Busy(busy),
                LostReason::NoLeaf(error) => {
                    missing.extend(shards);
                    said = said.or(error);
                }
            }
        }
        missing.sort_unstable();
        Self::Missing {
            shards: missing,
            error: said,
        }
    }
}

/// Shards that were not searched, all for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingShards {
    pub(crate) shards: Vec<u32>,
    pub(crate) reason: String,
}

impl From<LostShards> for MissingShards {
    fn from(lost: LostShards) -> Self {
        let reason = match lost.reason {
            LostReason::NoLeaf(error) => error.unwrap_or_else(|| "no leaf that answers holds it".to_owned()),
            LostReason::Busy(busy) => busy.reason,
            LostReason::Late => "its leaf has not answered in time".to_owned(),
        };
        Self {
            shards: lost.shards,
            reason,
        }
    }
}
