//! Removes from a store what nothing needs: generations that were replaced long ago, and what killed pushes and jobs
//! have left.
//!
//! Manifests go first: one without its files would be worse than files without a manifest.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use dyad_index::manifest::{self, SHARD_FOLDERS};

use crate::error::{Error, Result};
use crate::files::files_of;
use crate::objects::Object;
use crate::remote::{Current, RemoteStore};

/// Files that are removed between two looks whether a push needs them.
const FILES_BETWEEN_LOOKS: usize = 256;

/// What was removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectedObjects {
    /// Generations whose manifests were removed, ascending.
    pub removed: Vec<u64>,
    /// Generations that are left.
    pub kept: Vec<u64>,
    /// Files that were removed.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// What is to be removed, and what the place was like when that was found.
struct Survey {
    collected: CollectedObjects,
    current: Option<Current>,
    /// All manifests, ascending by number.
    manifests: Vec<(u64, Object)>,
    /// Manifests that nothing needs.
    unneeded: Vec<String>,
    /// Files that no manifest names that is left.
    files: Vec<String>,
}

/// Removes all generations but the current one, the newest `keep` of those before it, and those whose manifests were
/// put within `older_than`; a manifest above the current one, which a push has left that was killed or a rollback, goes
/// by its age alone. Then files that no manifest names, put before `older_than`: it has to be longer than any push or
/// job takes. Nothing is removed where another generation becomes current meanwhile, or a manifest is put, as a push of
/// an old generation does first; such a push looks whether all is there when it is done, and puts what is not. Where a
/// push may have looked before the last file went, the error says to push again.
pub async fn gc(remote: &RemoteStore, keep: usize, older_than: Duration, dry_run: bool) -> Result<CollectedObjects> {
    let _alone = remote.alone()?;
    let survey = Survey::new(remote, keep, older_than).await?;
    if !dry_run {
        survey.remove(remote).await?;
    }
    Ok(survey.collected)
}

impl Survey {
    async fn new(remote: &RemoteStore, keep: usize, older_than: Duration) -> Result<Self> {
        let current = remote.current().await?;
        let now = SystemTime::now();
        let is_old = |object: &Object| now.duration_since(object.modified).is_ok_and(|age| age >= older_than);
        let manifests = remote.manifest_objects().await?;
        let objects = remote.list("").await?;
        let current_number = current.as_ref().map_or(0, |current| current.manifest.generation);
        let before = manifests.iter().filter(|(number, _)| *number < current_number).count();
        let oldest_kept = before.saturating_sub(keep.saturating_sub(1));
        let (mut collected, mut named, mut unneeded) = (CollectedObjects::default(), BTreeSet::new(), Vec::new());
        for (at, (generation, object)) in manifests.iter().enumerate() {
            let is_replaced = if *generation < current_number {
                at < oldest_kept
            } else {
                *generation > current_number
            };
            if is_replaced && is_old(object) {
                collected.removed.push(*generation);
                unneeded.push(object.name.clone());
                continue;
            }
            collected.kept.push(*generation);
            // Another job has removed it since it was listed.
            let Some(bytes) = remote.read(&object.name).await? else {
                return Err(Error::Raced {
                    url: remote.url().to_owned(),
                    generation: current_number,
                });
            };
            let manifest = manifest::parse(&std::path::Path::new(remote.url()).join(&object.name), &bytes)?;
            named.extend(files_of(&manifest).into_iter().map(|file| file.entry.path));
        }
        let is_ours = |name: &str| SHARD_FOLDERS.iter().any(|dir| name.split('/').next() == Some(dir));
        let unnamed = objects
            .iter()
            .filter(|object| is_ours(&object.name) && !named.contains(&object.name) && is_old(object));
        let mut files = Vec::new();
        for object in unnamed {
            collected.files += 1;
            collected.bytes += object.bytes;
            files.push(object.name.clone());
        }
        Ok(Self {
            collected,
            current,
            manifests,
            unneeded,
            files,
        })
    }

    /// Removes the manifests, and looks again before each part of the files goes, and when all have gone.
    async fn remove(&self, remote: &RemoteStore) -> Result<()> {
        self.look_again(remote, &[]).await?;
        remote.remove(&self.unneeded).await?;
        self.look_again(remote, &self.unneeded).await?;
        for files in self.files.chunks(FILES_BETWEEN_LOOKS) {
            remote.remove(files).await?;
            // A push that has begun meanwhile may have found a file that went after that.
            self.look_again(remote, &self.unneeded)
                .await
                .map_err(|error| match error {
                    Error::Raced { url, generation } => Error::RemovedUnderPush { url, generation },
                    error => error,
                })?;
        }
        Ok(())
    }

