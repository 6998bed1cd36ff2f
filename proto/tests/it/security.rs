//! TLS, client certificates and API keys, by real connections.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dyad_proto::access::{KeyFile, NewKey, Role};
use dyad_proto::client::{ClientConfig, ClientError, CredentialOptions, Credentials, EncoderClient};
use dyad_proto::service::{self, Health, Security, SecurityOptions, ServerConfig};
use dyad_proto::v1::encoder_server::EncoderServer;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::service::Routes;

use crate::pki::{Ca, Signed};
use crate::{Lengths, texts};

/// Longest wait for what happens soon.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Starts a server with these options; it ends with the test's runtime.
pub(crate) async fn start(options: &SecurityOptions) -> SocketAddr {
    start_with(options, ServerConfig::default()).await
}

pub(crate) async fn start_with(options: &SecurityOptions, config: ServerConfig) -> SocketAddr {
    let listener = service::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let security = Security::open(options, &[(&listener, "--listen")]).unwrap();
    let config = ServerConfig { security, ..config };
    let health = Health::new().serving::<EncoderServer<Lengths>>().await;
    let routes = Routes::new(service::encoder(Lengths));
    tokio::spawn(service::serve(listener, routes, health, std::future::pending(), config));
    address
}

pub(crate) fn tls(server: &Signed) -> SecurityOptions {
    SecurityOptions {
        tls_cert: Some(server.cert.clone()),
        tls_key: Some(server.key.clone()),
        ..SecurityOptions::default()
    }
}

/// Connects once, and embeds.
pub(crate) async fn ask(url: &str, options: &CredentialOptions, key: Option<&str>) -> Result<(), ClientError> {
    let mut credentials = Credentials::open(options).unwrap();
    if let Some(key) = key {
        credentials = credentials.with_api_key(key).unwrap();
    }
    let config = ClientConfig {
        attempts: 1,
        credentials,
        ..ClientConfig::default()
    };
    let client = EncoderClient::connect(url, config).await?;
    client.encode(texts(&["a"])).await.map(drop)
}

fn trust(ca: &Path) -> CredentialOptions {
    CredentialOptions {
        ca: Some(ca.to_owned()),
        ..CredentialOptions::default()
    }
}

fn with_certificate(ca: &Path, client: &Signed) -> CredentialOptions {
    CredentialOptions {
        client_cert: Some(client.cert.clone()),
        client_key: Some(client.key.clone()),
        ..trust(ca)
    }
}

#[tokio::test]
async fn tls_is_spoken_with_those_who_trust_the_ca_and_with_no_one_in_the_clear() {
    let folder = TempDir::new().unwrap();
    let (ca, other) = (Ca::new("ours"), Ca::new("other"));
    let (ours, others) = (ca.file(&folder, "ca"), other.file(&folder, "other"));
    let address = start(&tls(&ca.sign(&folder, "server"))).await;
    let (https, http) = (format!("https://{address}"), format!("http://{address}"));
    ask(&https, &trust(&ours), None).await.unwrap();
    let by_name = format!("https://localhost:{}", address.port());
    ask(&by_name, &trust(&ours), None).await.unwrap();
    for (url, trusted) in [(&https, &others), (&http, &ours)] {
        let error = ask(url, &trust(trusted), None).await.unwrap_err();
        assert!(
            matches!(error, ClientError::Unreachable { .. } | ClientError::Broken { .. }),
            "{url}: {error}"
        );
    }
    // The system's CAs have not signed it.
    assert!(ask(&https, &CredentialOptions::default(), None).await.is_err());
    // Text that is no TLS gets no answer but an alert.
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut reply = Vec::new();
    _ = tokio::time::timeout(SOON, plain.read_to_end(&mut reply)).await.unwrap();
    assert!(!reply.starts_with(b"HTTP") && reply.len() < 16, "{reply:?}");
    // TLS to a server that has none.
    let clear = start(&SecurityOptions::default()).await;
    assert!(ask(&format!("https://{clear}"), &trust(&ours), None).await.is_err());
}

