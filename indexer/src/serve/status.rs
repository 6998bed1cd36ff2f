//! Errors as gRPC codes: what the client should mend, what passes by itself, and what an operator must look at.

use dyad_proto::client::ClientError;
use tonic::Status;

use crate::error::Error;

/// The status of a change that was not made. Causes are in the message.
pub(super) fn status(error: &Error) -> Status {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(reason) = cause {
        message = format!("{message}: {reason}");
        cause = reason.source();
    }
    match error {
        Error::Contended => Status::aborted(message),
        Error::Cancelled => Status::cancelled(message),
        Error::KeysExist { .. } => Status::already_exists(message),
        Error::BelowKept { .. } | Error::BelowTarget { .. } | Error::OtherModel { .. } | Error::ModelChanged { .. } => {
            Status::failed_precondition(message)
        }
        Error::Corpus(_) => Status::invalid_argument(message),
        Error::Space(_) => Status::resource_exhausted(message),
        Error::Service(source) | Error::Encoder { source, .. } => match source {
            ClientError::Deadline { .. } => Status::deadline_exceeded(message),
            _ => Status::unavailable(message),
        },
        Error::Index(dyad_index::Error::NoIndex { .. }) => Status::not_found(message),
        Error::Index(dyad_index::Error::Locked { .. }) => Status::unavailable(message),
        _ => Status::internal(message),
    }
}
