//! Errors of an index on disk. Each message names the fix.

use std::io;
use std::path::PathBuf;

use dyad_files::space::is_full;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An index that cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused. The text names the path (`fs_err`).
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A file is of another kind, or its bytes have changed.
    #[error("`{}`, {part}: expected {expected}, got {got}. {hint}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Header field or section.
        part: String,
        /// The content of an intact file.
        expected: String,
        /// The content of this file.
        got: String,
        /// What the user can do about it.
        hint: &'static str,
    },
    /// Written by a later release.
    #[error("`{}` has format version {got}, and this build reads up to {supported}. Upgrade dyad, or rebuild the index with this one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        got: u32,
        /// The newest readable version.
        supported: u32,
    },
    /// A model whose vectors are compared in another way.
    #[error(
        "model `{model}`: expected vectors compared by `cosine`, got `{got}`. Use a model that normalises its vectors"
    )]
    ModelMetric {
        /// The model.
        model: String,
        /// Its metric.
        got: String,
    },
    /// There is no index in the directory.
    #[error("`{}` holds no index: there is no file `CURRENT`. Build one with `dyad-indexer build --index {}`", path.display(), path.display())]
    NoIndex {
        /// The directory.
        path: PathBuf,
    },
    /// There is no such generation in the index.
    #[error("`{}` has no generation {generation}. Present: {}", path.display(), if present.is_empty() { "none" } else { present })]
    NoGeneration {
        /// The index.
        path: PathBuf,
        /// The one asked for.
        generation: u64,
        /// Those on disk.
        present: String,
    },
    /// A generation that readers have, though not all of its publication was made durable.
    #[error(
        "`{}` is at generation {generation}, but after a failure of power it may be at the one before: {cause}. Check the disk. The change was          made: look at the documents before you make it again",
        path.display()
    )]
    Unsettled {
        /// The index.
        path: PathBuf,
        /// The generation that `CURRENT` names.
        generation: u64,
        /// What could not be made durable.
        cause: Box<Error>,
    },
    /// There is no generation before this one.
    #[error("`{}`: nothing to roll back to: generation {generation} is the oldest", path.display())]
    Oldest {
        /// The index.
        path: PathBuf,
        /// The one to go back from.
        generation: u64,
    },
    /// Another process holds the write lock of the index.
    #[error("`{}` is being written by process {holder}. Try again when it has ended", path.display())]
    Locked {
        /// The index.
        path: PathBuf,
        /// Process id as found in the lock file, or `unknown`.
        holder: String,
    },
    /// A graph in memory breaks an invariant.
    #[error("graph, layer {layer}, node {node}: {problem}")]
    Graph {
        /// Layer, 0 is the lowest.
        layer: usize,
        /// Node.
        node: u32,
        /// What is wrong.
        problem: String,
    },
    /// Parts that belong together differ in length or dimension.
    #[error("{what}: expected {expected}, got {got}")]
    Mismatch {
        /// What was compared.
        what: &'static str,
        /// Wanted.
        expected: String,
        /// Found.
        got: String,
    },
    /// tantivy failed.
    #[error("text index `{}`: {reason}", path.display())]
    Text {
        /// Its directory.
        path: PathBuf,
        /// tantivy's reason.
        reason: tantivy::TantivyError,
    },
}

impl Error {
    /// The operating system's error, where there is one.
    pub fn os_error(&self) -> Option<&io::Error> {
        use tantivy::TantivyError;
        use tantivy::directory::error::{OpenDirectoryError, OpenReadError, OpenWriteError};
        match self {
            Self::Io(error) => Some(error),
            Self::Text {
                reason:
                    TantivyError::IoError(error)
                    | TantivyError::OpenReadError(OpenReadError::IoError { io_error: error, .. })
                    | TantivyError::OpenWriteError(OpenWriteError::IoError { io_error: error, .. })
                    | TantivyError::OpenDirectoryError(OpenDirectoryError::IoError { io_error: error, .. }),
                ..
            } => Some(error),
            _ => None,
        }
    }

    /// Whether the disk, or the user's quota of it, is full.
    pub fn is_full(&self) -> bool {
        use rustix::io::Errno;
        let full = [Errno::NOSPC, Errno::DQUOT].map(Errno::raw_os_error);
        self.os_error().is_some_and(is_full) || self.os_number().is_some_and(|number| full.contains(&number))
    }

    /// Whether the process or the system is out of file handles or memory: nothing is wrong with the index.
    pub fn is_shortage(&self) -> bool {
        use rustix::io::Errno;
        let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(Errno::raw_os_error);
        self.os_number().is_some_and(|number| shortages.contains(&number))
    }

    /// The operating system's error number, which tantivy's internal errors have in their texts only.
    fn os_number(&self) -> Option<i32> {
        match (self.os_error(), self) {
            (Some(error), _) => number(error),
            (None, Self::Text { reason, .. }) => told_number(&reason.to_string()),
            (None, _) => None,
        }
    }
}

/// The operating system's error number. `fs_err` keeps it in its text only.
fn number(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| told_number(&error.to_string()))
}

/// The number at the end of a text such as `No space left on device (os error 28)`.
fn told_number(text: &str) -> Option<i32> {
    let (_, number) = text.rsplit_once("(os error ")?;
    number.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_known_through_what_names_the_path() {
        let raw = || io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
        assert!(Error::from(raw()).is_shortage());
        let read = tantivy::directory::error::OpenReadError::wrap_io_error(raw(), PathBuf::from("x"));
        assert!(
            Error::Text {
                path: PathBuf::new(),
                reason: read.into()
            }
            .is_shortage()
        );
        let named = io::Error::other(format!("failed to open file `x`: {}", raw()));
        assert!(Error::from(named).is_shortage());
        let absent = fs_err::read("no such file").unwrap_err();
        assert_eq!(
            number(&absent),
            Some(rustix::io::Errno::NOENT.raw_os_error()),
            "{absent}"
        );
        assert!(!Error::from(absent).is_shortage());
        assert!(!Error::NoIndex { path: PathBuf::new() }.is_shortage());
    }

    #[test]
    fn a_full_disk_is_known_through_everything_that_wraps_it() {
        use tantivy::TantivyError;
        use tantivy::directory::error::OpenWriteError;
        let raw = || io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
        let named = || io::Error::new(raw().kind(), format!("failed to write to file `x`: {}", raw()));
        let text = |reason: TantivyError| Error::Text {
            path: PathBuf::new(),
            reason,
        };
        let wrapped = OpenWriteError::IoError {
            io_error: named().into(),
            filepath: PathBuf::from("x"),
        };
        let errors = [
            raw().into(),
            named().into(),
            text(raw().into()),
            text(wrapped.into()),
            text(TantivyError::InternalError(raw().to_string())),
        ];
        assert!(
            errors.iter().all(|error| error.is_full() && !error.is_shortage()),
            "{errors:?}"
        );
        assert!(!text(TantivyError::InternalError("a bug (os error of none)".into())).is_full());
        assert!(!Error::from(io::Error::other("input/output error")).is_full());
    }
}
