//! A generation of an index to an object store: its manifest reserves the number, then the files, then `CURRENT`.

use std::collections::BTreeMap;
use std::path::Path;

use dyad_files::{Cancel, write_atomic};
use dyad_index::manifest::{self, ReaderLock};
use dyad_index::storage::WriteLock;

use crate::error::{Error, Result};
use crate::files::{IndexFile, files_of};
use crate::learned::{Direction, LearnedMove, move_learned};
use crate::remote::RemoteStore;
use crate::transfers::{PushOptions, all};

/// File of an index that says what it has pushed where: a `CURRENT` for each URL, between tabs.
const PUSHED: &str = ".pushed";

/// What a push did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// The generation that is current there now.
    pub generation: u64,
    /// Files that were put, and their bytes.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Files that were there already.
    pub present: u64,
    /// Whether `CURRENT` was moved; it is not where it names the generation already.
    pub is_new: bool,
    /// What was learned for the index, where the store had it otherwise.
    pub learned: Vec<LearnedMove>,
}

/// Puts the current generation of an index to a store. Whatever ends it, readers of the store find the generation
/// before, or all of this one; pushing again goes on with the files that are missing.
///
/// The store's current generation has to be one of the index's, or what it has pushed last, or this one: an index that
/// was changed elsewhere is not overwritten. Of two pushes at once one wins, and the other is told. What was learned
/// for the index (`fusion.json`, `rerank.json`) goes with it, but not over what another index has learned and pushed
/// since. No generation is removed from the store. `cancel` is polled between files and parts.
pub async fn push(index: &Path, remote: &RemoteStore, options: &PushOptions, cancel: &dyn Cancel) -> Result<Pushed> {
    let current = manifest::current(index)?;
    let generation = current.generation;
    // No `gc` takes the files away.
    let _reading = ReaderLock::acquire(index, generation)?;
    let name = manifest::manifest_name(generation);
    let bytes = fs_err::read(index.join(&name))?;
    let pointer = manifest::pointer_to(generation, &bytes);
    let _alone = remote.alone()?;
    let there = remote.current().await?;
    let files = files_of(&current);
    if let Some(there) = &there {
        let is_ours = there.pointer == pointer
            || pushed(index)?.get(remote.url()) == Some(&there.pointer)
            || has(index, there.manifest.generation, &there.bytes)?;
        if !is_ours {
            let (url, index) = (remote.url().to_owned(), index.to_owned());
            return Err(Error::OtherLineage {
                url,
                index,
                generation: there.manifest.generation,
            });
        }
    }
    let manifest = NamedManifest {
        name: &name,
        bytes: &bytes,
    };
    // Before `CURRENT`, by which others look for what is new.
    let learned = move_learned(index, remote, Direction::Push).await;
    if there.as_ref().is_some_and(|there| there.pointer == pointer) {
        let found: Vec<&IndexFile> = files.iter().collect();
        let put = complete(index, remote, manifest, &found, options, cancel).await?;
        note(index, remote, &pointer)?;
        return Ok(Pushed {
            is_new: false,
            learned,
            ..Pushed::from_files(generation, &files, &put)
        });
    }
    remote
        .reserve(there.as_ref(), &name, generation, &bytes)
        .await
        .map_err(|error| match error {
            Error::Taken { url, .. } => Error::OtherLineage {
                url,
                index: index.to_owned(),
                generation,
            },
            error => error,
        })?;
    let known: Vec<IndexFile> = there
        .as_ref()
        .map(|there| files_of(&there.manifest))
        .unwrap_or_default();
    let one = async |file: &IndexFile, cancel: &dyn Cancel| {
        put(index, remote, file, known.contains(file), options, cancel).await
    };
    let done = all(&files, one, cancel).await?;
    if !remote.point(there.as_ref(), &pointer).await? {
        let now = remote.current().await?;
        // A request that was answered too late and sent again has done it.
        let generation_now = now.as_ref().map_or(0, |now| now.manifest.generation);
        if now.is_none_or(|now| now.pointer != pointer) {
            return Err(Error::Raced {
                url: remote.url().to_owned(),
                generation: generation_now,
            });
        }
    }
    remote.published(generation).await?;
    let found: Vec<&IndexFile> = files
        .iter()
        .zip(&done)
        .filter(|(_, put)| !**put)
        .map(|(file, _)| file)
        .collect();
    complete(index, remote, manifest, &found, options, cancel).await?;
    note(index, remote, &pointer)?;
    Ok(Pushed {
        learned,
        ..Pushed::from_files(generation, &files, &done)
    })
}

impl Pushed {
    /// Of files, and whether each was put.
    fn from_files(generation: u64, files: &[IndexFile], was_put: &[bool]) -> Self {
        let put = files
            .iter()
            .zip(was_put)
            .filter(|(_, put)| **put)
            .map(|(file, _)| file.entry.bytes);
        let count = put.clone().count() as u64;
        Self {
            generation,
            files: count,
            bytes: put.sum(),
            present: files.len() as u64 - count,
            is_new: true,
            learned: Vec::new(),
        }
    }
}

/// What the index has pushed where: `CURRENT` by URL.
fn pushed(index: &Path) -> Result<BTreeMap<String, String>> {
    match fs_err::read_to_string(index.join(PUSHED)) {
        Ok(text) => {
            let lines = text.lines().filter_map(|line| line.split_once('\t'));
            Ok(lines
                .map(|(url, pointer)| (url.to_owned(), format!("{pointer}\n")))
                .collect())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error.into()),
    }
}

