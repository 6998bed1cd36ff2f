//! Files to objects and back: in parts, several at once, verified by length and checksum.

use std::io::{Read, Write as _};
use std::path::{Path as FilePath, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use dyad_files::Cancel;
use dyad_index::manifest::FileEntry;
use futures_util::{StreamExt as _, stream};
use object_store::{ObjectStoreExt as _, WriteMultipart};

use crate::error::{Error, Result};
use crate::objects::{PIECE, is_plain};
use crate::remote::RemoteStore;

/// Files that are transferred at once.
pub(crate) const AT_ONCE: usize = 4;
/// Parts of a file on their way.
const PARTS: usize = 4;
/// Most parts of a file, a little below what S3 allows.
const MOST_PARTS: u64 = 9_000;
/// End of the name of a file that is not whole.
pub(crate) const PARTIAL: &str = ".partial";

/// How files are put.
#[derive(Debug, Clone, Copy)]
pub struct PushOptions {
    /// Bytes of a part of a large file, and of the largest that is put as one; S3 takes at least 5 MiB. Files of more
    /// than 9,000 parts have larger ones.
    pub part_bytes: usize,
}

impl Default for PushOptions {
    fn default() -> Self {
        Self { part_bytes: 8 << 20 }
    }
}

impl RemoteStore {
    /// Puts the files of a directory below `name`, which holds a digest of their content: those that are there already
    /// are not put again. Returns the bytes that were put.
    pub async fn put_directory(
        &self,
        local: &FilePath,
        name: &str,
        files: &[FileEntry],
        options: &PushOptions,
        cancel: &dyn Cancel,
    ) -> Result<u64> {
        let put = async |file: &FileEntry, cancel: &dyn Cancel| {
            let object = format!("{name}/{}", file.path);
            if self.has(&object, file.bytes).await? {
                return Ok(0);
            }
            self.put_file(&local.join(&file.path), &object, file, options, cancel)
                .await?;
            Ok(file.bytes)
        };
        Ok(all(files, put, cancel).await?.iter().sum())
    }

    /// Fetches the objects below `name` into a directory and verifies them; names that lead out of it are refused. What
    /// an earlier call has fetched is kept.
    pub async fn fetch_directory(
        &self,
        name: &str,
        files: &[FileEntry],
        to: &FilePath,
        cancel: &dyn Cancel,
    ) -> Result<()> {
        let fetch = async |file: &FileEntry, cancel: &dyn Cancel| {
            if !is_plain(&file.path) {
                let (expected, got) = (
                    "a path below its folder".to_owned(),
                    format!("`{}`", file.path.escape_debug()),
                );
                return Err(self.damaged(name, "name of a file", expected, got));
            }
            self.fetch_file(&format!("{name}/{}", file.path), file, &to.join(&file.path), cancel)
                .await
        };
        all(files, fetch, cancel).await.map(drop)
    }

    /// Puts a file, if it is what `facts` says.
    pub(crate) async fn put_file(
        &self,
        local: &FilePath,
        name: &str,
        facts: &FileEntry,
        options: &PushOptions,
        cancel: &dyn Cancel,
    ) -> Result<()> {
        let path = self.path(name);
        let most = usize::try_from(facts.bytes / MOST_PARTS).unwrap_or(usize::MAX);
        let part_bytes = options.part_bytes.max(most).max(1);
        let mut source = fs_err::File::open(local)?;
        let failed = self.failed(name, "put");
        let (mut checksum, mut length) = (0, 0);
        let mut read = || -> Result<Vec<u8>> {
            let mut part = Vec::new();
            Read::by_ref(&mut source)
                .take(part_bytes as u64)
                .read_to_end(&mut part)?;
            (checksum, length) = (crc32c::crc32c_append(checksum, &part), length + part.len() as u64);
            Ok(part)
        };
        let first = read()?;
        if (first.len() as u64) == facts.bytes {
            check(local, facts, checksum, length)?;
            self.store().put(&path, first.into()).await.map_err(failed)?;
            return Ok(());
        }
        let upload = self.store().put_multipart(&path).await.map_err(&failed)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, part_bytes);
        let mut part = first;
        let outcome = loop {
            if cancel.is_cancelled() {
                break Err(Error::Interrupted);
            }
            if part.is_empty() {
                break check(local, facts, checksum, length);
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
            Ok(()) => upload.finish().await.map(drop).map_err(failed),
            // Nothing of it may stay, nor be seen.
            Err(error) => {
                drop(upload.abort().await);
                Err(error)
            }
        }
    }

    /// Fetches an object into a file, from where an earlier fetch was ended, and verifies it by `facts`.
    pub(crate) async fn fetch_file(
        &self,
        name: &str,
        facts: &FileEntry,
        to: &FilePath,
        cancel: &dyn Cancel,
    ) -> Result<()> {
        if let Some(parent) = to.parent() {
            fs_err::create_dir_all(parent)?;
        }
        let partial = PathBuf::from(format!("{}{PARTIAL}", to.display()));
        let mut out = fs_err::OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(&partial)?;
        let (mut length, mut checksum) = read_so_far(&mut out, facts.bytes)?;
        while length < facts.bytes {
            let range = length..(length + PIECE).min(facts.bytes);
            let Some(piece) = self.piece(&self.path(name), name, range, None, cancel).await? else {
                return Err(self.damaged(name, "object", "one".to_owned(), "none".to_owned()));
            };
            if piece.is_empty() {
                break;
            }
            out.write_all(&piece)?;
            (checksum, length) = (crc32c::crc32c_append(checksum, &piece), length + piece.len() as u64);
        }
        if (length, checksum) != (facts.bytes, facts.crc32c) {
            // Nothing of it is of use.
            fs_err::remove_file(&partial)?;
            let say = |bytes: u64, checksum: u32| format!("{bytes} bytes, {checksum:08x}");
            let (expected, got) = (say(facts.bytes, facts.crc32c), say(length, checksum));
            return Err(self.damaged(name, "length and checksum", expected, got));
        }
        out.sync_all()?;
        fs_err::rename(&partial, to)?;
        Ok(())
    }
}

/// Transfers files, some at once. One that fails tells the others to stop; all of them end, so that none leaves parts
/// in the store.
pub(crate) async fn all<T, R>(
    items: &[T],
    one: impl AsyncFn(&T, &dyn Cancel) -> Result<R>,
    cancel: &dyn Cancel,
) -> Result<Vec<R>> {
    let has_failed = AtomicBool::new(false);
    let cancel = || has_failed.load(Ordering::Relaxed) || cancel.is_cancelled();
    let one = async |item| {
        let done = one(item, &cancel).await;
        has_failed.fetch_or(done.is_err(), Ordering::Relaxed);
        done
    };
    let done: Vec<Result<R>> = stream::iter(items).map(one).buffered(AT_ONCE).collect().await;
    first_failure(done)
}

/// All results; or a failure, rather than the stop of others that it has caused.
fn first_failure<T>(done: Vec<Result<T>>) -> Result<Vec<T>> {
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

/// Length and checksum of what an earlier fetch has left; what is longer than the whole is thrown away.
fn read_so_far(out: &mut fs_err::File, whole: u64) -> Result<(u64, u32)> {
    let (mut length, mut checksum, mut buffer) = (0, 0, vec![0; 1 << 20]);
    if out.metadata()?.len() > whole {
        out.set_len(0)?;
    }
    loop {
        let read = out.read(&mut buffer)?;
        let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else {
            return Ok((length, checksum));
        };
        (checksum, length) = (crc32c::crc32c_append(checksum, piece), length + read as u64);
    }
}

/// A file that is not what is said of it is not put.
fn check(path: &FilePath, facts: &FileEntry, checksum: u32, length: u64) -> Result<()> {
    if (length, checksum) == (facts.bytes, facts.crc32c) {
        return Ok(());
    }
    let (expected, got) = (
        format!("{} bytes, {:08x}", facts.bytes, facts.crc32c),
        format!("{length} bytes, {checksum:08x}"),
    );
    Err(Error::DamagedFile {
        path: path.to_owned(),
        part: "length and checksum",
        expected,
        got,
    })
}
