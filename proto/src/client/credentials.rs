//! What a client shows to servers, and trusts: the CA of their certificates, its own certificate, its API key.

use std::path::{Path, PathBuf};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};
use tonic::{Request, Status};

use crate::trace_context;

/// The variable that may hold the API key.
const API_KEY: &str = "DYAD_API_KEY";

/// Options of every client.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Security")]
pub struct CredentialOptions {
    /// PEM file of the CA of the server's certificate, for https:// [default: the system's CAs].
    #[arg(long, value_name = "FILE", env = "DYAD_CA", global = true)]
    pub ca: Option<PathBuf>,
    /// PEM file of this client's own certificate, for servers that want one.
    #[arg(
        long,
        value_name = "FILE",
        requires = "client_key",
        env = "DYAD_CLIENT_CERT",
        global = true
    )]
    pub client_cert: Option<PathBuf>,
    /// PEM file of its private key.
    #[arg(
        long,
        value_name = "FILE",
        requires = "client_cert",
        env = "DYAD_CLIENT_KEY",
        global = true
    )]
    pub client_key: Option<PathBuf>,
    /// File of the API key, which may be in the variable `DYAD_API_KEY` too. There is no option for the key itself:
    /// everybody on the machine sees a command's options.
    #[arg(long, value_name = "FILE", env = "DYAD_API_KEY_FILE", global = true)]
    pub api_key_file: Option<PathBuf>,
}

/// A file of credentials that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// The system's reason.
    #[error("{option}: {reason}")]
    Io {
        /// The option that named the file.
        option: &'static str,
        /// The system's reason, with the file.
        reason: std::io::Error,
    },
    /// The key has characters that no key has.
    #[error("{0}: expected an API key, `dyad_ID_SECRET`, and nothing else")]
    ApiKey(&'static str),
}

/// Credentials; none by default. Never printed.
#[derive(Clone, Default)]
pub struct Credentials {
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    api_key: ApiKey,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("has_api_key", &self.has_api_key())
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads the files, and the variable.
    pub fn open(options: &CredentialOptions) -> Result<Self, CredentialError> {
        let ca = options.ca.as_deref().map(|path| read(path, "--ca")).transpose()?;
        let identity = match (&options.client_cert, &options.client_key) {
            (Some(cert), Some(key)) => Some((read(cert, "--client-cert")?, read(key, "--client-key")?)),
            _ => None,
        };
        let api_key = match &options.api_key_file {
            Some(path) => Some((read(path, "--api-key-file")?, "--api-key-file")),
            // No option of the command line, on purpose.
            None => std::env::var_os(API_KEY).map(|key| (key.into_encoded_bytes(), API_KEY)),
        };
        let api_key = api_key
            .map(|(key, source)| ApiKey::new(&key, source))
            .transpose()?
            .unwrap_or_default();
        Ok(Self { ca, identity, api_key })
    }

    /// With this API key, as [`Credentials::open`] reads it from a file.
    pub fn with_api_key(self, key: &str) -> Result<Self, CredentialError> {
        Ok(Self {
            api_key: ApiKey::new(key.as_bytes(), "the API key")?,
            ..self
        })
    }

    pub(super) fn has_api_key(&self) -> bool {
        self.api_key.0.is_some()
    }

    pub(super) fn api_key(&self) -> ApiKey {
        self.api_key.clone()
    }

    pub(super) fn tls(&self) -> ClientTlsConfig {
        let tls = match &self.ca {
            Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        match &self.identity {
            Some((cert, key)) => tls.identity(Identity::from_pem(cert, key)),
            None => tls,
        }
    }
}

fn read(path: &Path, option: &'static str) -> Result<Vec<u8>, CredentialError> {
    fs_err::read(path).map_err(|reason| CredentialError::Io { option, reason })
}

/// Adds the API key to every request, where there is one.
#[derive(Clone, Default)]
pub struct ApiKey(Option<MetadataValue<Ascii>>);

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiKey").finish_non_exhaustive()
    }
}

impl ApiKey {
    fn new(key: &[u8], source: &'static str) -> Result<Self, CredentialError> {
        let key = std::str::from_utf8(key)
            .map_err(|_| CredentialError::ApiKey(source))?
            .trim();
        let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let value = format!("Bearer {key}")
            .parse::<MetadataValue<Ascii>>()
            .ok()
            .filter(|_| is_key);
        let mut value = value.ok_or(CredentialError::ApiKey(source))?;
        // So that no log of headers shows it.
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }
}

impl Interceptor for ApiKey {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(key) = &self.0 {
            request.metadata_mut().insert("authorization", key.clone());
        }
        trace_context::pass_on(request.metadata_mut());
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_its_file_and_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs_err::write(&path, "dyad_ab_secret\n").unwrap();
        let options = CredentialOptions {
            api_key_file: Some(path.clone()),
            ..CredentialOptions::default()
        };
        let credentials = Credentials::open(&options).unwrap();
        let request = credentials.api_key().call(Request::new(())).unwrap();
        let sent = request.metadata().get("authorization").unwrap();
        assert_eq!(sent.to_str().unwrap(), "Bearer dyad_ab_secret");
        for shown in [
            format!("{credentials:?}"),
            format!("{:?}", credentials.api_key()),
            format!("{:?}", request.metadata()),
        ] {
            assert!(!shown.contains("secret"), "{shown}");
        }
        for wrong in ["", "two keys", "a\nb", "\u{e9}"] {
            fs_err::write(&path, wrong).unwrap();
            let error = Credentials::open(&options).unwrap_err().to_string();
            assert!(error.contains("--api-key-file: expected an API key"), "{error}");
        }
        let missing = CredentialOptions {
            ca: Some(folder.path().join("none")),
            ..CredentialOptions::default()
        };
        assert!(
            Credentials::open(&missing)
                .unwrap_err()
                .to_string()
                .starts_with("--ca: ")
        );
    }
}