    /// An error where another generation is current by now, or the manifests are not the ones that were there, without
    /// those that were removed.
    async fn look_again(&self, remote: &RemoteStore, removed: &[String]) -> Result<()> {
        let now = remote.current().await?;
        let is_current = now.as_ref().map(|now| &now.pointer) == self.current.as_ref().map(|then| &then.pointer);
        let there = remote.manifest_objects().await?;
        let expected = self
            .manifests
            .iter()
            .filter(|(_, object)| !removed.contains(&object.name));
        if is_current && there.iter().eq(expected) {
            return Ok(());
        }
        let generation = now.map_or(0, |now| now.manifest.generation);
        Err(Error::Raced {
            url: remote.url().to_owned(),
            generation,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::ObjectStore;
    use object_store::memory::InMemory;

    use super::*;
    use dyad_files::Never;

    use crate::fixture::Pushing;
    use crate::pull::{PullOptions, pull};

    /// A push of an old generation puts its manifest again and takes the files that it finds: they must not be removed
    /// under it.
    #[tokio::test]
    async fn what_a_push_has_taken_up_meanwhile_is_not_removed() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let remote = RemoteStore::from_store("memory://wiki", store, "wiki");
        let index = Pushing::new();
        index.publish(1, &["a"]);
        index.push(&remote).await.unwrap();
        index.publish(2, &["b"]);
        index.push(&remote).await.unwrap();
        index.publish(3, &["b", "c"]);
        index.push(&remote).await.unwrap();
        let survey = Survey::new(&remote, 0, Duration::ZERO).await.unwrap();
        assert_eq!((&*survey.collected.removed, survey.collected.files), (&[1, 2][..], 1));
        index.roll_back(1);
        // Only the manifest is put again, by a push that is under way.
        let manifest = remote.read("manifest-000001.json").await.unwrap().unwrap();
        remote.put("manifest-000001.json", manifest).await.unwrap();
        let error = survey.remove(&remote).await.unwrap_err();
        assert!(matches!(error, Error::Raced { generation: 3, .. }), "{error}");
        index.push(&remote).await.unwrap();
        let error = survey.remove(&remote).await.unwrap_err();
        assert!(matches!(error, Error::Raced { generation: 1, .. }), "{error}");
        let replica = tempfile::TempDir::new().unwrap();
        let pulled = pull(&remote, replica.path(), &PullOptions::default(), &Never)
            .await
            .unwrap();
        assert_eq!((pulled.generation, pulled.files), (1, 1));
        // What is left is what a later one removes: generation 1 is current now, and those above it go by their age.
        let collected = gc(&remote, 0, Duration::ZERO, false).await.unwrap();
        assert_eq!(
            (collected.removed, collected.kept, collected.files),
            (vec![2, 3], vec![1], 2)
        );
    }

    /// Whatever is removed between a push's look for files and its end: it puts it again.
    #[tokio::test]
    async fn a_push_puts_again_what_was_removed_under_it() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let remote = RemoteStore::from_store("memory://wiki", store, "wiki");
        let index = Pushing::new();
        index.publish(1, &["a", "b"]);
        index.push(&remote).await.unwrap();
        index.publish(2, &["c"]);
        index.push(&remote).await.unwrap();
        index.roll_back(1);
        index.push(&remote).await.unwrap();
        let gone = ["manifest-000001.json", "shards/a/dense.dyad"].map(str::to_owned);
        remote.remove(&gone).await.unwrap();
        assert!(index.complete(&remote).await.unwrap() > 0);
        let replica = tempfile::TempDir::new().unwrap();
        let pulled = pull(&remote, replica.path(), &PullOptions::default(), &Never)
            .await
            .unwrap();
        assert_eq!((pulled.generation, pulled.files), (1, 2));
        assert_eq!(index.complete(&remote).await.unwrap(), 0);
    }

    /// It looks too late to keep the files, and a push that is made again puts them.
    #[tokio::test]
    async fn files_that_went_under_a_push_are_put_when_it_is_made_again() {
        let remote = RemoteStore::from_store("memory://wiki", Arc::new(InMemory::new()), "wiki");
        let index = Pushing::new();
        index.publish(1, &["a"]);
        index.push(&remote).await.unwrap();
        index.publish(2, &["b"]);
        index.push(&remote).await.unwrap();
        let survey = Survey::new(&remote, 0, Duration::ZERO).await.unwrap();
        remote.remove(&survey.unneeded).await.unwrap();
        // It finds the files that are still there, and ends.
        index.roll_back(1);
        index.push(&remote).await.unwrap();
        remote.remove(&survey.files).await.unwrap();
        let replica = tempfile::TempDir::new().unwrap();
        assert!(
            pull(&remote, replica.path(), &PullOptions::default(), &Never)
                .await
                .is_err()
        );
        let again = index.push(&remote).await.unwrap();
        assert!(again.files > 0 && again.bytes > 0 && !again.is_new, "{again:?}");
        assert_eq!(
            pull(&remote, replica.path(), &PullOptions::default(), &Never)
                .await
                .unwrap()
                .generation,
            1
        );
        assert_eq!(index.push(&remote).await.unwrap().files, 0);
    }
}