/// Notes what was pushed, so that the index still knows it when `gc` has removed the generation. Under the index's
/// lock: another push, to another URL, may note its own.
fn note(index: &Path, remote: &RemoteStore, pointer: &str) -> Result<()> {
    if pushed(index)?.get(remote.url()).is_some_and(|before| before == pointer) {
        return Ok(());
    }
    let _lock = WriteLock::acquire(index)?;
    let mut all = pushed(index)?;
    all.insert(remote.url().to_owned(), pointer.to_owned());
    let text: Vec<String> = all.iter().map(|(url, pointer)| format!("{url}\t{pointer}")).collect();
    Ok(write_atomic(&index.join(PUSHED), text.concat().as_bytes())?)
}

/// Whether the index has a generation with this very manifest.
fn has(index: &Path, generation: u64, bytes: &[u8]) -> Result<bool> {
    match fs_err::read(index.join(manifest::manifest_name(generation))) {
        Ok(own) => Ok(own == bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A manifest as its file.
#[derive(Debug, Clone, Copy)]
struct NamedManifest<'a> {
    /// The name of the file.
    name: &'a str,
    /// The content of the file.
    bytes: &'a [u8],
}

/// Puts the manifest and the files that were `found` there, and are not any more: a `gc` that began before them may
/// have taken them away. Says of each file whether it was put.
async fn complete(
    index: &Path,
    remote: &RemoteStore,
    manifest: NamedManifest<'_>,
    found: &[&IndexFile],
    options: &PushOptions,
    cancel: &dyn Cancel,
) -> Result<Vec<bool>> {
    remote.put_new(manifest.name, manifest.bytes.to_vec()).await?;
    let one = async |file: &&IndexFile, cancel: &dyn Cancel| {
        let is_there = remote.has(&file.entry.path, file.entry.bytes).await?;
        if !is_there {
            remote
                .put_file(
                    &index.join(&file.entry.path),
                    &file.entry.path,
                    &file.entry,
                    options,
                    cancel,
                )
                .await?;
        }
        Ok(!is_there)
    };
    all(found, one, cancel).await
}

/// Puts a file that is not there; says whether it was put.
async fn put(
    index: &Path,
    remote: &RemoteStore,
    file: &IndexFile,
    is_known: bool,
    options: &PushOptions,
    cancel: &dyn Cancel,
) -> Result<bool> {
    if cancel.is_cancelled() {
        return Err(Error::Interrupted);
    }
    if is_known || file.is_named_by_content && remote.has(&file.entry.path, file.entry.bytes).await? {
        return Ok(false);
    }
    remote
        .put_file(
            &index.join(&file.entry.path),
            &file.entry.path,
            &file.entry,
            options,
            cancel,
        )
        .await?;
    Ok(true)
}

/// The same for the current generation, all of whose files were found.
#[cfg(test)]
pub(crate) async fn complete_current(index: &Path, remote: &RemoteStore) -> Result<Vec<bool>> {
    let current = manifest::current(index)?;
    let (name, files) = (manifest::manifest_name(current.generation), files_of(&current));
    let bytes = fs_err::read(index.join(&name))?;
    let found: Vec<&IndexFile> = files.iter().collect();
    complete(
        index,
        remote,
        NamedManifest {
            name: &name,
            bytes: &bytes,
        },
        &found,
        &PushOptions::default(),
        &dyad_files::Never,
    )
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn pushes_at_once_to_many_places_are_all_noted() {
        let index = tempfile::TempDir::new().unwrap();
        let urls: Vec<String> = (0..8).map(|number| format!("memory://{number}")).collect();
        std::thread::scope(|scope| {
            for url in &urls {
                let index = index.path();
                scope.spawn(move || {
                    let remote = RemoteStore::from_store(url, Arc::new(InMemory::new()), "x");
                    for generation in 1..=5 {
                        note(index, &remote, &format!("manifest-{generation:06}.json 00000000\n")).unwrap();
                    }
                });
            }
        });
        let noted = pushed(index.path()).unwrap();
        assert_eq!(noted.keys().collect::<Vec<_>>(), urls.iter().collect::<Vec<_>>());
        assert!(
            noted
                .values()
                .all(|pointer| pointer == "manifest-000005.json 00000000\n"),
            "{noted:?}"
        );
    }

    /// A directory is an index of this machine as well, where a manifest that `CURRENT` has never named is no
    /// generation.
    #[tokio::test]
    async fn what_a_killed_push_leaves_in_a_directory_was_never_published() {
        let index = crate::fixture::Pushing::new();
        let there = tempfile::TempDir::new().unwrap();
        let remote = RemoteStore::open(&format!("file://{}", there.path().display())).unwrap();
        let generations = || manifest::generations(there.path()).unwrap();
        index.publish(1, &["a"]);
        index.push(&remote).await.unwrap();
        assert_eq!(generations(), [1]);
        index.publish(2, &["a", "b"]);
        let error = push(index.path(), &remote, &PushOptions::default(), &|| true)
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
        assert!(there.path().join(manifest::manifest_name(2)).exists());
        assert_eq!(
            (generations(), manifest::load(there.path(), 2).is_err()),
            (vec![1], true)
        );
        // Again, and to the end; and the generation before stays one.
        index.push(&remote).await.unwrap();
        assert_eq!(generations(), [1, 2]);
        index.publish(3, &["c"]);
        index.push(&remote).await.unwrap();
        index.roll_back(2);
        push(index.path(), &remote, &PushOptions::default(), &|| true)
            .await
            .unwrap_err();
        assert_eq!(generations(), [1, 2, 3], "one that was published is not taken back");
    }
}
