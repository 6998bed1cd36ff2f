//! The keys that a server accepts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use subtle::ConstantTimeEq as _;
use tonic::codegen::http::{HeaderMap, header};
use tonic::{Code, Status};

use super::Role;
use super::key::AcceptedKey;
use super::key_file::{KeyFile, KeyFileError, digest, parts};
use super::served_indexes::ServedIndexes;
use crate::admission::Admitted;
use crate::pushback::RETRY_PUSHBACK;

/// The other header that a key may come in.
pub(super) const API_KEY: &str = "x-api-key";
/// How a key is given.
const HOW: &str = "Send `authorization: Bearer KEY`, with a key that `dyad-searcher keys create` has made";
/// Time after which a caller that has too many calls under way may try again, in milliseconds.
const BUSY_MS: &str = "100";

/// The keys of a file.
#[derive(Debug)]
pub struct ApiKeys {
    path: PathBuf,
    /// What a key's names of indexes are compared with; nothing where the server has none.
    served: Option<ServedIndexes>,
    by_id: ArcSwap<BTreeMap<String, Arc<AcceptedKey>>>,
    /// Calls without a key, or with one that is not in the file.
    unknown: AtomicU64,
}

impl ApiKeys {
    /// Reads a file of keys.
    pub fn open(path: &Path) -> Result<Self, KeyFileError> {
        Self::open_for(path, None)
    }

    /// Reads a file of keys for a server of these indexes.
    pub fn open_for(path: &Path, served: Option<ServedIndexes>) -> Result<Self, KeyFileError> {
        let keys = Self {
            path: path.to_owned(),
            served,
            by_id: ArcSwap::default(),
            unknown: AtomicU64::new(0),
        };
        let file = KeyFile::read(path)?;
        if let Some(Err(reason)) = keys.served.as_ref().map(|served| served.check(&file)) {
            return Err(KeyFileError::Elsewhere {
                path: path.to_owned(),
                reason,
            });
        }
        keys.take_over(&file)?;
        Ok(keys)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file again; where it cannot be read, the keys stay as they are. Returns the keys that are accepted.
    ///
    /// A file with which the server would not have started is taken over all the same: it may be the one in which a key
    /// was revoked.
    pub fn reload(&self) -> Result<usize, KeyFileError> {
        let file = KeyFile::read(&self.path)?;
        if let Some(Err(reason)) = self.served.as_ref().map(|served| served.check(&file)) {
            let path = self.path.display();
            tracing::error!("keys `{path}`: {reason}. The file is in use, and the server will not start with it again");
        }
        self.take_over(&file)
    }

    fn take_over(&self, file: &KeyFile) -> Result<usize, KeyFileError> {
        let before = self.by_id.load();
        let wrong = |reason| KeyFileError::Wrong {
            path: self.path.clone(),
            reason,
        };
        let elsewhere = self
            .served
            .as_ref()
            .map(|served| served.elsewhere(file))
            .unwrap_or_default();
        if let (Some(served), Some(first)) = (&self.served, elsewhere.first()) {
            let (served, count) = (served.names.join(", "), elsewhere.len());
            tracing::warn!(served, count, first, "keys are for indexes that are not served here");
        }
        let mut by_id = BTreeMap::new();
        // An index without a name is none of those that a key names.
        let is_unnamed = self.served.as_ref().is_some_and(|served| served.names.is_empty());
        for record in file
            .keys
            .iter()
            .filter(|record| !is_unnamed || record.indexes.is_empty())
        {
            let key = match before.get(&record.id) {
                Some(same) if same.is_of(record) => Arc::clone(same),
                other => Arc::new(AcceptedKey::new(record, other.map(|key| &**key)).map_err(wrong)?),
            };
            by_id.insert(record.id.clone(), key);
        }
        let accepted = by_id.values().filter(|key| !key.is_revoked).count();
        self.by_id.store(Arc::new(by_id));
        // Streams ask for each of their requests.
        let now = self.by_id.load();
        for (id, key) in &**before {
            if !now.get(id).is_some_and(|now| Arc::ptr_eq(now, key)) {
                key.end();
            }
        }
        Ok(accepted)
    }

    /// Calls so far without a key, or with one that is not in the file.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    /// What was asked with each key since the server started; of keys that are in the file, and were used.
    pub fn usage(&self) -> Vec<KeyUsage> {
        let keys = self.by_id.load();
        let of = |key: &Arc<AcceptedKey>| {
            let calls = [
                &key.calls.allowed,
                &key.calls.revoked,
                &key.calls.denied,
                &key.calls.busy,
            ];
            let [allowed, revoked, denied, busy] = calls.map(|count| count.load(Ordering::Relaxed));
            KeyUsage {
                id: key.id.clone(),
                name: key.name.clone(),
                calls: [
                    (Code::Ok, allowed),
                    (Code::Unauthenticated, revoked),
                    (Code::PermissionDenied, denied),
                    (Code::ResourceExhausted, busy),
                ],
                under_way: key.concurrency.as_ref().map(|limit| (limit.taken(), limit.limit())),
            }
        };
        keys.values()
            .map(of)
            .filter(|usage| usage.calls.iter().any(|(_, count)| *count > 0))
            .collect()
    }

    /// The key that a request brings, if it was not revoked.
    pub(super) fn of(&self, headers: &HeaderMap) -> Result<Arc<AcceptedKey>, Status> {
        let key = self.find(headers)?;
        if key.is_revoked { Err(revoked(&key)) } else { Ok(key) }
    }

    /// The key that a request brings, revoked or not.
    fn find(&self, headers: &HeaderMap) -> Result<Arc<AcceptedKey>, Status> {
        let given = given(headers)?;
        let keys = self.by_id.load();
        let found = parts(given).and_then(|(id, secret)| Some((keys.get(id)?, digest(secret))));
        // In constant time, so that how far a guess was right cannot be measured.
        let found = found
            .filter(|(key, digest)| key.digest.ct_eq(digest).into())
            .map(|(key, _)| key);
        found
            .cloned()
            .ok_or_else(|| Status::unauthenticated(format!("the API key is not one of this server's. {HOW}")))
    }

    pub(super) fn check(
        &self,
        headers: &HeaderMap,
        role: Role,
        call: &str,
    ) -> Result<(Arc<AcceptedKey>, Option<Admitted>), Status> {
        let key = self.find(headers).inspect_err(|_| count(&self.unknown))?;
        if key.is_revoked {
            count(&key.calls.revoked);
            return Err(revoked(&key));
        }
        if key.role < role {
            count(&key.calls.denied);
            let message = format!("`{call}` needs an API key of role {role}, got one of role {}", key.role);
            return Err(Status::permission_denied(message));
        }
        let place = place(&key).inspect_err(|_| count(&key.calls.busy))?;
        count(&key.calls.allowed);
        Ok((key, place))
    }
}

/// What was asked with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUsage {
    /// The key's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Calls by the status that the check of the key gave them: `Ok` where they were let through.
    pub calls: [(Code, u64); 4],
    /// Calls under way, and how many may be, where they are limited.
    pub under_way: Option<(usize, usize)>,
}