#[tokio::test]
async fn a_server_that_never_answers_the_handshake_is_given_up() {
    let folder = TempDir::new().unwrap();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let credentials = Credentials::open(&trust(&Ca::new("ours").file(&folder, "ca"))).unwrap();
    let connect_timeout = Duration::from_millis(200);
    let config = ClientConfig {
        connect_timeout,
        attempts: 1,
        credentials,
        ..ClientConfig::default()
    };
    let url = format!("https://{}", silent.local_addr().unwrap());
    let connected = tokio::time::timeout(SOON, EncoderClient::connect(&url, config))
        .await
        .unwrap();
    assert!(
        matches!(connected, Err(ClientError::Unreachable { .. })),
        "{:?}",
        connected.err()
    );
}

#[tokio::test]
async fn a_reply_that_stops_after_its_headers_ends_with_the_deadline() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let mut kept = Vec::new();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let head = http::Response::builder()
                .header("content-type", "application/grpc")
                .body(())
                .unwrap();
            kept.push(respond.send_response(head, false).unwrap());
        }
    });
    let config = ClientConfig {
        call_timeout: Duration::from_millis(200),
        attempts: 1,
        ..ClientConfig::default()
    };
    let client = EncoderClient::connect(&url, config).await.unwrap();
    let replied = tokio::time::timeout(SOON, client.encode(texts(&["a"]))).await.unwrap();
    assert!(matches!(replied, Err(ClientError::Deadline { .. })), "{replied:?}");
}

