//! A generation of an index to an object store: its manifest reserves the number, then the files, then `CURRENT`.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use dyad_files::DirLock;
use dyad_index::manifest::{self, ReaderLock};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{ObjectStoreExt as _, PutMode, PutOptions, WriteMultipart};

use crate::error::{Error, Result};
use crate::files::{IndexFile, files_of};
use crate::remote::Remote;

/// Files that are transferred at once.
pub(crate) const AT_ONCE: usize = 4;
/// Bytes of a part of a large file, and of the largest that is put as one.
const PART: usize = 8 << 20;
/// Parts of a file on their way.
const PARTS: usize = 4;
/// How long a push to a directory waits for another one.
const PATIENCE: Duration = Duration::from_secs(10);

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
/// The store's current generation has to be one of the index's, or this one: an index that was changed elsewhere is not overwritten. Of two
/// pushes at once one wins, and the other is told. `go_on` is asked between files and parts.
pub async fn push(index: &Path, remote: &Remote, go_on: &(dyn Fn() -> bool + Sync)) -> Result<Pushed> {
    let current = manifest::current(index)?;
    let generation = current.generation;
    // No `gc` takes the files away.
    let _reading = ReaderLock::acquire(index, generation)?;
    let name = manifest::manifest_name(generation);
    let bytes = fs_err::read(index.join(&name))?;
    let pointer = manifest::pointer_to(generation, &bytes);
    let _alone = match remote.directory() {
        Some(directory) => {
            Some(DirLock::acquire(&directory, PATIENCE).map_err(|error| Error::Io(std::io::Error::other(error)))?)
        }
        None => None,
    };
    let there = remote.current().await?;
    if let Some(there) = &there {
        if there.pointer == pointer {
            let present = files_of(&current).len() as u64;
            return Ok(Pushed { generation, files: 0, bytes: 0, present, is_new: false });
        }
        if !is_ours(index, there.manifest.generation, &there.bytes)? {
            let (url, index) = (remote.url().to_owned(), index.to_owned());
            return Err(Error::OtherLineage { url, index, generation: there.manifest.generation });
        }
    }
    reserve(index, remote, &name, &bytes, generation).await?;
    let known: Vec<IndexFile> = there.as_ref().map(|there| files_of(&there.manifest)).unwrap_or_default();
    let files = files_of(&current);
    let transfers = stream::iter(&files).map(|file| put(index, remote, file, known.contains(file), go_on));
    let done: Vec<bool> = transfers.buffered(AT_ONCE).try_collect().await?;
    let is_put: u64 = done.iter().map(|put| u64::from(*put)).sum();
    if !remote.point(there.as_ref(), &pointer).await? {
        let now = remote.current().await?;
        // A request that was answered too late and sent again has done it.
        let generation_now = now.as_ref().map_or(0, |now| now.manifest.generation);
        if now.is_none_or(|now| now.pointer != pointer) {
            return Err(Error::Raced { url: remote.url().to_owned(), generation: generation_now });
        }
    }
    let bytes = files.iter().zip(&done).filter(|(_, put)| **put).map(|(file, _)| file.bytes).sum();
    Ok(Pushed { generation, files: is_put, bytes, present: done.len() as u64 - is_put, is_new: true })
}

/// Whether the index has a generation with this very manifest.
fn is_ours(index: &Path, generation: u64, bytes: &[u8]) -> Result<bool> {
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
    let mut source = fs_err::File::open(&local)?;
    let failed = remote.failed(&file.path, "put");
    let (mut checksum, mut length) = (0, 0);
    let mut read = || -> Result<Vec<u8>> {
        let mut part = Vec::new();
        source.by_ref().take(PART as u64).read_to_end(&mut part)?;
        (checksum, length) = (crc32c::crc32c_append(checksum, &part), length + part.len() as u64);
        Ok(part)
    };
    let first = read()?;
    if (first.len() as u64) == file.bytes {
        check(&local, file, checksum, length)?;
        remote.store().put(&path, first.into()).await.map_err(failed)?;
        return Ok(true);
    }
    let mut upload = WriteMultipart::new(remote.store().put_multipart(&path).await.map_err(&failed)?);
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
