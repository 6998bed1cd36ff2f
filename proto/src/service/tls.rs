//! TLS of a server: certificate and private key from PEM files, client certificates where a CA is given, TLS 1.2 and
//! 1.3 with the cipher suites that rustls has. Files that change are taken over; connections keep what they have begun
//! with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::protocol::ServedProtocol;

/// Days before a certificate's end from which on every start and reload warns.
const SOON_DAYS: i64 = 14;
const DAY_S: i64 = 86_400;

/// TLS files that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The system's reason.
    #[error("{option}: {reason}")]
    Io {
        /// The option that named the file.
        option: &'static str,
        /// The system's reason, with the file.
        reason: std::io::Error,
    },
    /// It is not what it should be.
    #[error("{option} `{path}`: expected {expected}, got {got}")]
    Wrong {
        /// The option that named the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What should be in it.
        expected: &'static str,
        /// What is.
        got: String,
    },
    /// Certificate and key do not belong together, or the key is of a kind that is not supported.
    #[error(
        "--tls-cert `{cert}` with --tls-key `{key}`: {reason}. Name the private key that the certificate was made for"
    )]
    Pair {
        /// File of the certificate.
        cert: PathBuf,
        /// File of the key.
        key: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// The files.
#[derive(Debug, Clone)]
pub(super) struct TlsFiles {
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
    pub(super) client_ca: Option<PathBuf>,
}

/// The configuration of both protocols.
#[derive(Debug)]
struct LoadedTls {
    grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
    /// Seconds since the epoch.
    expires: i64,
}

/// TLS of a server.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    loaded: ArcSwap<LoadedTls>,
    failed: AtomicU64,
}

impl Tls {
    /// Reads the files.
    pub(super) fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let loaded = ArcSwap::from_pointee(load(&files)?);
        Ok(Self {
            files,
            loaded,
            failed: AtomicU64::new(0),
        })
    }

    /// Reads the files again, for the connections from now on; where that fails, everything stays as it is.
    pub(super) fn reload(&self) -> Result<(), TlsError> {
        self.loaded.store(Arc::new(load(&self.files)?));
        Ok(())
    }

    /// The end of the certificate, in seconds since the epoch.
    pub fn expires(&self) -> i64 {
        self.loaded.load().expires
    }

    /// Connections so far whose handshake failed.
    pub fn failed_handshakes(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn note_failure(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn acceptor(&self, protocol: ServedProtocol) -> TlsAcceptor {
        let loaded = self.loaded.load();
        TlsAcceptor::from(Arc::clone(match protocol {
            ServedProtocol::Grpc => &loaded.grpc,
            ServedProtocol::Http => &loaded.http,
        }))
    }
}

fn load(TlsFiles { cert, key, client_ca }: &TlsFiles) -> Result<LoadedTls, TlsError> {
    let chain = certificates(cert, "--tls-cert")?;
    let expires = check_validity(cert, &chain)?;
    let private = PrivateKeyDer::from_pem_slice(&read(key, "--tls-key")?).map_err(|error| TlsError::Wrong {
        option: "--tls-key",
        path: key.clone(),
        expected: "a private key in PEM that is not encrypted",
        got: describe(&error),
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pair = |error: rustls::Error| TlsError::Pair {
        cert: cert.clone(),
        key: key.clone(),
        reason: error.to_string(),
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(pair)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let wrong = |got: String| TlsError::Wrong {
                option: "--tls-client-ca",
                path: path.clone(),
                expected: "the certificates of CAs in PEM",
                got,
            };
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path, "--tls-client-ca")? {
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(error.to_string()))?)
        }
    };
    let http = builder.with_single_cert(chain, private).map_err(pair)?;
    let with = |protocol: &[u8]| {
        let mut config = http.clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        config
    };
    Ok(LoadedTls {
        grpc: Arc::new(with(b"h2")),
        http: Arc::new(with(b"http/1.1")),
        expires,
    })
}

fn read(path: &Path, option: &'static str) -> Result<Vec<u8>, TlsError> {
    fs_err::read(path).map_err(|reason| TlsError::Io { option, reason })
}

fn certificates(path: &Path, option: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |got| TlsError::Wrong {
        option,
        path: path.to_owned(),
        expected: "certificates in PEM (X.509)",
        got,
    };
    let all = CertificateDer::pem_slice_iter(&read(path, option)?).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| wrong(describe(&error)))?;
    if all.is_empty() {
        Err(wrong("none".to_owned()))
    } else {
        Ok(all)
    }
}

fn describe(error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => "none".to_owned(),
        error => error.to_string(),
    }
}

/// The end of the first certificate, which must not have come: clients would refuse it.
fn check_validity(path: &Path, chain: &[CertificateDer<'_>]) -> Result<i64, TlsError> {
    let wrong = |expected, got| TlsError::Wrong {
        option: "--tls-cert",
        path: path.to_owned(),
        expected,
        got,
    };
    let first = chain.first().map(|der| &**der).unwrap_or_default();
    let (_, certificate) = x509_parser::parse_x509_certificate(first)
        .map_err(|error| wrong("certificates in PEM (X.509)", error.to_string()))?;
    let (validity, now) = (certificate.validity(), unix_s());
    let expires = validity.not_after.timestamp();
    if now >= expires || now < validity.not_before.timestamp() {
        let got = format!(
            "one that is valid from {} to {}",
            validity.not_before, validity.not_after
        );
        return Err(wrong("a certificate that is valid now", got));
    }
    if expires - now < SOON_DAYS * DAY_S {
        tracing::warn!(
            "--tls-cert `{}` ends on {}: replace it",
            path.display(),
            validity.not_after
        );
    }
    Ok(expires)
}

fn unix_s() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs() as i64)
}
