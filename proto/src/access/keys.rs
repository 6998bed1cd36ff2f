//! The keys that a server accepts, and the check of a request.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use subtle::ConstantTimeEq as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::codegen::http::{HeaderMap, header};
use tonic::{Code, Status};

use super::audit::Audit;
use super::key_file::{KeyFile, KeyFileError, KeyRecord, digest, parts};
use super::{Caller, Needed, Role};
use crate::service::deadline::RETRY_PUSHBACK;
use crate::v1;

/// The other header that a key may come in.
const API_KEY: &str = "x-api-key";
/// How a key is given.
const HOW: &str = "Send `authorization: Bearer KEY`, with a key that `dyad-searcher keys create` has made";
/// Time after which a caller that has too many calls under way may try again, in milliseconds.
const BUSY_MS: &str = "100";

/// A key that is accepted, or was.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) id: String,
    pub(super) name: String,
    role: Role,
    digest: [u8; 32],
    is_revoked: bool,
    pub(super) indexes: Vec<String>,
    pub(super) filter: Option<v1::Filter>,
    /// Calls that may be under way, and the places that are left.
    concurrency: Option<(usize, Arc<Semaphore>)>,
}

impl Key {
    /// `before`: the key of this id until now, whose calls under way still count.
    fn new(record: &KeyRecord, before: Option<&Self>) -> Result<Self, String> {
        let places = |most: usize| {
            let same = before.and_then(|before| before.concurrency.clone()).filter(|(had, _)| *had == most);
            same.unwrap_or_else(|| (most, Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))))
        };
        Ok(Self {
            id: record.id.clone(),
            name: record.name.clone(),
            role: record.role,
            digest: record.digest(),
            is_revoked: record.revoked_unix_s.is_some(),
            indexes: record.indexes.clone(),
            filter: record.parsed_filter()?,
            concurrency: record.concurrency.map(places),
        })
    }
}

/// The keys of a file.
#[derive(Debug)]
pub struct Keys {
    path: PathBuf,
    by_id: ArcSwap<BTreeMap<String, Arc<Key>>>,
    /// Requests without a valid key, or with one that may not make the call.
    refused: AtomicU64,
}

