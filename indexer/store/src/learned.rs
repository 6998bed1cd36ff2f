//! What was learned for an index (`fusion.json`, `rerank.json`): pushed and fetched next to its generations, each file whole.
//!
//! These files are no part of a generation, and have no checksum there: what is fetched is read before it takes a place.

use std::fmt;
use std::path::Path;

use dyad_files::write_atomic;
use dyad_index::storage::WriteLock;
use dyad_index::{LEARNED_FILES, check_learned};

use crate::error::Result;
use crate::remote::Remote;

/// What became of a file of a store that is not as the directory's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchedLearned {
    /// It is in the directory now.
    Fetched(&'static str),
    /// The directory has another one, which was learned there or before: that stays.
    Kept(&'static str),
    /// It cannot be read.
    Refused(String),
}

impl fmt::Display for FetchedLearned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetched(name) => write!(f, "`{name}` was fetched"),
            Self::Kept(name) => write!(
                f,
                "`{name}` is not the store's, and stays: remove it and pull again to take the store's, or push this one"
            ),
            Self::Refused(reason) => write!(f, "not fetched: {reason}"),
        }
    }
}

/// Which of two files counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precedence {
    /// The directory's, which people work on.
    Directory,
    /// The store's, which the directory mirrors.
    Store,
}

/// Puts the files of an index to a store that has none or others; their names.
pub(crate) async fn push_learned(index: &Path, remote: &Remote) -> Result<Vec<&'static str>> {
    let mut put = Vec::new();
    for name in LEARNED_FILES {
        let Some(bytes) = read(index, name)? else { continue };
        if remote.read(name).await?.as_ref() != Some(&bytes) {
            remote.put(name, bytes).await?;
            put.push(name);
        }
    }
    Ok(put)
}

/// Fetches those that the directory has not, or not so; what became of them.
pub(crate) async fn fetch_learned(
    remote: &Remote,
    index: &Path,
    precedence: Precedence,
) -> Result<Vec<FetchedLearned>> {
    let mut fetched = Vec::new();
    for name in LEARNED_FILES {
        let Some(bytes) = remote.read(name).await? else { continue };
        let own = read(index, name)?;
        if own.as_ref() == Some(&bytes) {
            continue;
        }
        if let Err(error) = check_learned(name, &Path::new(remote.url()).join(name), &bytes) {
            fetched.push(FetchedLearned::Refused(error.to_string()));
        } else if own.is_some() && precedence == Precedence::Directory {
            fetched.push(FetchedLearned::Kept(name));
        } else {
            let _lock = WriteLock::acquire(index)?;
            write_atomic(&index.join(name), &bytes)?;
            fetched.push(FetchedLearned::Fetched(name));
        }
    }
    Ok(fetched)
}

fn read(index: &Path, name: &str) -> Result<Option<Vec<u8>>> {
    match fs_err::read(index.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dyad_index::{FUSION_FILE, FusionMethod, FusionRecord, LearnedFrom};
    use object_store::memory::InMemory;
    use tempfile::TempDir;

    use super::*;
    use crate::fixture::Pushing;
    use crate::objects::PushOptions;
    use crate::pull::{PullOptions, Pulled, pull};
    use crate::push::push;

    fn learn(index: &Path, dense_weight: f64) {
        let (data, split) = ("d".to_owned(), "dev".to_owned());
        let from = LearnedFrom { data, split, questions: 1, dense: 0.1, bm25: 0.2, default: 0.3, learned: 0.4 };
        let record = FusionRecord::new("f".to_owned(), FusionMethod::WeightedSum, dense_weight, from);
        record.save(index, &WriteLock::acquire(index).unwrap()).unwrap();
    }

    fn weight(index: &Path) -> Option<f64> {
        FusionRecord::load(index, "f").unwrap().map(|record| record.dense_weight)
    }

    struct Both {
        index: Pushing,
        replica: TempDir,
        remote: Remote,
    }

    impl Both {
        fn new() -> Self {
            let index = Pushing::new();
            index.publish(1, &["a"]);
            let remote = Remote::of("memory://x", Arc::new(InMemory::new()), "x");
            Self { index, replica: TempDir::new().unwrap(), remote }
        }

        async fn push(&self) -> Vec<&'static str> {
            push(self.index.path(), &self.remote, &PushOptions::default(), &|| true).await.unwrap().learned
        }

        async fn pull(&self) -> Pulled {
            pull(&self.remote, self.replica.path(), &PullOptions::default(), &|| true).await.unwrap()
        }
    }

    #[tokio::test]
    async fn what_was_learned_moves_with_a_push_and_a_pull_of_its_own() {
        let both = Both::new();
        assert_eq!((both.push().await, both.pull().await.learned), (vec![], vec![]));
        // Learned after the generation was pushed.
        learn(both.index.path(), 0.7);
        assert_eq!((both.push().await, both.push().await), (vec![FUSION_FILE], vec![]));
        let pulled = both.pull().await;
        assert_eq!((pulled.is_new, pulled.learned), (false, vec![FetchedLearned::Fetched(FUSION_FILE)]));
        assert_eq!(weight(both.replica.path()), Some(0.7));
        assert_eq!(both.pull().await.learned, []);
        // What was learned in the replica is not lost; what mirrors a store takes the store's.
        learn(both.replica.path(), 0.3);
        assert_eq!(both.pull().await.learned, [FetchedLearned::Kept(FUSION_FILE)]);
        assert_eq!(weight(both.replica.path()), Some(0.3));
        let mirrored = fetch_learned(&both.remote, both.replica.path(), Precedence::Store).await.unwrap();
        assert_eq!((mirrored, weight(both.replica.path())), (vec![FetchedLearned::Fetched(FUSION_FILE)], Some(0.7)));
    }

    #[tokio::test]
    async fn what_cannot_be_read_takes_no_place() {
        let both = Both::new();
        both.push().await;
        both.remote.put(FUSION_FILE, b"{".to_vec()).await.unwrap();
        let [FetchedLearned::Refused(reason)] = &both.pull().await.learned[..] else { panic!("it is damaged") };
        assert!(reason.contains("memory://x") && reason.contains("fusion.json"), "{reason}");
        assert_eq!(weight(both.replica.path()), None);
    }
}
