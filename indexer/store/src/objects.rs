//! Objects of a place, one at a time or many: read, put where absent, transferred from and to files, listed, removed.

use std::io::{Read, Write as _};
use std::path::{Path as FilePath, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use dyad_index::manifest::FileEntry;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStoreExt as _, PutMode, PutOptions, WriteMultipart};

use crate::error::{Error, Result};
use crate::remote::RemoteStore;

/// Files that are transferred at once.
pub(crate) const AT_ONCE: usize = 4;
/// Parts of a file on their way.
const PARTS: usize = 4;
/// Most parts of a file, a little below what S3 allows.
const MOST_PARTS: u64 = 9_000;
/// Bytes of one request: a long file takes many short ones, each with its deadline and its retries.
const PIECE: u64 = 8 << 20;
/// Bytes of the largest object that is read whole: manifests, and plans of jobs.
const LARGEST_READ: u64 = 256 << 20;
/// End of the name of a file that is not whole.
pub(crate) const PARTIAL: &str = ".partial";
/// Objects that one request of S3 removes.
const REMOVED_AT_ONCE: usize = 1_000;

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

/// An object, as a listing tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Below the place, with `/`, as the store spells it.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was put.
    pub modified: SystemTime,
    /// What changes when the object is replaced; none where the store has none.
    pub version: Option<String>,
}

