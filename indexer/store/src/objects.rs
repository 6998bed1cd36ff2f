//! Objects of a place, one at a time or many: read, put where absent, listed, removed.

use std::path::Path as FilePath;
use std::time::SystemTime;

use dyad_files::Cancel;
use dyad_index::manifest::FileEntry;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStoreExt as _, PutMode, PutOptions};

use crate::error::{Error, Result};
use crate::remote::RemoteStore;

/// Bytes of one request: a long file takes many short ones, each with its deadline and its retries.
pub(crate) const PIECE: u64 = 8 << 20;
/// Bytes of the largest object that is read whole: manifests, and plans of jobs.
const LARGEST_READ: u64 = 256 << 20;
/// Objects that one request of S3 removes.
const REMOVED_AT_ONCE: usize = 1_000;

/// An object, as a listing tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Below the place, with `/`, as the store spells it.
    pub name: String,
    /// The length of the object in bytes.
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

    /// Hands bytes `range` of a listed object to `sink`, piece by piece. Refused where the object is not the one of
    /// `version` any more.
    pub async fn read_range(
        &self,
        name: &str,
        range: std::ops::Range<u64>,
        version: Option<&str>,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<()> {
        let path = self.listed(name)?;
        let mut at = range.start;
        while at < range.end {
            let piece = self
                .piece(&path, name, at..(at + PIECE).min(range.end), version, cancel)
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

    pub(crate) async fn piece(
        &self,
        path: &Path,
        name: &str,
        range: std::ops::Range<u64>,
        version: Option<&str>,
        cancel: &dyn Cancel,
    ) -> Result<Option<bytes::Bytes>> {
        if cancel.is_cancelled() {
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
        let found = self
            .store()
            .list(Some(&from))
            .try_filter_map(async |meta| Ok(object_below(&place, meta)));
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

/// A listed object by its name below a place.
fn object_below(place: &Path, meta: object_store::ObjectMeta) -> Option<Object> {
    let parts = meta.location.prefix_match(place)?;
    let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
    Some(Object {
        name: parts.join("/"),
        bytes: meta.size,
        modified: meta.last_modified.into(),
        version: meta.e_tag,
    })
}

/// Whether a path stays below where it is joined to.
pub fn is_plain(path: &str) -> bool {
    let parts = FilePath::new(path).components();
    !path.is_empty()
        && parts
            .into_iter()
            .all(|part| matches!(part, std::path::Component::Normal(_)))
}
