//! The check of a request.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tonic::Status;
use tonic::codegen::http::HeaderMap;

use super::audit::Audit;
use super::keys::ApiKeys;
use super::{Caller, Needed};
use crate::admission::Admitted;

/// Least time between two records of callers without a key.
const STRANGERS: Duration = Duration::from_secs(1);

/// Checks the requests of a server, and records those that change something. Without keys everybody may do everything.
#[derive(Debug, Clone, Default)]
pub struct AccessControl {
    keys: Option<Arc<ApiKeys>>,
    audit: Option<Arc<Audit>>,
    strangers: Arc<Strangers>,
}

/// Refusals of callers without a key: one in [`STRANGERS`] is recorded, with the number of the others since the last,
/// so that nobody can fill the log.
#[derive(Debug, Default)]
struct Strangers(Mutex<(Option<Instant>, u64)>);

impl Strangers {
    /// The number of refusals that were not recorded since the last one that was, if this one is to be.
    fn count(&self, now: Instant) -> Option<u64> {
        let (recorded, others) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.is_some_and(|last| now.saturating_duration_since(last) < STRANGERS) {
            *others += 1;
            return None;
        }
        *recorded = Some(now);
        Some(std::mem::take(others))
    }
}

impl AccessControl {
    /// With these keys, and this log of changes.
    pub fn new(keys: Option<Arc<ApiKeys>>, audit: Option<Arc<Audit>>) -> Self {
        Self {
            keys,
            audit,
            strangers: Arc::default(),
        }
    }

    /// Whether requests need keys.
    pub fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// The keys, where requests need them.
    pub fn keys(&self) -> Option<&Arc<ApiKeys>> {
        self.keys.as_ref()
    }

    /// The log of changes, where there is one.
    pub fn audit(&self) -> Option<&Arc<Audit>> {
        self.audit.as_ref()
    }

    /// The caller of a request for `call`, as the log names it, and the place that it takes of those that its key has:
    /// to be kept until the reply is sent.
    pub fn check(
        &self,
        headers: &HeaderMap,
        needed: Needed,
        call: &str,
        mut caller: Caller,
    ) -> Result<(Caller, Option<Admitted>), Status> {
        caller.audit.clone_from(&self.audit);
        let (Some(keys), Some(role)) = (&self.keys, needed.role()) else {
            return Ok((caller, None));
        };
        match keys.check(headers, role, call) {
            Ok((key, place)) => {
                caller.key = Some(key);
                Ok((caller, place))
            }
            Err(status) => {
                if needed.is_audited() {
                    // The key is named, if it is one: who tries what is not theirs.
                    caller.key = keys.of(headers).ok();
                    let others = if caller.has_key() {
                        Some(0)
                    } else {
                        self.strangers.count(Instant::now())
                    };
                    if let Some(others) = others {
                        let details = if others > 0 {
                            json!({"others": others})
                        } else {
                            Value::Null
                        };
                        caller.record(call, &details, Err(&status));
                    }
                }
                Err(status)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic::codegen::http::header;

    use super::*;
    use crate::access::key_file::parts;
    use crate::access::keys::API_KEY;
    use crate::access::{KeyFile, NewKey, Role};

    fn new_key(name: &str, role: Role) -> NewKey {
        NewKey {
            name: name.into(),
            role,
            indexes: Vec::new(),
            filter: None,
            concurrency: None,
        }
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
        let one = NewKey {
            concurrency: Some(1),
            ..new_key("one", Role::Read)
        };
        let new = [Role::Read, Role::Write, Role::Admin]
            .map(|role| new_key("k", role))
            .into_iter()
            .chain([one]);
        let keys = new
            .map(|new| KeyFile::change(&path, |file| file.create(new)).unwrap())
            .collect();
        let access = AccessControl::new(Some(Arc::new(ApiKeys::open(&path).unwrap())), None);
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
        let usage = access.keys().unwrap().usage();
        let counts = |at: usize| {
            let found = usage.iter().find(|usage| keys[at].contains(&usage.id)).unwrap();
            found.calls.map(|(_, count)| count)
        };
        assert_eq!(
            [counts(0), counts(1), counts(2)],
            [[2, 0, 4, 0], [4, 0, 2, 0], [6, 0, 0, 0]]
        );
        assert_eq!((usage.len(), access.keys().unwrap().unknown()), (3, 0));
    }

    #[test]
    fn strangers_are_recorded_now_and_then_with_their_number() {
        let (strangers, start) = (Strangers::default(), Instant::now());
        let told = (0..25_u32)
            .filter_map(|tenth| strangers.count(start + STRANGERS / 10 * tenth))
            .collect::<Vec<_>>();
        assert_eq!(told, [0, 9, 9]);
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
        assert_eq!(access.keys().unwrap().unknown(), wrong.len() as u64);
        assert_eq!(
            code(
                &access,
                &headers("authorization", &format!("bearer  {key}")),
                Role::Read
            ),
            Code::Ok
        );
        let nothing = access.check(&HeaderMap::new(), Needed::Nothing, "health", Caller::default());
        assert!(
            nothing.is_ok()
                && AccessControl::default()
                    .check(&wrong[0], Needed::Role(Role::Admin), "c", Caller::default())
                    .is_ok()
        );
    }

    #[test]
    fn a_file_that_changes_is_taken_over_and_a_broken_one_is_not() {
        let (_folder, access, all) = three();
        let keys = access.keys().unwrap();
        let id = parts(&all[0]).unwrap().0;
        assert_eq!(code(&access, &bearer(&all[0]), Role::Read), Code::Ok);
        let change = |file: &mut KeyFile| {
            file.revoke(keys.path(), id)?;
            file.create(new_key("new", Role::Read))
        };
        let new = KeyFile::change(keys.path(), change).unwrap();
        assert_eq!(code(&access, &bearer(&new), Role::Read), Code::Unauthenticated);
        // A call that is under way keeps its place.
        let place = access
            .check(&bearer(&all[3]), Needed::Role(Role::Read), "c", Caller::default())
            .unwrap();
        assert_eq!(keys.reload().unwrap(), 4);
        assert_eq!(code(&access, &bearer(&all[3]), Role::Read), Code::ResourceExhausted);
        drop(place);
        assert_eq!(code(&access, &bearer(&all[3]), Role::Read), Code::Ok);
        assert_eq!(code(&access, &bearer(&new), Role::Read), Code::Ok);
        let revoked = access
            .check(&bearer(&all[0]), Needed::Role(Role::Read), "c", Caller::default())
            .unwrap_err();
        assert!(
            revoked.code() == Code::Unauthenticated && revoked.message().contains("revoked"),
            "{revoked}"
        );
        let usage = |key: &str| keys.usage().into_iter().find(|usage| key.contains(&usage.id)).unwrap();
        // Counts outlive the record that they began with.
        assert_eq!(usage(&all[0]).calls.map(|(_, count)| count), [1, 1, 0, 0]);
        assert_eq!(
            (usage(&all[3]).calls.map(|(_, count)| count), usage(&all[3]).under_way),
            ([2, 0, 0, 1], Some((0, 1)))
        );
        fs_err::write(keys.path(), "{").unwrap();
        assert!(keys.reload().is_err());
        assert_eq!(code(&access, &bearer(&new), Role::Read), Code::Ok);
    }
}