impl RemoteStore {
    /// An object whole, of at most 256 MiB; none where there is none.
    pub async fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(found) = self.get(name).await? else {
            return Ok(None);
        };
        if found.meta.size > LARGEST_READ {
            let (expected, got) = (format!("at most {LARGEST_READ} bytes"), found.meta.size.to_string());
            return Err(self.damaged(name, "length", expected, got));
        }
        Ok(Some(found.bytes().await.map_err(self.failed(name, "read"))?.to_vec()))
    }

    /// Puts an object where there is none of its name; false where there is one.
    pub async fn put_new(&self, name: &str, bytes: Vec<u8>) -> Result<bool> {
        let options = PutOptions {
            mode: PutMode::Create,
            ..PutOptions::default()
        };
        match self.store().put_opts(&self.path(name), bytes.into(), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(self.failed(name, "put")(error)),
        }
    }

    /// Puts an object, in the place of one of its name.
    pub async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        self.store()
            .put(&self.path(name), bytes.into())
            .await
            .map(drop)
            .map_err(self.failed(name, "put"))
    }

    /// Whether all of these files are below `name`, by their lengths.
    pub async fn has_directory(&self, name: &str, files: &[FileEntry]) -> Result<bool> {
        let listed = self.list(name).await?;
        let is_there = |file: &FileEntry| {
            let object = format!("{name}/{}", file.path);
            let at = listed.binary_search_by(|listed| listed.name.as_str().cmp(&object));
            at.ok()
                .and_then(|at| listed.get(at))
                .is_some_and(|listed| listed.bytes == file.bytes)
        };
        Ok(files.iter().all(is_there))
    }

    /// Whether there is an object of this name and length.
    pub async fn has(&self, name: &str, bytes: u64) -> Result<bool> {
        match self.store().head(&self.path(name)).await {
            Ok(found) => Ok(found.size == bytes),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed(name, "look for")(error)),
        }
    }

    /// Puts the files of a directory below `name`, which holds a digest of their content: those that are there already
    /// are not put again. Returns the bytes that were put.
    pub async fn put_directory(
        &self,
        local: &FilePath,
        name: &str,
        files: &[FileEntry],
        options: &PushOptions,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<u64> {
        let put = async |file: &FileEntry, go_on: &(dyn Fn() -> bool + Sync)| {
            let object = format!("{name}/{}", file.path);
            if self.has(&object, file.bytes).await? {
                return Ok(0);
            }
            self.put_file(&local.join(&file.path), &object, file, options, go_on)
                .await?;
            Ok(file.bytes)
        };
        Ok(all(files, put, go_on).await?.iter().sum())
    }

    /// Fetches the objects below `name` into a directory and verifies them; names that lead out of it are refused. What
    /// an earlier call has fetched is kept.
    pub async fn fetch_directory(
        &self,
        name: &str,
        files: &[FileEntry],
        to: &FilePath,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<()> {
        let fetch = async |file: &FileEntry, go_on: &(dyn Fn() -> bool + Sync)| {
            if !is_plain(&file.path) {
                let (expected, got) = (
                    "a path below its folder".to_owned(),
                    format!("`{}`", file.path.escape_debug()),
                );
                return Err(self.damaged(name, "name of a file", expected, got));
            }
            self.fetch_file(&format!("{name}/{}", file.path), file, &to.join(&file.path), go_on)
                .await
        };
        all(files, fetch, go_on).await.map(drop)
    }

    /// Puts a file, if it is what `facts` says.
    pub(crate) async fn put_file(
        &self,
        local: &FilePath,
        name: &str,
        facts: &FileEntry,
        options: &PushOptions,
        go_on: &(dyn Fn() -> bool + Sync),
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
            if !go_on() {
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
        go_on: &(dyn Fn() -> bool + Sync),
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
            let Some(piece) = self.piece(&self.path(name), name, range, None, go_on).await? else {
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

    /// Hands bytes `range` of a listed object to `sink`, piece by piece. Refused where the object is not the one of
    /// `version` any more.
    pub async fn read_range(
        &self,
        name: &str,
        range: std::ops::Range<u64>,
        version: Option<&str>,
        go_on: &(dyn Fn() -> bool + Sync),
        sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<()> {
        let path = self.listed(name)?;
        let mut at = range.start;
        while at < range.end {
            let piece = self
                .piece(&path, name, at..(at + PIECE).min(range.end), version, go_on)
                .await?;
            let Some(piece) = piece.filter(|piece| !piece.is_empty()) else {
                let (expected, got) = (format!("{} bytes", range.end), format!("{at}"));
                return Err(Error::Changed {
                    url: self.url().to_owned(),
                    path: name.to_owned(),
                    expected,
                    got,
                });
            };
            sink(&piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    async fn piece(
        &self,
        path: &Path,
        name: &str,
        range: std::ops::Range<u64>,
        version: Option<&str>,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<bytes::Bytes>> {
        if !go_on() {
            return Err(Error::Interrupted);
        }
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            if_match: version.map(str::to_owned),
            ..GetOptions::default()
        };
        let found = match self.store().get_opts(path, options).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(object_store::Error::Precondition { .. }) => {
                let expected = format!("version {}", version.unwrap_or_default());
                let (url, path) = (self.url().to_owned(), name.to_owned());
                return Err(Error::Changed {
                    url,
                    path,
                    expected,
                    got: "another version".to_owned(),
                });
            }
            Err(error) => return Err(self.failed(name, "read")(error)),
        };
        Ok(Some(found.bytes().await.map_err(self.failed(name, "read"))?))
    }

    /// The path of an object by its name in a listing.
    fn listed(&self, name: &str) -> Result<Path> {
        let prefix = self.path("");
        let full = if prefix.as_ref().is_empty() {
            name.to_owned()
        } else {
            format!("{prefix}/{name}")
        };
        Path::parse(full).map_err(|error| self.failed(name, "find")(error.into()))
    }

    /// All objects below `prefix`, which ends a part of their names; by name.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Object>> {
        let (from, place) = (self.path(prefix), self.path(""));
        let object = |meta: object_store::ObjectMeta| {
            let parts = meta.location.prefix_match(&place)?;
            let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
            let (modified, version) = (meta.last_modified.into(), meta.e_tag);
            Some(Object {
                name: parts.join("/"),
                bytes: meta.size,
                modified,
                version,
            })
        };
        let found = self
            .store()
            .list(Some(&from))
            .try_filter_map(async |meta| Ok(object(meta)));
        let mut found: Vec<Object> = found.try_collect().await.map_err(self.failed(prefix, "list"))?;
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// Removes listed objects; those that are gone already are no error.
    pub async fn remove(&self, names: &[String]) -> Result<()> {
        for names in names.chunks(REMOVED_AT_ONCE) {
            let paths = names.iter().map(|name| self.listed(name)).collect::<Result<Vec<_>>>()?;
            let paths = stream::iter(paths.into_iter().map(Ok)).boxed();
            let mut removed = self.store().delete_stream(paths);
            while let Some(one) = removed.next().await {
                match one {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(self.failed(names.first().map_or("", String::as_str), "remove")(error)),
                }
            }
        }
        Ok(())
    }
}

/// Whether a path stays below where it is joined to.
pub fn is_plain(path: &str) -> bool {
    let parts = FilePath::new(path).components();
    !path.is_empty()
        && parts
            .into_iter()
            .all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// Transfers files, some at once. One that fails tells the others to stop; all of them end, so that none leaves parts
/// in the store.
pub(crate) async fn all<T, R>(
    items: &[T],
    one: impl AsyncFn(&T, &(dyn Fn() -> bool + Sync)) -> Result<R>,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<R>> {
    let has_failed = AtomicBool::new(false);
    let go_on = || !has_failed.load(Ordering::Relaxed) && go_on();
    let one = async |item| {
        let done = one(item, &go_on).await;
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
