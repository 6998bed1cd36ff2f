//! What a caller is told of an error, and its gRPC status.

use std::time::Duration;

use dyad_proto::access::Caller;
use dyad_proto::pushback::RETRY_PUSHBACK;
use tonic::Status;
use tonic::metadata::MetadataValue;

use crate::error::Error;

fn index_status(error: &dyad_index::Error, text: String) -> Status {
    use std::io::ErrorKind;

    use dyad_index::Error as Index;
    if error.is_shortage() || error.is_full() {
        return Status::resource_exhausted(text);
    }
    // Only changed bytes are data loss.
    if let Some(refusal) = error.os_error() {
        return match refusal.kind() {
            ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::NotADirectory => Status::failed_precondition(text),
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData => Status::data_loss(text),
            _ => Status::unavailable(text),
        };
    }
    match error {
        Index::NoGeneration { .. } | Index::NoIndex { .. } => Status::not_found(text),
        Index::Format { .. } | Index::Graph { .. } | Index::Text { .. } => Status::data_loss(text),
        Index::Mismatch { .. } => Status::internal(text),
        // Needs another generation, another release, or another attempt later.
        _ => Status::failed_precondition(text),
    }
}

fn store_status(error: &dyad_store::Error, text: String) -> Status {
    match error {
        error if error.is_transient() => Status::unavailable(text),
        error if error.is_damage() => Status::data_loss(text),
        // Needs more room, another cache, or other credentials.
        _ => Status::failed_precondition(text),
    }
}

/// A refusal that says when a retry may succeed.
fn busy(text: String, retry_after: Option<Duration>) -> Status {
    with_hint(Status::resource_exhausted(text), retry_after)
}

impl Error {
    /// The error as a caller is told of it: to one who sees some documents only, addresses and paths of the server are
    /// no concern. They go to the log.
    pub(crate) fn told_to(self, caller: &Caller) -> Self {
        if caller.filter().is_some() {
            self.without_places()
        } else {
            self
        }
    }

    fn without_places(self) -> Self {
        match self {
            Self::Tower { reason, transient } => {
                tracing::warn!(reason, "a request failed by its question tower");
                Self::Tower {
                    reason: "it returns no vectors".to_owned(),
                    transient,
                }
            }
            Self::TowerBusy { reason, retry_after } => {
                tracing::debug!(reason, "a request failed by its question tower");
                Self::TowerBusy {
                    reason: "it is too busy".to_owned(),
                    retry_after,
                }
            }
            Self::Index(error) => {
                tracing::error!(%error, "a request failed");
                Self::Unreadable(index_status(&error, String::new()).code())
            }
            Self::NoLeaves {
                index,
                generation,
                shards,
                reason,
            } => {
                tracing::warn!(index, generation, %shards, reason, "a request failed by its leaves");
                Self::NoLeaves {
                    index,
                    generation,
                    shards,
                    reason: None,
                }
            }
            Self::LeafBusy {
                leaf,
                reason,
                retry_after,
            } => {
                tracing::debug!(leaf, reason, "a request failed by a leaf that is busy");
                Self::LeafBusy {
                    leaf: "one of several".to_owned(),
                    reason: "it has too much to do".to_owned(),
                    retry_after,
                }
            }
            Self::Leaf { leaf, reason } => {
                tracing::warn!(leaf, reason, "a request failed by a leaf");
                Self::Leaf {
                    leaf: "one of several".to_owned(),
                    reason: "it has not answered".to_owned(),
                }
            }
            other => other,
        }
    }
}