fn count(calls: &AtomicU64) {
    calls.fetch_add(1, Ordering::Relaxed);
}

fn revoked(key: &AcceptedKey) -> Status {
    Status::unauthenticated(format!("the API key `{}` was revoked", key.id))
}

/// One of the places of a key, where it has a limit.
fn place(key: &AcceptedKey) -> Result<Option<Admitted>, Status> {
    let Some(limit) = &key.concurrency else {
        return Ok(None);
    };
    let place = limit.try_admit(1).map_err(|_| {
        let most = limit.limit();
        let message = format!("the API key has {most} calls under way, as many as it may. Try again in {BUSY_MS} ms");
        let mut status = Status::resource_exhausted(message);
        status
            .metadata_mut()
            .insert(RETRY_PUSHBACK, tonic::metadata::MetadataValue::from_static(BUSY_MS));
        status
    })?;
    Ok(Some(place))
}

/// The key in a request's headers.
fn given(headers: &HeaderMap) -> Result<&str, Status> {
    let text = |name: &str| -> Result<Option<&str>, Status> {
        let mut all = headers.get_all(name).iter();
        let first = all.next();
        if all.next().is_some() {
            return Err(Status::unauthenticated(format!(
                "header `{name}`: expected one, got several"
            )));
        }
        let wrong = |_| Status::unauthenticated(format!("header `{name}`: expected visible ASCII characters"));
        first.map(|value| value.to_str().map_err(wrong)).transpose()
    };
    match (text(header::AUTHORIZATION.as_str())?, text(API_KEY)?) {
        (Some(_), Some(_)) => Err(Status::unauthenticated(format!(
            "expected the API key in one header, got `authorization` and `{API_KEY}`"
        ))),
        (None, Some(key)) => Ok(key),
        (Some(value), None) => match value.split_once(' ') {
            Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => Ok(key.trim_start()),
            _ => Err(Status::unauthenticated("header `authorization`: expected `Bearer KEY`")),
        },
        (None, None) => Err(Status::unauthenticated(format!("expected an API key, got none. {HOW}"))),
    }
}