#[tokio::test]
async fn a_client_certificate_must_be_of_the_ca_and_valid() {
    let folder = TempDir::new().unwrap();
    let (ca, other) = (Ca::new("ours"), Ca::new("other"));
    let ours = ca.file(&folder, "ca");
    let options = SecurityOptions {
        tls_client_ca: Some(ours.clone()),
        ..tls(&ca.sign(&folder, "server"))
    };
    let url = format!("https://{}", start(&options).await);
    let certificate = |client: &Signed| with_certificate(&ours, client);
    ask(&url, &certificate(&ca.sign(&folder, "client")), None)
        .await
        .unwrap();
    let refused = [
        trust(&ours),
        certificate(&ca.sign_until(&folder, "expired", 2021)),
        certificate(&other.sign(&folder, "stranger")),
    ];
    for options in refused {
        assert!(ask(&url, &options, None).await.is_err(), "{options:?}");
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_with_what_is_wrong() {
    let folder = TempDir::new().unwrap();
    let ca = Ca::new("ours");
    let (server, expired) = (ca.sign(&folder, "server"), ca.sign_until(&folder, "expired", 2021));
    let listener = service::bind("127.0.0.1:0").await.unwrap();
    let none = folder.path().join("none");
    let keys = folder.path().join("keys.json");
    fs_err::write(&keys, "{}").unwrap();
    let pair = |cert: &Path, key: &Path| SecurityOptions {
        tls_cert: Some(cert.to_owned()),
        tls_key: Some(key.to_owned()),
        ..SecurityOptions::default()
    };
    for (options, expected) in [
        (pair(&none, &server.key), "--tls-cert: "),
        (pair(&server.cert, &none), "--tls-key: "),
        (
            pair(&server.key, &server.key),
            "expected certificates in PEM (X.509), got none",
        ),
        (
            pair(&server.cert, &server.cert),
            "expected a private key in PEM that is not encrypted, got none",
        ),
        (
            pair(&server.cert, &expired.key),
            "Name the private key that the certificate was made for",
        ),
        (
            pair(&expired.cert, &expired.key),
            "expected a certificate that is valid now, got one that is valid from",
        ),
        (
            SecurityOptions {
                tls_client_ca: Some(server.key.clone()),
                ..tls(&server)
            },
            "--tls-client-ca",
        ),
        (
            SecurityOptions {
                keys: Some(keys),
                ..SecurityOptions::default()
            },
            "--keys: ",
        ),
        (
            SecurityOptions {
                audit_log: Some(folder.path().into()),
                ..SecurityOptions::default()
            },
            "--audit-log: ",
        ),
    ] {
        let error = Security::open(&options, &[(&listener, "--listen")])
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("BEGIN"), "{error}");
    }
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_tls_and_keys() {
    let folder = TempDir::new().unwrap();
    let (server, keys) = (Ca::new("ours").sign(&folder, "server"), folder.path().join("keys.json"));
    create(&keys, "a", Role::Read);
    let open = service::bind("0.0.0.0:0").await.unwrap();
    let here = service::bind("127.0.0.1:0").await.unwrap();
    let tried = |options: &SecurityOptions| {
        let listeners = [(&here, "--listen"), (&open, "--http")];
        Security::open(options, &listeners)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let with_keys = |options: SecurityOptions| SecurityOptions {
        keys: Some(keys.clone()),
        ..options
    };
    for (options, missing) in [
        (SecurityOptions::default(), "TLS and API keys are missing"),
        (tls(&server), "API keys are missing. Give `--keys FILE`"),
        (with_keys(SecurityOptions::default()), "TLS is missing"),
    ] {
        let error = tried(&options).unwrap_err();
        assert!(
            error.starts_with("--http 0.0.0.0:") && error.contains(missing) && error.contains("--insecure"),
            "{error}"
        );
        assert_eq!(
            tried(&SecurityOptions {
                insecure: true,
                ..options
            }),
            Ok(())
        );
    }
    assert_eq!(tried(&with_keys(tls(&server))), Ok(()));
}

pub(crate) fn create(keys: &Path, name: &str, role: Role) -> String {
    let new = NewKey {
        name: name.into(),
        role,
        indexes: Vec::new(),
        filter: None,
        concurrency: None,
    };
    KeyFile::change(keys, |file| file.create(new)).unwrap()
}

#[tokio::test]
async fn certificates_and_keys_are_replaced_under_load_without_a_failure() {
    let folder = TempDir::new().unwrap();
    let (old, new) = (Ca::new("old"), Ca::new("new"));
    let (old_file, new_file) = (old.file(&folder, "old"), new.file(&folder, "new"));
    let keys = folder.path().join("keys.json");
    let key = create(&keys, "stays", Role::Read);
    let options = SecurityOptions {
        keys: Some(keys.clone()),
        ..tls(&old.sign(&folder, "server"))
    };
    let url = format!("https://{}", start(&options).await);
    // Clients that stay connected, and clients that connect again and again with either CA.
    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for _ in 0..2 {
        let credentials = Credentials::open(&trust(&old_file))
            .unwrap()
            .with_api_key(&key)
            .unwrap();
        let config = ClientConfig {
            attempts: 1,
            credentials,
            ..ClientConfig::default()
        };
        let client = EncoderClient::connect(&url, config).await.unwrap();
        let (stop, calls) = (Arc::clone(&stop), Arc::clone(&calls));
        clients.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                client.encode(texts(&["a"])).await.unwrap();
                calls.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let until = async |what: &str, is_so: &dyn Fn() -> futures_util::future::LocalBoxFuture<'static, bool>| {
        let deadline = Instant::now() + SOON;
        while !is_so().await {
            assert!(Instant::now() < deadline, "{what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let answers = |ca: &Path, key: &str| {
        let (url, options, key) = (url.clone(), trust(ca), key.to_owned());
        move || -> futures_util::future::LocalBoxFuture<'static, bool> {
            let (url, options, key) = (url.clone(), options.clone(), key.clone());
            Box::pin(async move { ask(&url, &options, Some(&key)).await.is_ok() })
        }
    };
    assert!(answers(&old_file, &key)().await && !answers(&new_file, &key)().await);
    // The new certificate comes before its key: for a moment they do not belong together.
    new.sign(&folder, "server");
    until("the new certificate", &answers(&new_file, &key)).await;
    assert!(
        !answers(&old_file, &key)().await,
        "the old certificate is not shown any more"
    );
    // Files that cannot be used change nothing.
    fs_err::write(folder.path().join("server.key"), "no key").unwrap();
    fs_err::write(&keys, "no keys").unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(answers(&new_file, &key)().await);
    // Keys that come and go.
    fs_err::remove_file(&keys).unwrap();
    let second = create(&keys, "second", Role::Read);
    until("the second key", &answers(&new_file, &second)).await;
    // The first key is in no file any more, and its holders are refused from here on.
    until("the first key's end", &{
        let gone = answers(&new_file, &key);
        move || -> futures_util::future::LocalBoxFuture<'static, bool> {
            let gone = gone();
            Box::pin(async move { !gone.await })
        }
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    assert!(calls.load(Ordering::Relaxed) > 100);
    for client in clients {
        // They may have been refused at the end, and for no other reason.
        if let Err(error) = client.await {
            assert!(error.to_string().contains("panicked"), "{error}");
        }
    }
}