impl Keys {
    /// Reads a file of keys.
    pub fn open(path: &Path) -> Result<Self, KeyFileError> {
        let keys = Self { path: path.to_owned(), by_id: ArcSwap::default(), refused: AtomicU64::new(0) };
        keys.reload()?;
        Ok(keys)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file again; where that fails, the keys stay as they are. Returns the keys that are accepted.
    pub fn reload(&self) -> Result<usize, KeyFileError> {
        let (file, before) = (KeyFile::read(&self.path)?, self.by_id.load());
        let wrong = |reason| KeyFileError::Wrong { path: self.path.clone(), reason };
        let mut by_id = BTreeMap::new();
        for record in &file.keys {
            let key = Key::new(record, before.get(&record.id).map(|key| &**key)).map_err(wrong)?;
            by_id.insert(record.id.clone(), Arc::new(key));
        }
        let accepted = by_id.values().filter(|key| !key.is_revoked).count();
        self.by_id.store(Arc::new(by_id));
        Ok(accepted)
    }

    /// Requests that were refused for their key so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The key that a request brings.
    fn of(&self, headers: &HeaderMap) -> Result<Arc<Key>, Status> {
        let given = given(headers)?;
        let keys = self.by_id.load();
        let found = parts(given).and_then(|(id, secret)| Some((keys.get(id)?, digest(secret))));
        // In constant time, so that how far a guess was right cannot be measured.
        let found = found.filter(|(key, digest)| key.digest.ct_eq(digest).into()).map(|(key, _)| key);
        match found {
            Some(key) if key.is_revoked => {
                Err(Status::unauthenticated(format!("the API key `{}` was revoked", key.id)))
            }
            Some(key) => Ok(Arc::clone(key)),
            None => Err(Status::unauthenticated(format!("the API key is not one of this server's. {HOW}"))),
        }
    }

    fn check(
        &self,
        headers: &HeaderMap,
        role: Role,
        call: &str,
    ) -> Result<(Arc<Key>, Option<OwnedSemaphorePermit>), Status> {
        let key = self.of(headers)?;
        if key.role < role {
            let message = format!("`{call}` needs an API key of role {role}, got one of role {}", key.role);
            return Err(Status::permission_denied(message));
        }
        let Some((most, places)) = &key.concurrency else { return Ok((key, None)) };
        let place = Arc::clone(places).try_acquire_owned().map_err(|_| {
            let message =
                format!("the API key has {most} calls under way, as many as it may. Try again in {BUSY_MS} ms");
            let mut status = Status::resource_exhausted(message);
            status.metadata_mut().insert(RETRY_PUSHBACK, tonic::metadata::MetadataValue::from_static(BUSY_MS));
            status
        })?;
        Ok((key, Some(place)))
    }
}

/// The key in a request's headers.
fn given(headers: &HeaderMap) -> Result<&str, Status> {
    let text = |name: &str| -> Result<Option<&str>, Status> {
        let mut all = headers.get_all(name).iter();
        let first = all.next();
        if all.next().is_some() {
            return Err(Status::unauthenticated(format!("header `{name}`: expected one, got several")));
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

/// Checks the requests of a server, and records those that change something. Without keys everybody may do everything.
#[derive(Debug, Clone, Default)]
pub struct AccessControl {
    keys: Option<Arc<Keys>>,
    audit: Option<Arc<Audit>>,
}

impl AccessControl {
    /// With these keys, and this log of changes.
    pub fn new(keys: Option<Arc<Keys>>, audit: Option<Arc<Audit>>) -> Self {
        Self { keys, audit }
    }

    /// Whether requests need keys.
    pub fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// The keys, where requests need them.
    pub fn keys(&self) -> Option<&Arc<Keys>> {
        self.keys.as_ref()
    }

    /// The caller of a request for `call`, as the log names it, and the place that it takes of those that its key has: to be kept until
    /// the reply is sent.
    pub fn check(
        &self,
        headers: &HeaderMap,
        needed: Needed,
        call: &str,
        mut caller: Caller,
    ) -> Result<(Caller, Option<OwnedSemaphorePermit>), Status> {
        caller.audit.clone_from(&self.audit);
        let (Some(keys), Needed::Role(role)) = (&self.keys, needed) else { return Ok((caller, None)) };
        match keys.check(headers, role, call) {
            Ok((key, place)) => {
                caller.key = Some(key);
                Ok((caller, place))
            }
            Err(status) => {
                if status.code() != Code::ResourceExhausted {
                    keys.refused.fetch_add(1, Ordering::Relaxed);
                }
                if needed.is_audited() {
                    // The key is named, if it is one: who tries what is not theirs.
                    caller.key = keys.of(headers).ok();
                    caller.record(call, &serde_json::Value::Null, Err(&status));
                }
                Err(status)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::NewKey;

    fn new_key(name: &str, role: Role) -> NewKey {
        NewKey { name: name.into(), role, indexes: Vec::new(), filter: None, concurrency: None }
    }

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::HeaderName::from_static(name), value.parse().unwrap())])
    }

    fn bearer(key: &str) -> HeaderMap {
        headers("authorization", &format!("Bearer {key}"))
    }

    /// A file with a key for each role, and one for a single call.
    fn three() -> (tempfile::TempDir, AccessControl, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let one = NewKey { concurrency: Some(1), ..new_key("one", Role::Read) };
        let new = [Role::Read, Role::Write, Role::Admin].map(|role| new_key("k", role)).into_iter().chain([one]);
        let keys = new.map(|new| KeyFile::change(&path, |file| file.create(new)).unwrap()).collect();
        let access = AccessControl::new(Some(Arc::new(Keys::open(&path).unwrap())), None);
        (folder, access, keys)
    }

    fn code(access: &AccessControl, headers: &HeaderMap, role: Role) -> Code {
        let checked = access.check(headers, Needed::Role(role), "call", Caller::default());
        checked.map_or_else(|status| status.code(), |_| Code::Ok)
    }

    #[test]
    fn each_role_may_do_what_the_lower_ones_may() {
        let (_folder, access, keys) = three();
        let roles = [Role::Read, Role::Write, Role::Admin];
        for (has, key) in keys.iter().take(3).enumerate() {
            for (needs, role) in roles.into_iter().enumerate() {
                let expected = if has >= needs { Code::Ok } else { Code::PermissionDenied };
                assert_eq!(code(&access, &bearer(key), role), expected, "{has} {needs}");
                assert_eq!(code(&access, &headers("x-api-key", key), role), expected);
            }
        }
        assert_eq!(access.keys().unwrap().refused(), 6);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let (_folder, access, keys) = three();
        let key = &keys[0];
        let other = parts(&keys[1]).unwrap().1;
        let (id, secret) = parts(key).unwrap();
        let mut both = bearer(key);
        both.insert(API_KEY, key.parse().unwrap());
        let mut twice = bearer(key);
        twice.append(header::AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
        let wrong = [
            HeaderMap::new(),
            both,
            twice,
            headers("authorization", key),
            headers("authorization", &format!("Basic {key}")),
            bearer(""),
            bearer("dyad_"),
            bearer(&format!("dyad_{id}")),
            bearer(&format!("dyad_{id}_")),
            bearer(&format!("dyad_{id}_{other}")),
            bearer(&format!("dyad_{id}_{}", &secret[1..])),
            bearer(&key.to_uppercase()),
            bearer(&format!("{key}0")),
        ];
        for headers in &wrong {
            assert_eq!(code(&access, headers, Role::Read), Code::Unauthenticated, "{headers:?}");
        }
        assert_eq!(code(&access, &headers("authorization", &format!("bearer  {key}")), Role::Read), Code::Ok);
        let nothing = access.check(&HeaderMap::new(), Needed::Nothing, "health", Caller::default());
        assert!(
            nothing.is_ok()
                && AccessControl::default().check(&wrong[0], Needed::Role(Role::Admin), "c", Caller::default()).is_ok()
        );
    }

    #[test]
    fn a_file_that_changes_is_taken_over_and_a_broken_one_is_not() {
        let (_folder, access, all) = three();
        let keys = access.keys().unwrap();
        let id = parts(&all[0]).unwrap().0;
        let change = |file: &mut KeyFile| {
            file.revoke(keys.path(), id)?;
            file.create(new_key("new", Role::Read))
        };
        let new = KeyFile::change(keys.path(), change).unwrap();
        assert_eq!(code(&access, &bearer(&new), Role::Read), Code::Unauthenticated);
        // A call that is under way keeps its place.
        let place = access.check(&bearer(&all[3]), Needed::Role(Role::Read), "c", Caller::default()).unwrap();
        assert_eq!(keys.reload().unwrap(), 4);
        assert_eq!(code(&access, &bearer(&all[3]), Role::Read), Code::ResourceExhausted);
        drop(place);
        assert_eq!(code(&access, &bearer(&all[3]), Role::Read), Code::Ok);
        assert_eq!(code(&access, &bearer(&new), Role::Read), Code::Ok);
        let revoked = access.check(&bearer(&all[0]), Needed::Role(Role::Read), "c", Caller::default()).unwrap_err();
        assert!(revoked.code() == Code::Unauthenticated && revoked.message().contains("revoked"), "{revoked}");
        fs_err::write(keys.path(), "{").unwrap();
        assert!(keys.reload().is_err());
        assert_eq!(code(&access, &bearer(&new), Role::Read), Code::Ok);
    }
}
