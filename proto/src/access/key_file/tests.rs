//! Keys that are created and revoked, and files that cannot be read.

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

/// Fields may be added, and none may go: a file of any release is read by all later ones.
#[test]
fn a_file_of_the_first_release_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let text = r#"{"keys": [
        {"id": "3f9a0c12", "name": "web", "role": "read",
         "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "created_unix_s": 1764038400,
         "indexes": ["wiki"], "filter": {"equals": {"field": "tenant", "value": {"text": "acme"}}}, "concurrency": 8},
        {"id": "4f9a0c12", "name": "nightly", "role": "write",
         "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "created_unix_s": 1764038400,
         "revoked_unix_s": 1764038500}
    ]}"#;
    fs_err::write(&path, text).unwrap();
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let read = KeyFile::read(&path).unwrap();
    let facts = |key: &KeyRecord| (key.name.clone(), key.role, key.concurrency, key.revoked_unix_s);
    let expected = [
        ("web".to_owned(), Role::Read, Some(8), None),
        ("nightly".to_owned(), Role::Write, None, Some(1_764_038_500)),
    ];
    assert_eq!(read.keys.iter().map(facts).collect::<Vec<_>>(), expected);
    assert_eq!(read.keys[0].digest(), digest("test"));
    assert!(read.keys[0].filter.is_some() && read.keys[0].indexes == ["wiki"]);
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
    let with = |extra: &str| format!(r#"{{"keys": [{}]}}"#, key(extra));
    for (text, expected) in [
        ("", "EOF"),
        (r#"{"keys": [], "more": 1}"#, "unknown field `more`"),
        (&with(r#", "rol": 1"#), "unknown field `rol`"),
        (
            &format!(r#"{{"keys": [{0}, {0}]}}"#, key("")),
            "keys[1] (`n`): `id`: `ab` is that of another key",
        ),
        (&with(r#", "concurrency": 0"#), "`concurrency`: expected at least 1"),
        (&with(r#", "indexes": ["a b"]"#), "`indexes`: expected the name"),
        (&with(r#", "filter": {"exist": 1}"#), "`filter`: "),
        (&with(r#", "filter": {}"#), "`filter`: "),
        (&with(r#", "filter": null"#), "`filter`: expected a value, got null"),
        (&with(r#", "indexes": null"#), "`indexes`: expected a value, got null"),
        (&with(r#", "indexes": []"#), "`indexes`: expected at least one name"),
        (&with(r#", "concurrency": null"#), "`concurrency`: expected a value"),
        (
            &with(r#", "revoked_unix_s": null"#),
            "`revoked_unix_s`: expected a value",
        ),
        (&with("").replace(r#""read""#, "null"), "expected value at line 1"),
        (r#"{"keys": null}"#, "invalid type: null"),
        ("{}", "missing field `keys`"),
        (
            &with(r#", "filter": {"range": {"field": "n", "min": {"number": 1}, "max": null}}"#),
            "`filter`: expected conditions without null",
        ),
        (
            &with(r#", "filter": {"equals": {"field": "a", "field": "b", "value": {"text": "x"}}}"#),
            "`field` is there twice",
        ),
        (
            &with(r#", "filter": {"equals": {"field": "a", "value": {"number": 1.2345678901234568e18}}}"#),
            "expected `integer` with its digits as text",
        ),
        (
            &with(r#", "filter": {"equals": {"field": "a", "value": {"number": 1234567890123456789}}}"#),
            "expected `integer` with its digits as text",
        ),
        (
            &with(r#", "filter": {"equals": {"field": "a", "value": {"integer": 7}}}"#),
            "`filter`: invalid type",
        ),
        (&with("").replace("read", "root"), "unknown variant `root`"),
        (
            &with(r#", "filter": {"exists": {"field": "a"}}"#).replace("read", "admin"),
            "expected only with roles read and write, got role admin",
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
