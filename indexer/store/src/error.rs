//! Errors of transfers.

use std::path::PathBuf;

use dyad_files::space::ByteSize;

/// A result of this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a push or a pull failed. The target is then as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    /// A URL of no store.
    #[error(
        "`{url}` is no place in an object store: {reason}. Expected s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///DIR"
    )]
    Url { url: String, reason: String },
    /// The store refused, or cannot be reached.
    #[error("cannot {action} `{path}` at {url}: {source}{}", fix(url, source))]
    Store {
        url: String,
        path: String,
        action: &'static str,
        source: Box<object_store::Error>,
    },
    /// No index where one was expected.
    #[error("there is no index at {url}: no object `CURRENT`. `dyad-indexer push` puts one there")]
    Absent { url: String },
    /// An object that is not what its manifest says.
    #[error(
        "`{path}` at {url}, {part}: expected {expected}, got {got}. Push the index again, from a directory that `dyad-indexer verify` finds intact"
    )]
    Damaged {
        url: String,
        path: String,
        part: &'static str,
        expected: String,
        got: String,
    },
    /// A file of the index that is not what its manifest says.
    #[error("`{}`, {part}: expected {expected}, got {got}. Nothing was published: run `dyad-indexer verify`", path.display())]
    DamagedFile {
        path: PathBuf,
        part: &'static str,
        expected: String,
        got: String,
    },
    /// Two indexes that are not of one line.
    #[error("generation {generation} at {url} is not one of `{}`: they have been changed independently. Push to another URL, or pull into another directory", index.display())]
    OtherLineage {
        url: String,
        index: PathBuf,
        generation: u64,
    },
    /// A directory that was changed.
    #[error("generation {generation} of `{}` is not at {url}: it was changed here, and not pushed. Push it, or roll it back, and pull then", index.display())]
    NotPushed {
        url: String,
        index: PathBuf,
        generation: u64,
    },
    /// Another push, job or rollback was faster.
    #[error(
        "another change of {url} came first: generation {generation} is current there now, and what it was before is not any more. Nothing was published or removed; pull it, or try again"
    )]
    Raced { url: String, generation: u64 },
    /// A push came while its files were removed.
    #[error(
        "{url} was pushed to while files were removed that the push may have found there: generation {generation} is current there now. Push it again, which puts what is missing"
    )]
    RemovedUnderPush { url: String, generation: u64 },
    /// An object is not the one that was listed.
    #[error(
        "`{path}` at {url} has changed since it was planned: expected {expected}, got {got}. Plan again, at another place"
    )]
    Changed {
        url: String,
        path: String,
        expected: String,
        got: String,
    },
    /// Another generation than the planned one's parent is current.
    #[error(
        "{url}: expected {expected} to be current, as when the job was planned, got {got}. Nothing was published; plan again, at another place"
    )]
    Moved { url: String, expected: String, got: String },
    /// The number of a generation is taken.
    #[error(
        "`{path}` at {url} belongs to another push or job, which has not published it. Let that one end; if it was killed, run `dyad-indexer gc --index {url}` once it is older than `--older-than`"
    )]
    Taken { url: String, path: String },
    /// Another process pulls.
    #[error("process {holder} pulls into `{}`. Wait until it has ended", index.display())]
    Held { index: PathBuf, holder: String },
    /// A generation that a cache has no room for.
    #[error(
        "generation {generation} of {url} does not fit into the cache `{}`: {} have to be fetched, {} are held by what is served and by other indexes, and the limit is {}. Nothing was fetched, and what was served is served on. Raise the limit (`--cache-bytes`), or remove folders of indexes that are not served any more",
        cache.display(), ByteSize(*needed), ByteSize(*held), ByteSize(*limit)
    )]
    NoRoom {
        url: String,
        cache: PathBuf,
        generation: u64,
        needed: u64,
        held: u64,
        limit: u64,
    },
    /// A disk that has no room for a generation.
    #[error("`{}` needs {} of disk for generation {generation} of {url}, and {} are free. Free some space, or use a cache on another disk", cache.display(), ByteSize(*needed), ByteSize(*free))]
    DiskFull {
        url: String,
        cache: PathBuf,
        generation: u64,
        needed: u64,
        free: u64,
    },
    /// A cache that mirrors another index than the store has by now.
    #[error("{url} has another index than it had: its generation {generation} does not belong to the one in `{}`. Stop the searcher, remove that folder, and start it again", index.display())]
    OtherIndex {
        url: String,
        index: PathBuf,
        generation: u64,
    },
    /// The transfer was told to stop.
    #[error("interrupted; what has been transferred stays, and the same command goes on with the rest")]
    Interrupted,
    /// Of the index.
    #[error(transparent)]
    Index(#[from] dyad_index::Error),
    /// Too little disk.
    #[error(transparent)]
    Space(#[from] dyad_files::space::SpaceError),
    /// Of the operating system; the message names the file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Error {
    /// Whether the same may succeed later, without anyone's help: the store did not answer, has no index yet, or
    /// another process fetches it.
    pub fn is_transient(&self) -> bool {
        use object_store::Error as Store;
        match self {
            Self::Store { source, .. } => !matches!(
                **source,
                Store::PermissionDenied { .. }
                    | Store::Unauthenticated { .. }
                    | Store::NotSupported { .. }
                    | Store::NotImplemented { .. }
                    | Store::InvalidPath { .. }
                    | Store::UnknownConfigurationKey { .. }
            ),
            Self::Absent { .. } | Self::Held { .. } | Self::Interrupted => true,
            _ => false,
        }
    }

    /// Whether bytes are not what they should be.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::DamagedFile { .. })
    }
}

/// What mends a store's refusal that says nothing of its reason.
fn fix(url: &str, source: &object_store::Error) -> &'static str {
    if !url.starts_with("s3://") {
        return "";
    }
    let mut said = source.to_string();
    let mut cause = std::error::Error::source(source);
    while let Some(error) = cause {
        said.push_str(&error.to_string());
        cause = error.source();
    }
    if said.contains("URL scheme is not allowed") {
        ". The endpoint has no TLS, which has to be allowed: set AWS_ALLOW_HTTP=true"
    } else if said.contains("169.254.169.254") {
        ". No credentials are in the environment, and this machine has no role of its own: set AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As an HTTP client tells it: the reason is a cause.
    #[derive(Debug, thiserror::Error)]
    #[error("builder error")]
    struct ClientError(#[source] std::io::Error);

    #[test]
    fn a_store_that_only_lacks_a_setting_says_which() {
        let told = |url: &str, said: &'static str| {
            let source = object_store::Error::Generic {
                store: "S3",
                source: ClientError(std::io::Error::other(said)).into(),
            };
            Error::Store {
                url: url.into(),
                path: "CURRENT".into(),
                action: "read",
                source: Box::new(source),
            }
            .to_string()
        };
        assert!(told("s3://bucket/index", "URL scheme is not allowed").contains("AWS_ALLOW_HTTP=true"));
        let address = "Error performing PUT http://169.254.169.254/latest/api/token in 2 s";
        let refused = told("s3://bucket/index", address);
        assert!(refused.contains("set AWS_ACCESS_KEY_ID"), "{refused}");
        for (url, said) in [("s3://bucket/index", "a wrong signature"), ("az://box/index", address)] {
            assert!(told(url, said).ends_with("builder error"), "{url}");
        }
    }
}
