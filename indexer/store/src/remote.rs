//! A place in an object store that holds an index.

use std::path::Path as FilePath;
use std::sync::{Arc, Once};
use std::time::Duration;

use dyad_files::DirLock;
use dyad_index::manifest::{self, Manifest, POINTER};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{GetResult, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion};
// Declared for one feature: TLS without a cryptography of its own. `choose_cryptography` chooses.
use reqwest as _;
use url::Url;

use crate::error::{Error, Result};

/// Beginnings of the names of variables that hold credentials and settings of stores.
const VARIABLES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// How long a push to a directory waits for another one.
const PATIENCE: Duration = Duration::from_secs(10);

/// An opened place.
#[derive(Debug, Clone)]
pub struct RemoteStore {
    /// The URL as it was given, without a `/` at its end.
    url: String,
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The store is a directory, where a conditional put has to be made by a lock.
    is_directory: bool,
}

/// The current generation of a place.
#[derive(Debug, Clone)]
pub struct Current {
    /// The manifest of the current generation.
    pub manifest: Manifest,
    /// The manifest, byte for byte.
    pub bytes: Vec<u8>,
    /// The text of `CURRENT`.
    pub pointer: String,
    /// The version of `CURRENT`.
    version: UpdateVersion,
}

impl RemoteStore {
    /// Opens `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `file:///DIR`. Credentials, region
    /// and endpoint are those of the environment: `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `GOOGLE_SERVICE_ACCOUNT`,
    /// `AZURE_STORAGE_ACCOUNT_NAME` and so on.
    pub fn open(url: &str) -> Result<Self> {
        let refuse = |reason: String| Error::Url {
            url: without_secrets(url),
            reason,
        };
        let parsed = Url::parse(url).map_err(|error| refuse(error.to_string()))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(refuse("credentials belong into the environment".to_owned()));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(refuse(
                "expected nothing after `?` or `#`; settings belong into the environment".to_owned(),
            ));
        }
        let is_directory = parsed.scheme() == "file";
        if !is_directory {
            choose_cryptography();
        }
        // Variables that are no text are no settings of a store.
        let texts =
            std::env::vars_os().filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
        let options = texts.filter(|(name, _)| VARIABLES.iter().any(|known| name.starts_with(known)));
        let (store, prefix): (Arc<dyn ObjectStore>, Path) = if is_directory {
            let prefix = Path::from_url_path(parsed.path()).map_err(|error| refuse(error.to_string()))?;
            // What is put is on the disk before what names it.
            (Arc::new(LocalFileSystem::new().with_fsync(true)), prefix)
        } else {
            let opened = object_store::parse_url_opts(&parsed, options);
            let (store, prefix) = opened.map_err(|error| refuse(error.to_string()))?;
            (store.into(), prefix)
        };
        Ok(Self {
            url: parsed.as_str().trim_end_matches('/').to_owned(),
            store,
            prefix,
            is_directory,
        })
    }

    /// A place in a store that is open.
    pub fn from_store(url: &str, store: Arc<dyn ObjectStore>, prefix: &str) -> Self {
        Self {
            url: url.to_owned(),
            store,
            prefix: Path::from(prefix),
            is_directory: false,
        }
    }

    /// The URL, for messages.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn store(&self) -> &dyn ObjectStore {
        &*self.store
    }

    pub(crate) fn path(&self, name: &str) -> Path {
        name.split('/')
            .filter(|part| !part.is_empty())
            .fold(self.prefix.clone(), Path::join)
    }

    pub(crate) fn failed(&self, path: &str, action: &'static str) -> impl Fn(object_store::Error) -> Error + use<> {
        let (url, path) = (self.url.clone(), path.to_owned());
        move |source| Error::Store {
            url: url.clone(),
            path: path.clone(),
            action,
            source: Box::new(source),
        }
    }

    pub(crate) fn damaged(&self, path: &str, part: &'static str, expected: String, got: String) -> Error {
        Error::Damaged {
            url: self.url.clone(),
            path: path.to_owned(),
            part,
            expected,
            got,
        }
    }

    /// Whether the place has this manifest under the number of its generation.
    pub(crate) async fn has_manifest(&self, generation: u64, bytes: &[u8]) -> Result<bool> {
        let name = manifest::manifest_name(generation);
        let Some(found) = self.get(&name).await? else {
            return Ok(false);
        };
        Ok(found.bytes().await.map_err(self.failed(&name, "read"))? == bytes)
    }

    /// An object; none where it is not there.
    pub(crate) async fn get(&self, name: &str) -> Result<Option<GetResult>> {
        match self.store.get(&self.path(name)).await {
            Ok(found) => Ok(Some(found)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(name, "read")(error)),
        }
    }

    /// The text of `CURRENT` in one request; none where there is no index.
    pub async fn pointer(&self) -> Result<Option<String>> {
        let Some(found) = self.get(POINTER).await? else {
            return Ok(None);
        };
        let text = found.bytes().await.map_err(self.failed(POINTER, "read"))?;
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    /// The current generation; none where there is no index.
    pub async fn current(&self) -> Result<Option<Current>> {
        let Some(found) = self.get(POINTER).await? else {
            return Ok(None);
        };
        let version = UpdateVersion {
            e_tag: found.meta.e_tag.clone(),
            version: found.meta.version.clone(),
        };
        let text = found.bytes().await.map_err(self.failed(POINTER, "read"))?;
        let pointer = String::from_utf8_lossy(&text).into_owned();
        let place = FilePath::new(&self.url).join(POINTER);
        let (generation, checksum) = manifest::parse_pointer(&place, &pointer)?;
        let name = manifest::manifest_name(generation);
        let Some(found) = self.get(&name).await? else {
            return Err(self.damaged(&name, "object", "one".to_owned(), "none".to_owned()));
        };
        let bytes = found.bytes().await.map_err(self.failed(&name, "read"))?.to_vec();
        let got = crc32c::crc32c(&bytes);
        if got != checksum {
            return Err(self.damaged(&name, "checksum", format!("{checksum:08x}"), format!("{got:08x}")));
        }
        let manifest = manifest::parse(&FilePath::new(&self.url).join(&name), &bytes)?;
        Ok(Some(Current {
            manifest,
            bytes,
            pointer,
            version,
        }))
    }

    /// Moves `CURRENT` from what it was, or puts the first one; false where it is another one by now.
    pub(crate) async fn point(&self, was: Option<&Current>, pointer: &str) -> Result<bool> {
        let mode = match was {
            None => PutMode::Create,
            // A directory has no conditional put; a push holds its lock and has looked under it.
            Some(_) if self.is_directory => PutMode::Overwrite,
            Some(was) => PutMode::Update(was.version.clone()),
        };
        let options = PutOptions {
            mode,
            ..PutOptions::default()
        };
        match self
            .store
            .put_opts(&self.path(POINTER), pointer.to_owned().into(), options)
            .await
        {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(self.failed(POINTER, "move")(error)),
        }
    }

    /// Puts an object in the place of one with this content; false where there is another one by now, or none.
    pub async fn replace(&self, name: &str, was: &[u8], bytes: Vec<u8>) -> Result<bool> {
        // A directory has no conditional put.
        let _alone = self.alone()?;
        self.replace_alone(name, was, bytes).await
    }

    /// Puts an object where there is none (`was`), in the place of one with this content, or removes that; false where
    /// there is another one by now. A directory has to be locked by the caller.
    pub(crate) async fn change(&self, name: &str, was: Option<&[u8]>, to: Option<Vec<u8>>) -> Result<bool> {
        match (was, to) {
            (None, Some(bytes)) => self.put_new(name, bytes).await,
            (Some(was), Some(bytes)) => self.replace_alone(name, was, bytes).await,
            (_, None) => self.remove(&[name.to_owned()]).await.map(|()| true),
        }
    }

    async fn replace_alone(&self, name: &str, was: &[u8], bytes: Vec<u8>) -> Result<bool> {
        let Some(found) = self.get(name).await? else {
            return Ok(false);
        };
        let version = UpdateVersion {
            e_tag: found.meta.e_tag.clone(),
            version: found.meta.version.clone(),
        };
        if found.bytes().await.map_err(self.failed(name, "read"))? != was {
            return Ok(false);
        }
        let mode = if self.is_directory {
            PutMode::Overwrite
        } else {
            PutMode::Update(version)
        };
        let options = PutOptions {
            mode,
            ..PutOptions::default()
        };
        match self.store.put_opts(&self.path(name), bytes.into(), options).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(self.failed(name, "put")(error)),
        }
    }

    /// Whether it is a directory of this machine.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// The lock of a directory, which has no conditional put.
    pub(crate) fn alone(&self) -> Result<Option<DirLock>> {
        let directory = Url::parse(&self.url)
            .ok()
            .filter(|_| self.is_directory)
            .and_then(|url| url.to_file_path().ok());
        let Some(directory) = directory else { return Ok(None) };
        fs_err::create_dir_all(&directory)?;
        Ok(Some(
            DirLock::acquire(&directory, PATIENCE).map_err(|error| Error::Io(std::io::Error::other(error)))?,
        ))
    }
}

