//! What `/metrics` tells of keys, TLS files and the audit log.

use std::path::Path;
use std::time::{Duration, Instant};

use dyad_proto::access::{Caller, KeyFile, Needed, NewKey, Role};
use dyad_proto::admission::Admitted;
use dyad_proto::service::{Security, SecurityOptions};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tonic::codegen::http::HeaderMap;

use crate::pki::Ca;
use crate::security::SOON;

fn scrape(security: &Security) -> String {
    let mut registry = Registry::with_prefix("x");
    registry.register_collector(Box::new(security.clone()));
    let mut scrape = String::new();
    text::encode(&mut scrape, &registry).unwrap();
    scrape
}

/// Scrapes until a line is there.
fn wait_for(security: &Security, line: &str) {
    let deadline = Instant::now() + SOON;
    loop {
        let scrape = scrape(security);
        if scrape.lines().any(|found| found == line) {
            return;
        }
        assert!(Instant::now() < deadline, "{line} is not in\n{scrape}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ask(security: &Security, key: &str, role: Role) -> Option<Admitted> {
    let value = format!("Bearer {key}").parse().unwrap();
    let headers = HeaderMap::from_iter([(tonic::codegen::http::header::AUTHORIZATION, value)]);
    let checked = security
        .access()
        .check(&headers, Needed::Role(role), "call", Caller::default());
    checked.ok().and_then(|(_, place)| place)
}

fn create(keys: &Path, name: &str) -> (String, String) {
    let new = NewKey {
        name: name.into(),
        role: Role::Read,
        indexes: Vec::new(),
        filter: None,
        concurrency: Some(2),
    };
    let key = KeyFile::change(keys, |file| file.create(new)).unwrap();
    let id = key.split('_').nth(1).unwrap().to_owned();
    (key, id)
}

#[test]
fn keys_are_told_by_use_and_files_by_whether_they_could_be_taken_over() {
    let folder = TempDir::new().unwrap();
    let keys = folder.path().join("keys.json");
    let (key, id) = create(&keys, "a \"tenant\"");
    let (_, unused) = create(&keys, "unused");
    let server = Ca::new("ca").sign(&folder, "server");
    let options = SecurityOptions {
        tls_cert: Some(server.cert),
        tls_key: Some(server.key.clone()),
        keys: Some(keys.clone()),
        // A disk that is full.
        audit_log: Some("/dev/full".into()),
        ..SecurityOptions::default()
    };
    let security = Security::open(&options, &[]).unwrap();
    let places = [ask(&security, &key, Role::Read), ask(&security, &key, Role::Read)];
    assert!(places.iter().all(Option::is_some));
    for (key, role) in [(&*key, Role::Read), (&key, Role::Admin), ("none", Role::Read)] {
        assert!(ask(&security, key, role).is_none());
    }
    let found = scrape(&security);
    let of = format!(r#"key="{id}",name="a \"tenant\"""#);
    for line in [
        r#"x_api_key_requests_total{key="",name="",status="UNAUTHENTICATED"} 1"#,
        &format!(r#"x_api_key_requests_total{{{of},status="OK"}} 2"#),
        &format!(r#"x_api_key_requests_total{{{of},status="RESOURCE_EXHAUSTED"}} 1"#),
        &format!(r#"x_api_key_requests_total{{{of},status="PERMISSION_DENIED"}} 1"#),
        &format!("x_api_key_requests_under_way{{{of}}} 2"),
        &format!("x_api_key_requests_limit{{{of}}} 2"),
        r#"x_security_reloads_total{of="tls",outcome="failed"} 0"#,
        r#"x_security_files_stale{of="keys"} 0"#,
        "x_audit_lines_lost_total 1",
        "x_failed_handshakes_total 0",
    ] {
        assert!(found.lines().any(|found| found == line), "{line} is not in\n{found}");
    }
    assert!(!found.contains(&unused), "{found}");
    let end = found
        .lines()
        .find_map(|line| line.strip_prefix("x_certificate_end_seconds "))
        .unwrap();
    assert!(end.parse::<u64>().unwrap() > 1_700_000_000, "{end}");
    // Files that cannot be used, and then can.
    for (of, path) in [("keys", &keys), ("tls", &server.key)] {
        let before = fs_err::read(path).unwrap();
        fs_err::write(path, "no such thing").unwrap();
        wait_for(&security, &format!("x_security_files_stale{{of=\"{of}\"}} 1"));
        wait_for(
            &security,
            &format!("x_security_reloads_total{{of=\"{of}\",outcome=\"failed\"}} 1"),
        );
        fs_err::write(path, before).unwrap();
        wait_for(
            &security,
            &format!("x_security_reloads_total{{of=\"{of}\",outcome=\"taken over\"}} 1"),
        );
        wait_for(&security, &format!("x_security_files_stale{{of=\"{of}\"}} 0"));
    }
    KeyFile::change(&keys, |file| file.revoke(&keys, &id).map(drop)).unwrap();
    wait_for(
        &security,
        r#"x_security_reloads_total{of="keys",outcome="taken over"} 2"#,
    );
    assert!(ask(&security, &key, Role::Read).is_none());
    wait_for(
        &security,
        &format!(r#"x_api_key_requests_total{{{of},status="UNAUTHENTICATED"}} 1"#),
    );
    // Servers without any of it have only what all have.
    let plain = scrape(&Security::default());
    assert!(
        plain.contains("x_certificate_end_seconds 0\n") && !plain.contains("api_key"),
        "{plain}"
    );
}
