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
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn new_key(name: &str, role: Role) -> NewKey {
        NewKey {
            name: name.into(),
            role,
            indexes: Vec::new(),
            filter: None,
            concurrency: None,
        }
    }

    #[test]
    fn a_file_has_no_secret_and_is_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let condition = v1::filter::Condition::Exists(v1::FieldExists { field: "tenant".into() });
        let filter = Some(v1::Filter {
            condition: Some(condition),
        });
        let restricted = NewKey {
            indexes: vec!["wiki".into()],
            filter,
            concurrency: Some(2),
            ..new_key("a", Role::Read)
        };
        let create = |new| KeyFile::change(&path, |file| file.create(new)).unwrap();
        let keys = [create(restricted), create(new_key("b", Role::Admin))];
        let text = fs_err::read_to_string(&path).unwrap();
        for key in &keys {
            let (id, secret) = parts(key).unwrap();
            assert!(
                text.contains(id) && !text.contains(secret) && secret.len() == 64,
                "{key}"
            );
        }
        assert_eq!(fs_err::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = KeyFile::read(&path).unwrap();
        assert_eq!(
            read.keys[0].filter,
            Some(serde_json::json!({"exists": {"field": "tenant"}}))
        );
        assert_eq!(read.keys[0].digest(), digest(parts(&keys[0]).unwrap().1));
        assert_ne!(keys[0], keys[1]);
    }

    #[test]
    fn changes_at_the_same_time_are_all_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| KeyFile::change(&path, |file| file.create(new_key("a", Role::Read))).unwrap());
            }
        });
        assert_eq!(KeyFile::read(&path).unwrap().keys.len(), 8);
        // A change that fails leaves the file as it is.
        let failed: Result<(), _> = KeyFile::change(&path, |file| {
            file.keys.clear();
            Err(KeyFileError::New("no".into()))
        });
        assert!(failed.is_err() && KeyFile::read(&path).unwrap().keys.len() == 8);
    }

    #[test]
    fn a_link_stays_one_and_a_file_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("keys.json"), folder.path().join("link.json"));
        KeyFile::change(&path, |file| file.create(new_key("a", Role::Read))).unwrap();
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        KeyFile::change(&link, |file| file.revoke(&link, "a").map(drop)).unwrap();
        assert!(fs_err::symlink_metadata(&link).unwrap().is_symlink());
        assert!(KeyFile::read(&path).unwrap().keys[0].revoked_unix_s.is_some());
        assert_eq!(fs_err::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn one_key_is_revoked_and_never_a_guess() {
        let mut file = KeyFile::default();
        for name in ["a", "b", "b"] {
            file.create(new_key(name, Role::Read)).unwrap();
        }
        let path = Path::new("keys.json");
        let refused = |file: &mut KeyFile, wanted: &str| file.revoke(path, wanted).unwrap_err().to_string();
        assert!(refused(&mut file, "b").contains("2 keys named `b`"));
        assert!(refused(&mut file, "c").contains("no key `c`"));
        let second = file.keys[1].id.clone();
        assert_eq!(file.revoke(path, &second).unwrap().id, second);
        assert_eq!(file.revoke(path, "b").unwrap().name, "b");
        assert!(refused(&mut file, "b").contains("no key `b`"));
        assert!(file.keys[0].revoked_unix_s.is_none() && file.keys[2].revoked_unix_s.is_some());
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let key = |extra: &str| {
            let sha256 = "0".repeat(64);
            format!(r#"{{"id": "ab", "name": "n", "role": "read", "sha256": "{sha256}", "created_unix_s": 1{extra}}}"#)
        };
        for (text, expected) in [
            ("", "EOF"),
            (r#"{"keys": [], "more": 1}"#, "unknown field `more`"),
            (
                &format!(r#"{{"keys": [{}]}}"#, key(r#", "rol": 1"#)),
                "unknown field `rol`",
            ),
            (
                &format!(r#"{{"keys": [{0}, {0}]}}"#, key("")),
                "keys[1] (`n`): `id`: `ab` is that of another key",
            ),
            (
                &format!(r#"{{"keys": [{}]}}"#, key(r#", "concurrency": 0"#)),
                "`concurrency`: expected at least 1",
            ),
            (
                &format!(r#"{{"keys": [{}]}}"#, key(r#", "indexes": ["a b"]"#)),
                "`indexes`: expected the name",
            ),
            (
                &format!(r#"{{"keys": [{}]}}"#, key(r#", "filter": {"exist": 1}"#)),
                "`filter`: ",
            ),
            (&format!(r#"{{"keys": [{}]}}"#, key(r#", "filter": {}"#)), "`filter`: "),
            (
                &format!(r#"{{"keys": [{}]}}"#, key(r#", "filter": null"#)),
                "`filter`: expected a value, got null",
            ),
            (
                &format!(r#"{{"keys": [{}]}}"#, key(r#", "indexes": null"#)),
                "`indexes`: expected a value, got null",
            ),
            (
                &format!(r#"{{"keys": [{}]}}"#, key(r#", "indexes": []"#)),
                "`indexes`: expected at least one name",
            ),
            (
                &format!(r#"{{"keys": [{}]}}"#, key(r#", "concurrency": null"#)),
                "`concurrency`: expected a value",
            ),
            (
                &format!(r#"{{"keys": [{}]}}"#, key(r#", "revoked_unix_s": null"#)),
                "`revoked_unix_s`: expected a value",
            ),
            (
                &format!(r#"{{"keys": [{}]}}"#, key("").replace(r#""read""#, "null")),
                "expected value at line 1",
            ),
            (r#"{"keys": null}"#, "invalid type: null"),
            ("{}", "missing field `keys`"),
            (
                &format!(
                    r#"{{"keys": [{}]}}"#,
                    key(r#", "filter": {"range": {"field": "n", "min": {"number": 1}, "max": null}}"#)
                ),
                "`filter`: expected conditions without null",
            ),
            (
                &format!(
                    r#"{{"keys": [{}]}}"#,
                    key(r#", "filter": {"equals": {"field": "a", "field": "b", "value": {"text": "x"}}}"#)
                ),
                "`field` is there twice",
            ),
            (
                &format!(
                    r#"{{"keys": [{}]}}"#,
                    key(r#", "filter": {"equals": {"field": "a", "value": {"number": 1.2345678901234568e18}}}"#)
                ),
                "expected `integer` with its digits as text",
            ),
            (
                &format!(
                    r#"{{"keys": [{}]}}"#,
                    key(r#", "filter": {"equals": {"field": "a", "value": {"number": 1234567890123456789}}}"#)
                ),
                "expected `integer` with its digits as text",
            ),
            (
                &format!(
                    r#"{{"keys": [{}]}}"#,
                    key(r#", "filter": {"equals": {"field": "a", "value": {"integer": 7}}}"#)
                ),
                "`filter`: invalid type",
            ),
            (
                &format!(r#"{{"keys": [{}]}}"#, key("").replace("read", "root")),
                "unknown variant `root`",
            ),
            (
                &format!(
                    r#"{{"keys": [{}]}}"#,
                    key(r#", "filter": {"exists": {"field": "a"}}"#).replace("read", "write")
                ),
                "expected only with role read, got role write",
            ),
        ] {
            fs_err::write(&path, text).unwrap();
            let error = KeyFile::read(&path).unwrap_err().to_string();
            assert!(
                error.contains(expected) && error.contains("keys.json"),
                "{text}: {error}"
            );
        }
    }
}
