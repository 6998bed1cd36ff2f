//! A generation of an index to an object store: its manifest reserves the number, then the files, then `CURRENT`.

use std::collections::BTreeMap;
use std::path::Path;

use dyad_files::write_atomic;
use dyad_index::manifest::{self, ReaderLock};

use crate::error::{Error, Result};
use crate::files::{IndexFile, files_of};
use crate::objects::{PushOptions, all};
use crate::remote::Remote;

/// File of an index that says what it has pushed where: a `CURRENT` for each URL, between tabs.
const PUSHED: &str = ".pushed";
/// What a push did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

/// Puts the current generation of an index to a store. Whatever ends it, readers of the store find the generation before, or all of this one;
/// pushing again goes on with the files that are missing.
///
/// The store's current generation has to be one of the index's, or what it has pushed last, or this one: an index that was changed elsewhere is
/// not overwritten. Of two pushes at once one wins, and the other is told. Nothing is removed from the store. `go_on` is asked between files and
/// parts.
pub async fn push(
    index: &Path,
    remote: &Remote,
    options: &PushOptions,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Pushed> {
    let current = manifest::current(index)?;
    let generation = current.generation;
    // No `gc` takes the files away.
    let _reading = ReaderLock::acquire(index, generation)?;
    let name = manifest::manifest_name(generation);
    let bytes = fs_err::read(index.join(&name))?;
    let pointer = manifest::pointer_to(generation, &bytes);
    let _alone = remote.alone()?;
    let there = remote.current().await?;
    if let Some(there) = &there {
        if there.pointer == pointer {
            let present = files_of(&current).len() as u64;
            note(index, remote, &pointer)?;
            return Ok(Pushed { generation, files: 0, bytes: 0, present, is_new: false });
        }
        let is_ours = pushed(index)?.get(remote.url()) == Some(&there.pointer)
            || has(index, there.manifest.generation, &there.bytes)?;
        if !is_ours {
            let (url, index) = (remote.url().to_owned(), index.to_owned());
            return Err(Error::OtherLineage { url, index, generation: there.manifest.generation });
        }
    }
    reserve(index, remote, &name, &bytes, generation).await?;
    let known: Vec<IndexFile> = there.as_ref().map(|there| files_of(&there.manifest)).unwrap_or_default();
    let files = files_of(&current);
    let one = async |file: &IndexFile, go_on: &(dyn Fn() -> bool + Sync)| {
        put(index, remote, file, known.contains(file), options, go_on).await
    };
    let done = all(&files, one, go_on).await?;
    let count = done.iter().map(|put| u64::from(*put)).sum();
    if !remote.point(there.as_ref(), &pointer).await? {
        let now = remote.current().await?;
        // A request that was answered too late and sent again has done it.
        let generation_now = now.as_ref().map_or(0, |now| now.manifest.generation);
        if now.is_none_or(|now| now.pointer != pointer) {
            return Err(Error::Raced { url: remote.url().to_owned(), generation: generation_now });
        }
    }
    note(index, remote, &pointer)?;
    let bytes = files.iter().zip(&done).filter(|(_, put)| **put).map(|(file, _)| file.entry.bytes).sum();
    Ok(Pushed { generation, files: count, bytes, present: done.len() as u64 - count, is_new: true })
}

/// What the index has pushed where: `CURRENT` by URL.
fn pushed(index: &Path) -> Result<BTreeMap<String, String>> {
    match fs_err::read_to_string(index.join(PUSHED)) {
        Ok(text) => {
            let lines = text.lines().filter_map(|line| line.split_once('\t'));
            Ok(lines.map(|(url, pointer)| (url.to_owned(), format!("{pointer}\n"))).collect())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error.into()),
    }
}

/// Notes what was pushed, so that the index still knows it when `gc` has removed the generation.
fn note(index: &Path, remote: &Remote, pointer: &str) -> Result<()> {
    let mut all = pushed(index)?;
    if all.insert(remote.url().to_owned(), pointer.to_owned()).is_some_and(|before| before == pointer) {
        return Ok(());
    }
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

/// Puts the manifest, by which the number of the generation, and with it the names of its files, belong to this index.
async fn reserve(index: &Path, remote: &Remote, name: &str, bytes: &[u8], generation: u64) -> Result<()> {
    if remote.put_new(name, bytes.to_vec()).await? {
        return Ok(());
    }
    if remote.read(name).await?.unwrap_or_default() == bytes {
        // Put again, which makes it new: `gc` removes an old manifest that was never published.
        return remote.put(name, bytes.to_vec()).await;
    }
    Err(Error::OtherLineage { url: remote.url().to_owned(), index: index.to_owned(), generation })
}

/// Puts a file that is not there; says whether it was put.
async fn put(
    index: &Path,
    remote: &Remote,
    file: &IndexFile,
    is_known: bool,
    options: &PushOptions,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<bool> {
    if !go_on() {
        return Err(Error::Interrupted);
    }
    if is_known || file.is_named_by_content && remote.has(&file.entry.path, file.entry.bytes).await? {
        return Ok(false);
    }
    remote.put_file(&index.join(&file.entry.path), &file.entry.path, &file.entry, options, go_on).await?;
    Ok(true)
}
