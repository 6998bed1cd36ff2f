//! The indexes of a server by their names, and whether keys that are for indexes by name can be meant for it.

use super::Role;
use super::key_file::KeyFile;
use super::key_record::KeyRecord;

/// The names of a server's indexes, and what its calls need.
#[derive(Debug, Clone)]
pub struct ServedIndexes {
    /// As requests and keys give them; none where the server's one index was given without a name.
    pub names: Vec<String>,
    /// The role that calls about indexes need.
    pub role: Role,
}

impl ServedIndexes {
    /// Refuses a file in which keys are for indexes by name where the server's index has none, and one in which all
    /// keys are for other indexes. Keys for other indexes are otherwise accepted: several servers may have one file.
    pub(super) fn check(&self, file: &KeyFile) -> Result<(), String> {
        let is_usable = |key: &&KeyRecord| key.revoked_unix_s.is_none() && key.role >= self.role;
        let usable: Vec<&KeyRecord> = file.keys.iter().filter(is_usable).collect();
        let restricted: Vec<&KeyRecord> = usable.iter().copied().filter(|key| !key.indexes.is_empty()).collect();
        let Some(first) = restricted.first() else { return Ok(()) };
        let of_first = format!(
            "key `{}` ({}) is for the index `{}`",
            first.name,
            first.id,
            first.indexes.join("`, `")
        );
        if self.names.is_empty() {
            let fix = "Give `--index NAME=DIR`, with the name by which the searcher serves it";
            return Err(format!(
                "{of_first}, and the index of this server has no name: its folder may be called as another's. {fix}"
            ));
        }
        let is_here = |key: &&KeyRecord| key.indexes.iter().any(|name| self.names.contains(name));
        if restricted.len() == usable.len() && !restricted.iter().any(is_here) {
            let (names, role) = (self.names.join("`, `"), self.role);
            let fix = "Give the index the name that the keys have, or create a key for it";
            return Err(format!(
                "{of_first}, and so no key with role {role} is for one that is served here: `{names}`. {fix}"
            ));
        }
        Ok(())
    }

    /// The keys that are for indexes of which none is served here, by name and id.
    pub(super) fn elsewhere(&self, file: &KeyFile) -> Vec<String> {
        let is_elsewhere = |key: &&KeyRecord| {
            let is_for_none = !key.indexes.iter().any(|name| self.names.contains(name));
            key.revoked_unix_s.is_none() && !key.indexes.is_empty() && is_for_none
        };
        file.keys
            .iter()
            .filter(is_elsewhere)
            .map(|key| format!("{} ({})", key.name, key.id))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic::codegen::http::{HeaderMap, header};

    use super::*;
    use crate::access::key_file::parts;
    use crate::access::{ApiKeys, NewKey};

    fn file(keys: &[(Role, &[&str])]) -> KeyFile {
        let mut file = KeyFile::default();
        for (number, (role, indexes)) in keys.iter().enumerate() {
            let indexes = indexes.iter().map(|name| (*name).to_owned()).collect();
            let new = NewKey {
                name: format!("k{number}"),
                role: *role,
                indexes,
                filter: None,
                concurrency: None,
            };
            file.create(new).unwrap();
        }
        file
    }

    fn served(names: &[&str], role: Role) -> ServedIndexes {
        ServedIndexes {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            role,
        }
    }

    #[test]
    fn keys_that_are_all_for_others_are_refused_and_those_of_a_shared_file_are_not() {
        let (read, write, admin) = (Role::Read, Role::Write, Role::Admin);
        let wiki = |role| served(&["wiki"], role);
        for fine in [
            file(&[]),
            file(&[(write, &[])]),
            file(&[(write, &["wiki"]), (write, &["news"])]),
            file(&[(admin, &[]), (write, &["news"])]),
            file(&[(read, &["news"]), (write, &["news", "wiki"])]),
        ] {
            assert_eq!(wiki(write).check(&fine), Ok(()));
        }
        let others = file(&[(read, &[]), (write, &["index"]), (admin, &["news"])]);
        let refused = wiki(write).check(&others).unwrap_err();
        assert!(
            refused.contains("`k1`") && refused.contains("for the index `index`") && refused.contains("`wiki`"),
            "{refused}"
        );
        assert_eq!(wiki(read).check(&others), Ok(()), "the first may read here");
        let mut revoked = others.clone();
        revoked.keys[1].revoked_unix_s = Some(1);
        assert!(wiki(write).check(&revoked).unwrap_err().contains("`k2`"));
        revoked.keys[2].revoked_unix_s = Some(1);
        assert_eq!(wiki(write).check(&revoked), Ok(()), "nobody can be meant");
        assert_eq!(wiki(write).elsewhere(&others).len(), 2);
        assert!(
            wiki(write)
                .elsewhere(&file(&[(write, &["news", "wiki"]), (read, &[])]))
                .is_empty()
        );
    }

    #[test]
    fn an_index_without_a_name_is_for_no_key_that_names_one() {
        let unnamed = served(&[], Role::Write);
        assert_eq!(
            unnamed.check(&file(&[(Role::Write, &[]), (Role::Read, &["wiki"])])),
            Ok(())
        );
        let refused = unnamed
            .check(&file(&[(Role::Admin, &[]), (Role::Write, &["wiki"])]))
            .unwrap_err();
        assert!(
            refused.contains("--index NAME=DIR") && refused.contains("`k1`"),
            "{refused}"
        );
    }

    /// A server that has started goes on with a file that would not have let it start: a key was revoked in it.
    #[test]
    fn a_key_that_is_revoked_is_refused_whatever_else_the_file_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let create = |index: &str| {
            let indexes = Some(index.to_owned())
                .filter(|name| !name.is_empty())
                .into_iter()
                .collect();
            let new = NewKey {
                name: "k".into(),
                role: Role::Write,
                indexes,
                filter: None,
                concurrency: None,
            };
            KeyFile::change(&path, |file| file.create(new)).unwrap()
        };
        let revoke =
            |key: &str| KeyFile::change(&path, |file| file.revoke(&path, parts(key).unwrap().0).map(drop)).unwrap();
        let code = |keys: &ApiKeys, key: &str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, format!("Bearer {key}").parse().unwrap())]);
            keys.check(&headers, Role::Write, "delete")
                .map_or_else(|status| status.code(), |_| Code::Ok)
        };
        let (wiki, _news) = (create("wiki"), create("news"));
        let keys = ApiKeys::open_for(&path, Some(served(&["wiki"], Role::Write))).unwrap();
        assert_eq!(code(&keys, &wiki), Code::Ok);
        revoke(&wiki);
        assert_eq!((keys.reload().unwrap(), code(&keys, &wiki)), (1, Code::Unauthenticated));
        assert!(ApiKeys::open_for(&path, Some(served(&["wiki"], Role::Write))).is_err());

        fs_err::remove_file(&path).unwrap();
        let (any, other) = (create(""), create(""));
        let keys = ApiKeys::open_for(&path, Some(served(&[], Role::Write))).unwrap();
        revoke(&any);
        let named = create("index");
        assert_eq!(keys.reload().unwrap(), 1);
        let of_all = [&any, &other, &named].map(|key| code(&keys, key));
        assert_eq!(of_all, [Code::Unauthenticated, Code::Ok, Code::Unauthenticated]);
    }
}
