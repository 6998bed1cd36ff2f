//! The folders in which vectors are kept until they are published, and what ended jobs have left of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_files::{DirLock, LockError};

use crate::error::Error;

/// Beginning of the names of directories with kept vectors.
pub(super) const PREFIX: &str = ".embedded-";
/// Folders in it: of texts that the model reads whole, of those that it truncates, and of those of which it does not
/// say.
pub(super) const FOLDERS: [(&str, Option<bool>); 3] =
    [("whole", Some(false)), ("truncated", Some(true)), ("unknown", None)];
/// Directories with vectors that ended jobs have kept in an index, and that none uses now, with the locks that keep it
/// so.
pub(crate) fn left_in(index: &Path) -> Result<Vec<(PathBuf, Vec<DirLock>)>, Error> {
    let mut left = Vec::new();
    for entry in fs_err::read_dir(index)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A job that begins may have made the directory, and not its folders yet: these are made here, so that the job
        // finds them locked.
        let lock = |(folder, _): &(&str, Option<bool>)| {
            let folder = entry.path().join(folder);
            fs_err::create_dir_all(&folder)?;
            DirLock::acquire(&folder, Duration::ZERO)
        };
        let locks: Result<Vec<DirLock>, LockError> = FOLDERS.iter().map(lock).collect();
        if let Ok(locks) = locks {
            left.push((entry.path(), locks));
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use dyad_corpus::embeddings::EmbeddingsWriter;
    use dyad_corpus::{EmbeddingsProblem, Error as CorpusError};
    use dyad_index::{Metric, ModelRecord};

    use super::super::kept::header_of;
    use super::*;

    #[test]
    fn what_is_left_is_locked_also_where_its_folders_are_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join(".embedded-f00d");
        fs_err::create_dir(&kept).unwrap();
        let model = ModelRecord {
            name: "m".into(),
            fingerprint: "f00d".into(),
            dim: 2,
            full_dim: None,
            metric: Metric::Cosine,
            max_tokens: 8,
        };
        let begin = || EmbeddingsWriter::open(&kept.join(FOLDERS[0].0), header_of(&model, 4));
        let left = left_in(dir.path()).unwrap();
        assert_eq!((left.len(), left[0].1.len()), (1, FOLDERS.len()));
        let held = begin().unwrap_err();
        assert!(
            matches!(
                held,
                CorpusError::Embeddings {
                    problem: EmbeddingsProblem::Locked,
                    ..
                }
            ),
            "{held}"
        );
        drop(left);
        let _job = begin().unwrap();
        assert!(left_in(dir.path()).unwrap().is_empty(), "a job uses it");
    }
}
