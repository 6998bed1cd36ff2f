//! Errors as gRPC codes: what the client should mend, what passes by itself, and what an operator must look at.

use dyad_corpus::Error as Corpus;
use dyad_files::LockError;
use dyad_files::space::{self, ByteSize, SpaceError};
use dyad_proto::client::ClientError;
use tonic::Status;

use super::received::{refuse_for_good, refuse_unmade};
use crate::error::Error;

/// The status of a change that was not made. Causes are in the message.
pub(super) fn status(error: &Error) -> Status {
    if let Error::Space(SpaceError::Full { dir, needed, free }) = error {
        // Its own text names an option of commands, which a client cannot give.
        let (dir, needed, free) = (dir.display(), ByteSize(*needed), ByteSize(*free));
        return refuse_for_good(format!(
            "`{dir}` needs about {needed} of disk, and {free} are free; nothing was changed. Free some space"
        ));
    }
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(reason) = cause {
        message = format!("{message}: {reason}");
        cause = reason.source();
    }
    if is_full(error) {
        return refuse_for_good(message);
    }
    match error {
        Error::Contended | Error::NotAsExpected { .. } => Status::aborted(message),
        Error::Cancelled => Status::cancelled(message),
        Error::DocumentOfAnother { .. } => Status::permission_denied(message),
        Error::KeysExist { .. } => Status::already_exists(message),
        Error::BelowKept { .. } | Error::BelowTarget { .. } | Error::OtherModel { .. } | Error::ModelChanged { .. } => {
            Status::failed_precondition(message)
        }
        Error::Corpus(_) => Status::invalid_argument(message),
        Error::Service(source) | Error::Encoder { source, .. } => match source {
            ClientError::Deadline { .. } => Status::deadline_exceeded(message),
            _ => refuse_unmade(message, false),
        },
        Error::Index(dyad_index::Error::NoIndex { .. }) => Status::not_found(message),
        Error::Index(dyad_index::Error::Locked { .. }) => refuse_unmade(message, false),
        _ => Status::internal(message),
    }
}

/// The same where clients have sent the vectors: one that cannot be indexed is theirs to mend.
pub(super) fn refused_vector(error: &Error) -> Status {
    match error {
        Error::Row(_) => Status::invalid_argument(format!("`vectors`: {error}; nothing was changed")),
        // A context that the index's vectors do not have.
        Error::Context(_) => Status::failed_precondition(format!("`context`: {error}; nothing was changed")),
        _ => status(error),
    }
}

/// Whether the disk, or the user's quota of it, is full.
fn is_full(error: &Error) -> bool {
    match error {
        Error::Io(error)
        | Error::Corpus(Corpus::Io(error) | Corpus::Read { reason: error, .. })
        | Error::Lock(LockError::Io(error)) => space::is_full(error),
        Error::Index(error) => error.is_full(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tonic::Code;

    use super::*;

    #[test]
    fn a_full_disk_is_told_by_its_path_and_not_tried_again_at_once() {
        let full = || {
            io::Error::new(
                io::ErrorKind::StorageFull,
                "failed to write to file `index/x`: No space left",
            )
        };
        let lock = dyad_files::LockError::Io(full());
        let text = dyad_index::Error::Text {
            path: "index/text".into(),
            reason: full().into(),
        };
        let errors = [
            Error::Io(full()),
            Error::Lock(lock),
            Error::Index(full().into()),
            Error::Corpus(full().into()),
            text.into(),
        ];
        for error in errors {
            let told = status(&error);
            assert_eq!(told.code(), Code::ResourceExhausted, "{told}");
            assert!(
                told.message().contains("index/") && told.message().contains("No space left"),
                "{told}"
            );
            assert_eq!(told.metadata().get("grpc-retry-pushback-ms").unwrap(), "-1");
        }
        let other = status(&Error::Io(io::Error::other(
            "failed to write to file `index/x`: input/output error",
        )));
        assert_eq!(other.code(), Code::Internal);
    }
}
