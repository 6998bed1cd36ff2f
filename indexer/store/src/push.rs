//! A generation of an index to an object store: its manifest reserves the number, then the files, then `CURRENT`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyad_files::{DirLock, write_atomic};
use dyad_index::manifest::{self, ReaderLock};
use futures_util::{StreamExt as _, stream};
use object_store::{ObjectStoreExt as _, PutMode, PutOptions, WriteMultipart};

use crate::error::{Error, Result};
use crate::files::{IndexFile, files_of};
use crate::remote::Remote;

/// Files that are transferred at once.
pub(crate) const AT_ONCE: usize = 4;
/// Parts of a file on their way.
const PARTS: usize = 4;
/// Most parts of a file, a little below what S3 allows.
const MOST_PARTS: u64 = 9_000;
/// File of an index that says what it has pushed where: a `CURRENT` for each URL, between tabs.
const PUSHED: &str = ".pushed";
/// How long a push to a directory waits for another one.
const PATIENCE: Duration = Duration::from_secs(10);

/// How an index is pushed.
#[derive(Debug, Clone, Copy)]
pub struct PushOptions {
    /// Bytes of a part of a large file, and of the largest that is put as one; S3 takes at least 5 MiB. Files of more than 9,000 parts have
    /// larger ones.
    pub part_bytes: usize,
}

impl Default for PushOptions {
    fn default() -> Self {
        Self { part_bytes: 8 << 20 }
    }
}

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
    let _alone = match remote.directory() {
        Some(directory) => {
            fs_err::create_dir_all(&directory)?;
            Some(DirLock::acquire(&directory, PATIENCE).map_err(|error| Error::Io(std::io::Error::other(error)))?)
        }
        None => None,
    };
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
    // One that fails tells the others to stop; all of them end, so that none leaves parts in the store.
    let has_failed = AtomicBool::new(false);
    let go_on = || !has_failed.load(Ordering::Relaxed) && go_on();
    let one = async |file: &IndexFile| {
        let done = put(index, remote, file, known.contains(file), options, &go_on).await;
        has_failed.fetch_or(done.is_err(), Ordering::Relaxed);
        done
    };
    let done: Vec<Result<bool>> = stream::iter(&files).map(one).buffered(AT_ONCE).collect().await;
    let done = first_failure(done)?;
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
    let bytes = files.iter().zip(&done).filter(|(_, put)| **put).map(|(file, _)| file.bytes).sum();
    Ok(Pushed { generation, files: count, bytes, present: done.len() as u64 - count, is_new: true })
}

/// All results; or a failure, rather than the stop of others that it has caused.
pub(crate) fn first_failure<T>(done: Vec<Result<T>>) -> Result<Vec<T>> {
    let mut all = Vec::with_capacity(done.len());
    let mut failure = None;
    for one in done {
        match one {
            Ok(one) => all.push(one),
            Err(error) if failure.is_none() || !matches!(error, Error::Interrupted) => failure = Some(error),
            Err(_) => {}
        }
    }
    failure.map_or(Ok(all), Err)
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
    let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    match remote.store().put_opts(&remote.path(name), bytes.to_vec().into(), options).await {
        Ok(_) => Ok(()),
        Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
            let there = match remote.get(name).await? {
                Some(found) => found.bytes().await.map_err(remote.failed(name, "read"))?.to_vec(),
                None => Vec::new(),
            };
            if there == bytes {
                return Ok(());
            }
            Err(Error::OtherLineage { url: remote.url().to_owned(), index: index.to_owned(), generation })
        }
        Err(error) => Err(remote.failed(name, "put")(error)),
    }
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
    let path = remote.path(&file.path);
    if is_known {
        return Ok(false);
    }
    if file.is_named_by_content {
        match remote.store().head(&path).await {
            Ok(found) if found.size == file.bytes => return Ok(false),
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(remote.failed(&file.path, "look for")(error)),
        }
    }
    let local = index.join(&file.path);
    let part_bytes = options.part_bytes.max(usize::try_from(file.bytes / MOST_PARTS).unwrap_or(usize::MAX)).max(1);
    let mut source = fs_err::File::open(&local)?;
    let failed = remote.failed(&file.path, "put");
    let (mut checksum, mut length) = (0, 0);
    let mut read = || -> Result<Vec<u8>> {
        let mut part = Vec::new();
        source.by_ref().take(part_bytes as u64).read_to_end(&mut part)?;
        (checksum, length) = (crc32c::crc32c_append(checksum, &part), length + part.len() as u64);
        Ok(part)
    };
    let first = read()?;
    if (first.len() as u64) == file.bytes {
        check(&local, file, checksum, length)?;
        remote.store().put(&path, first.into()).await.map_err(failed)?;
        return Ok(true);
    }
    let upload = remote.store().put_multipart(&path).await.map_err(&failed)?;
    let mut upload = WriteMultipart::new_with_chunk_size(upload, part_bytes);
    let mut part = first;
    let outcome = loop {
        if !go_on() {
            break Err(Error::Interrupted);
        }
        if part.is_empty() {
            break check(&local, file, checksum, length);
        }
        if let Err(error) = upload.wait_for_capacity(PARTS).await {
            break Err(failed(error));
        }
        upload.put(part.into());
        part = match read() {
            Ok(part) => part,
            Err(error) => break Err(error),
        };
    };
    match outcome {
        Ok(()) => upload.finish().await.map(|_| true).map_err(failed),
        // Nothing of it may stay, nor be seen.
        Err(error) => {
            drop(upload.abort().await);
            Err(error)
        }
    }
}

/// A file that is not what the manifest says is not put.
fn check(path: &Path, file: &IndexFile, checksum: u32, length: u64) -> Result<()> {
    if (length, checksum) == (file.bytes, file.crc32c) {
        return Ok(());
    }
    let (expected, got) =
        (format!("{} bytes, {:08x}", file.bytes, file.crc32c), format!("{length} bytes, {checksum:08x}"));
    Err(Error::DamagedFile { path: path.to_owned(), part: "length and checksum", expected, got })
}