/// Tells the client when another try may succeed.
fn with_hint(mut status: Status, retry_after: Option<Duration>) -> Status {
    if let Some(millis) = retry_after.and_then(|time| i64::try_from(time.as_millis()).ok()) {
        status
            .metadata_mut()
            .insert(RETRY_PUSHBACK, MetadataValue::from(millis));
    }
    status
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::NoDocument(_) | Error::NoSuchIndex { .. } | Error::NotHeld { .. } => Self::not_found(text),
            Error::NotOnLeaves(_) => Self::unimplemented(text),
            Error::Model { .. }
            | Error::NoModel { .. }
            | Error::SameModel(_)
            | Error::SameName { .. }
            | Error::DoesNotFit(_)
            | Error::NoTower
            | Error::LeafUrl { .. }
            | Error::NoReranker
            | Error::NoLogitScale { .. }
            | Error::RerankWeight { .. }
            | Error::OtherModel { .. } => Self::failed_precondition(text),
            Error::Dimension { .. } | Error::NoDirection { .. } | Error::NoDefault { .. } | Error::NoNode { .. } => {
                Self::invalid_argument(text)
            }
            Error::OfIndex { error, .. } => Self::new(Self::from(*error).code(), text),
            Error::Index(error) => index_status(&error, text),
            Error::Store { error, .. } => store_status(&error, text),
            Error::StoreLate { .. }
            | Error::NoLeaves { .. }
            | Error::FewLeaves { .. }
            | Error::Leaf { .. }
            | Error::Tower { transient: true, .. }
            | Error::Reranker { transient: true, .. } => Self::unavailable(text),
            Error::Tower { transient: false, .. }
            | Error::Reranker { transient: false, .. }
            | Error::Internal
            | Error::Threads(_) => Self::internal(text),
            Error::TowerSilent { next } => with_hint(Self::unavailable(text), Some(next)),
            Error::Unreadable(code) => Self::new(code, text),
            // Another try would be as large.
            Error::LargeReply { .. } => Self::out_of_range(text),
            Error::TowerBusy { retry_after, .. } | Error::LeafBusy { retry_after, .. } => busy(text, retry_after),
            Error::Overloaded { wait, .. } => busy(text, Some(wait)),
            Error::Busy { .. } => busy(text, Some(Duration::from_millis(100))),
            Error::FullReplies { .. } => busy(text, Some(Duration::from_secs(1))),
            Error::Shortage { .. } | Error::NotVerified(_) => Self::resource_exhausted(text),
            Error::Verifying => Self::aborted(text),
            Error::Deadline(_) | Error::TowerLate(_) => Self::deadline_exceeded(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tonic::Code;

    use super::*;

    fn code(error: io::Error) -> Code {
        Status::from(Error::from(dyad_index::Error::from(error))).code()
    }

    #[test]
    fn only_damage_is_data_loss() {
        assert_eq!(code(io::Error::from_raw_os_error(24)), Code::ResourceExhausted);
        assert_eq!(code(io::ErrorKind::ReadOnlyFilesystem.into()), Code::FailedPrecondition);
        assert_eq!(code(io::ErrorKind::NotFound.into()), Code::FailedPrecondition);
        assert_eq!(code(io::Error::other("the disk")), Code::Unavailable);
        assert_eq!(code(io::ErrorKind::UnexpectedEof.into()), Code::DataLoss);
    }

    #[test]
    fn a_caller_who_sees_some_documents_is_told_no_path_and_no_address_and_the_same_code() {
        let errors: [fn() -> Error; 4] = [
            || Error::Index(dyad_index::Error::NoIndex { path: "/secret".into() }),
            || Error::Tower {
                reason: "no server answers at `http://secret`".into(),
                transient: true,
            },
            || Error::TowerBusy {
                reason: "`http://secret` refused".into(),
                retry_after: Some(Duration::from_secs(1)),
            },
            || Error::Deadline(Duration::from_secs(1)),
        ];
        for error in errors {
            let (told, untold) = (Status::from(error()), Status::from(error().without_places()));
            assert_eq!(told.message(), error().to_string());
            assert_eq!(untold.code(), told.code());
            assert_eq!(
                untold.metadata().get(RETRY_PUSHBACK),
                told.metadata().get(RETRY_PUSHBACK)
            );
            assert!(!untold.message().contains("secret"), "{untold:?}");
        }
    }
}