/// A URL for a message, also one that cannot be parsed: without user and password, and without what follows `?` or `#`.
pub fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.split(['?', '#']).next().unwrap_or_default().to_owned();
    };
    // A password may have characters that should have been encoded, such as `/`, and a signature a `@`: then nothing is
    // shown.
    let place = match rest.rsplit_once('@') {
        Some((secret, _)) if secret.contains(['?', '#']) => "...",
        Some((_, place)) => place,
        None => rest,
    };
    format!("{scheme}://{}", place.split(['?', '#']).next().unwrap_or_default())
}

/// The process's TLS cryptography, where nothing has chosen one.
fn choose_cryptography() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Another choice stands.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    /// Two attempts at a shard whose files were gone both found the record of the first one.
    #[tokio::test]
    async fn of_two_that_replace_an_object_one_does() {
        let folder = tempfile::TempDir::new().unwrap();
        let directory = RemoteStore::open(&format!("file://{}", folder.path().display())).unwrap();
        let store = RemoteStore::from_store("memory://x", Arc::new(InMemory::new()), "x");
        for remote in [directory, store] {
            let replace = async |was: &str, by: &str| remote.replace("done", was.as_bytes(), by.into()).await.unwrap();
            assert!(!replace("old", "new").await, "there is none");
            remote.put("done", "old".into()).await.unwrap();
            assert!(replace("old", "one").await);
            assert!(!replace("old", "other").await);
            assert_eq!(remote.read("done").await.unwrap().unwrap(), b"one");
        }
    }
}
