//! The file of keys: JSON, written as a whole under a new name and renamed, readable by its owner alone.
//!
//! ```json
//! {"keys": [{"id": "3f9a0c12", "name": "web", "role": "read", "sha256": "...", "created_unix_s": 1764038400,
//!            "indexes": ["wiki"], "filter": {"equals": {"field": "tenant", "value": {"text": "acme"}}}, "concurrency": 8}]}
//! ```

use std::collections::HashSet;
use std::io;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Role;
use super::key_record::{KeyRecord, filter_to_json};
use crate::{strict_json, v1};

/// Bytes of the largest file that is read.
const LARGEST: u64 = 16 << 20;
/// What all keys begin with, so that tools that search for leaked secrets find them.
const PREFIX: &str = "dyad_";
/// Random bytes of a secret.
const SECRET: usize = 32;
/// Random bytes of an id.
const ID: usize = 6;
/// Time that a process waits for another one that changes the file, and between two looks.
const LOCK_TIME: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// A file of keys that cannot be read or written, or that is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The system's reason.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is no file of keys.
    #[error("`{path}`: {reason}. `dyad-searcher keys create --keys {path}` writes one")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the place in the file.
        reason: String,
    },
    /// Its keys are for other indexes than those of the server.
    #[error("`{path}`: {reason}")]
    Elsewhere {
        /// The file.
        path: PathBuf,
        /// The key, and the names.
        reason: String,
    },
    /// A key that cannot be created.
    #[error("{0}")]
    New(String),
    /// No key has this id or name.
    #[error("`{path}` has no key `{wanted}`. `dyad-searcher keys list --keys {path}` prints all")]
    NoKey {
        /// The file.
        path: PathBuf,
        /// As asked.
        wanted: String,
    },
    /// Several keys have this name.
    #[error("`{path}` has {count} keys named `{wanted}` that are not revoked. Give the id of one")]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// As asked.
        wanted: String,
        /// How many.
        count: usize,
    },
}

/// A key to create.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// For people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Indexes that its holder may name; all where there is none.
    pub indexes: Vec<String>,
    /// Documents that exist for its holder; all where absent.
    pub filter: Option<v1::Filter>,
    /// Calls that its holder may have under way; any number where absent.
    pub concurrency: Option<usize>,
}

/// All keys of a file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// In the order of their creation.
    pub keys: Vec<KeyRecord>,
}

impl KeyFile {
    /// Reads a file and checks every key of it.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let wrong = |reason: String| KeyFileError::Wrong {
            path: path.to_owned(),
            reason,
        };
        let bytes = fs_err::metadata(path)?.len();
        if bytes > LARGEST {
            return Err(wrong(format!("expected at most {LARGEST} bytes, got {bytes}")));
        }
        let json = fs_err::read(path)?;
        strict_json::check(&json).map_err(wrong)?;
        let file: Self = serde_json::from_slice(&json).map_err(|error| wrong(error.to_string()))?;
        let mut ids = HashSet::new();
        for (number, key) in file.keys.iter().enumerate() {
            let at = |reason: String| wrong(format!("keys[{number}] (`{}`): {reason}", key.name));
            key.check().map_err(at)?;
            if !ids.insert(&key.id) {
                return Err(at(format!("`id`: `{}` is that of another key too", key.id)));
            }
        }
        Ok(file)
    }

    /// Adds a key; returns it with its secret, which is stored nowhere.
    pub fn create(&mut self, new: NewKey) -> Result<String, KeyFileError> {
        let (mut id, mut secret) = ([0; ID], [0; SECRET]);
        for random in [&mut id[..], &mut secret] {
            getrandom::fill(random).map_err(|error| KeyFileError::Io(io::Error::other(error)))?;
        }
        let (id, secret) = (hex(&id), hex(&secret));
        let NewKey {
            name,
            role,
            indexes,
            filter,
            concurrency,
        } = new;
        let filter = filter
            .as_ref()
            .map(filter_to_json)
            .transpose()
            .map_err(KeyFileError::New)?;
        let record = KeyRecord {
            sha256: hex(&digest(&secret)),
            created_unix_s: now(),
            revoked_unix_s: None,
            id,
            name,
            role,
            indexes,
            filter,
            concurrency,
        };
        record.check().map_err(KeyFileError::New)?;
        let key = format!("{PREFIX}{}_{secret}", record.id);
        self.keys.push(record);
        Ok(key)
    }

    /// Marks the key with this id, or else the only one with this name, as revoked.
    pub fn revoke(&mut self, path: &Path, wanted: &str) -> Result<&KeyRecord, KeyFileError> {
        let valid = |key: &&mut KeyRecord| key.revoked_unix_s.is_none() && (key.id == wanted || key.name == wanted);
        let mut found: Vec<&mut KeyRecord> = self.keys.iter_mut().filter(valid).collect();
        found.sort_by_key(|key| key.id != wanted);
        let count = found.len();
        let by_id = found.first().is_some_and(|key| key.id == wanted);
        match found.into_iter().next() {
            Some(key) if count == 1 || by_id => {
                key.revoked_unix_s = Some(now());
                Ok(key)
            }
            Some(_) => Err(KeyFileError::Ambiguous {
                path: path.to_owned(),
                wanted: wanted.to_owned(),
                count,
            }),
            None => Err(KeyFileError::NoKey {
                path: path.to_owned(),
                wanted: wanted.to_owned(),
            }),
        }
    }

    /// Changes a file, which is made if it is not there. One process at a time does; the others wait for some seconds.
    pub fn change<T>(
        path: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, KeyFileError>,
    ) -> Result<T, KeyFileError> {
        // The file itself: a link to it would be replaced, and servers read what it pointed to.
        let path = &match fs_err::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            found => found?,
        };
        // A file of its own, because the other one is replaced.
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock = fs_err::OpenOptions::new()
            .create(true)
            .append(true)
            .open(PathBuf::from(lock_path))?;
        let until = Instant::now() + LOCK_TIME;
        while let Err(error) = lock.file().try_lock() {
            if Instant::now() >= until {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, format!("`{}`: {error}", path.display())).into());
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        let mut file = match Self::read(path) {
            Err(KeyFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            read => read?,
        };
        let changed = change(&mut file)?;
        file.write(path)?;
        Ok(changed)
    }

    /// Replaces the file; it, and the new name, are on the disk when this returns.
    fn write(&self, path: &Path) -> Result<(), KeyFileError> {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        // Readable by the owner alone; one that is replaced keeps its owner and mode, so that its server can still read
        // it.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        if let Ok(before) = fs_err::metadata(path) {
            let new = file.as_file().metadata()?;
            if (before.uid(), before.gid()) != (new.uid(), new.gid()) {
                std::os::unix::fs::fchown(file.as_file(), Some(before.uid()), Some(before.gid())).map_err(|error| {
                    let fix = "Run this as its owner, or as root";
                    io::Error::new(
                        error.kind(),
                        format!("`{}` cannot keep its owner: {error}. {fix}", path.display()),
                    )
                })?;
            }
            file.as_file().set_permissions(before.permissions())?;
        }
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        writeln!(file, "{text}")?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        fs_err::File::open(folder)?.sync_all()?;
        Ok(())
    }
}

/// Id and secret of a key; none where it has not the form of one.
pub(super) fn parts(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(PREFIX)?.split_once('_')
}

pub(super) fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| DIGITS.get(usize::from(digit)).copied().map(char::from))
        .collect()
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests;
