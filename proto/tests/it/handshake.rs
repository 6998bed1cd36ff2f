//! TLS handshakes that do not end, or are of old protocols and weak ciphers.

use std::sync::Arc;
use std::time::Duration;

use dyad_proto::service::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::pki::Ca;
use crate::security::{SOON, start, start_with, tls};

#[tokio::test]
async fn a_client_that_never_ends_its_handshake_is_closed() {
    let folder = TempDir::new().unwrap();
    let server = Ca::new("ours").sign(&folder, "server");
    let config = ServerConfig {
        preface_timeout: Duration::from_millis(200),
        ..ServerConfig::default()
    };
    let address = start_with(&tls(&server), config).await;
    for begun in [&b""[..], &[22, 3, 1, 0, 200, 1]] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(begun).await.unwrap();
        let mut reply = Vec::new();
        _ = tokio::time::timeout(SOON, stream.read_to_end(&mut reply))
            .await
            .unwrap();
        // Nothing, or an alert.
        assert!(
            reply.first().is_none_or(|kind| *kind == 21) && reply.len() < 16,
            "{reply:?}"
        );
    }
}

/// A `ClientHello` record for these cipher suites, with TLS `version` as the newest that the client speaks.
fn client_hello(version: [u8; 2], suites: &[[u8; 2]]) -> Vec<u8> {
    let mut body = version.to_vec();
    body.extend([7; 32]);
    body.push(0);
    body.extend(((suites.len() * 2) as u16).to_be_bytes());
    body.extend(suites.iter().flatten());
    body.extend([1, 0]);
    // Supported groups, signature algorithms, extended master secret.
    let extensions: &[u8] = &[
        0, 10, 0, 6, 0, 4, 0, 29, 0, 23, 0, 13, 0, 10, 0, 8, 4, 3, 8, 4, 4, 1, 2, 1, 0, 23, 0, 0,
    ];
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    let mut record = vec![22, 3, 1];
    record.extend((message.len() as u16).to_be_bytes());
    record.extend(message);
    record
}

#[tokio::test]
async fn old_protocols_and_weak_ciphers_are_refused() {
    let folder = TempDir::new().unwrap();
    let ca = Ca::new("ours");
    let address = start(&tls(&ca.sign(&folder, "server"))).await;
    let first = async |hello: &[u8]| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(hello).await.unwrap();
        let mut reply = [0; 7];
        let read = tokio::time::timeout(SOON, stream.read_exact(&mut reply)).await.unwrap();
        read.map(|_| (reply[0], reply[6])).unwrap_or_default()
    };
    // What is spoken: TLS 1.2 with ECDHE and AES-GCM is answered with a handshake record.
    let (modern, handshake) = ([0xc0, 0x2b], 22);
    assert_eq!(first(&client_hello([3, 3], &[modern])).await.0, handshake);
    // Alert and its kind: protocol_version, handshake_failure.
    let (alert, version, failure) = (21, 70, 40);
    for (name, newest) in [("SSL 3", [3, 0]), ("TLS 1.0", [3, 1]), ("TLS 1.1", [3, 2])] {
        assert_eq!(
            first(&client_hello(newest, &[modern])).await,
            (alert, version),
            "{name}"
        );
    }
    for (name, suite) in [
        ("NULL", [0x00, 0x3b]),
        ("anonymous", [0x00, 0x34]),
        ("export", [0x00, 0x03]),
        ("RC4", [0xc0, 0x07]),
        ("3DES", [0xc0, 0x08]),
        ("RSA key exchange", [0x00, 0x9c]),
        ("CBC", [0xc0, 0x09]),
        ("finite-field DH", [0x00, 0x9e]),
    ] {
        assert_eq!(first(&client_hello([3, 3], &[suite])).await, (alert, failure), "{name}");
    }
    // Both versions that are spoken, by a client that speaks nothing else; the protocol inside is HTTP/2.
    let pem = fs_err::read(ca.file(&folder, "ca")).unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = TcpStream::connect(address).await.unwrap();
        let stream = connector
            .connect(ServerName::try_from("localhost").unwrap(), stream)
            .await
            .unwrap();
        let (_, session) = stream.get_ref();
        assert_eq!(session.protocol_version(), Some(version.version));
        assert_eq!(session.alpn_protocol(), Some(&b"h2"[..]));
    }
}
