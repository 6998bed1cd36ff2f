//! The security of a server: TLS, API keys and the audit log by its options, read again when their files change, and
//! the refusal to listen to strangers without them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpListener;

use super::follow::{Follow, Followed, Look};
use super::reloads::Reloads;
use super::tls::{Tls, TlsError, TlsFiles};
use crate::access::{AccessControl, ApiKeys, Audit, AuditError, KeyFileError, ServedIndexes};

/// Options of every server.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Security")]
pub struct SecurityOptions {
    /// PEM file of the server's certificate, followed by those between it and the CA's. Files that change are taken
    /// over without a restart.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's private key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// PEM file of CAs: only clients with a certificate of one of them can connect.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// File of API keys, as `dyad-searcher keys create` writes it: requests need one of them. Changes are taken over
    /// without a restart.
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Append a line of JSON to this file for each call that changes something, and for each that was refused.
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    /// Listen at addresses that other machines can reach even without TLS and API keys: whoever reaches them can do
    /// everything.
    #[arg(long)]
    pub insecure: bool,
}

/// Security that cannot be had as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecurityError {
    /// The TLS files cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The file of keys cannot be used.
    #[error("--keys: {0}")]
    Keys(#[from] KeyFileError),
    /// The audit log cannot be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// Strangers would reach the server.
    #[error(
        "{option} {address}: other machines can reach this address, and {missing} missing. Give {fix}, listen on 127.0.0.1, or say \
         `--insecure`"
    )]
    Open {
        /// The option of the address.
        option: &'static str,
        /// The address.
        address: SocketAddr,
        /// What is missing.
        missing: &'static str,
        /// The options that are.
        fix: &'static str,
    },
    /// The system's reason.
    #[error("the thread that follows changes of files cannot be started: {0}")]
    Thread(std::io::Error),
    /// A listener has no address.
    #[error("cannot read a listener's address: {0}")]
    Address(std::io::Error),
}

/// The security of a server; none by default. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Security {
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) access: AccessControl,
    /// By what the files are of.
    pub(super) reloads: Arc<[(&'static str, Arc<Reloads>)]>,
    _follow: Option<Arc<Follow>>,
}

impl Security {
    /// Opens all files, and refuses addresses of `listeners`, each with the option that gave it, that strangers could
    /// reach.
    pub fn open(options: &SecurityOptions, listeners: &[(&TcpListener, &'static str)]) -> Result<Self, SecurityError> {
        Self::open_for(options, listeners, None)
    }

    /// The same for a server of indexes, which refuses keys that are for others alone.
    pub fn open_for(
        options: &SecurityOptions,
        listeners: &[(&TcpListener, &'static str)],
        served: Option<&ServedIndexes>,
    ) -> Result<Self, SecurityError> {
        for (listener, option) in listeners {
            check_address(options, listener.local_addr().map_err(SecurityError::Address)?, option)?;
        }
        let (mut followed, mut reloads) = (Vec::new(), Vec::new());
        let mut counts = |of| {
            let counts = Arc::<Reloads>::default();
            reloads.push((of, Arc::clone(&counts)));
            counts
        };
        let tls = match (&options.tls_cert, &options.tls_key) {
            (Some(cert), Some(key)) => {
                let files = TlsFiles {
                    cert: cert.clone(),
                    key: key.clone(),
                    client_ca: options.tls_client_ca.clone(),
                };
                Some(follow_tls(files, &mut followed, counts("tls"))?)
            }
            _ => None,
        };
        let keys = match &options.keys {
            Some(path) => Some(follow_keys(
                ApiKeys::open_for(path, served.cloned())?,
                &mut followed,
                counts("keys"),
            )?),
            None => None,
        };
        let audit = options
            .audit_log
            .as_ref()
            .map(|path| follow_audit(path, &mut followed))
            .transpose()?;
        let follow = if followed.is_empty() {
            None
        } else {
            Some(Arc::new(Follow::start(followed).map_err(SecurityError::Thread)?))
        };
        Ok(Self {
            tls,
            access: AccessControl::new(keys, audit),
            reloads: reloads.into(),
            _follow: follow,
        })
    }

    /// The check of requests.
    pub fn access(&self) -> &AccessControl {
        &self.access
    }

    /// TLS, where the server has it.
    pub fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }

    /// `https` with TLS, else `http`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

// Each file is opened, followed, and opened again, so that no change in between is missed.

fn follow_tls(files: TlsFiles, followed: &mut Vec<Followed>, counts: Arc<Reloads>) -> Result<Arc<Tls>, SecurityError> {
    let paths = [&files.cert, &files.key]
        .into_iter()
        .chain(&files.client_ca)
        .cloned()
        .collect();
    let tls = Arc::new(Tls::open(files)?);
    let following = Arc::clone(&tls);
    followed.push(Followed::new(paths, move |look| {
        let reloaded = following.reload();
        counts.count(&reloaded, look);
        taken_over(reloaded, look, "the TLS files", |()| {
            "new connections use them".to_owned()
        })
    }));
    tls.reload()?;
    Ok(tls)
}

fn follow_keys(
    keys: ApiKeys,
    followed: &mut Vec<Followed>,
    counts: Arc<Reloads>,
) -> Result<Arc<ApiKeys>, SecurityError> {
    let (path, keys) = (keys.path().to_owned(), Arc::new(keys));
    let following = Arc::clone(&keys);
    followed.push(Followed::new(vec![path], move |look| {
        let reloaded = following.reload();
        counts.count(&reloaded, look);
        taken_over(reloaded, look, "the file of API keys", |accepted| {
            format!("{accepted} keys are accepted")
        })
    }));
    keys.reload()?;
    Ok(keys)
}

/// Logs whether files could be taken over; a failure once, until they change again or can be.
fn taken_over<T, E: std::fmt::Display>(
    reloaded: Result<T, E>,
    look: Look,
    what: &str,
    now: impl FnOnce(T) -> String,
) -> bool {
    match reloaded {
        Ok(reloaded) => {
            tracing::info!("{what} changed: {}", now(reloaded));
            true
        }
        Err(error) => {
            if look == Look::Changed {
                tracing::error!("{what} changed and cannot be used: the old ones stay, and it is tried again: {error}");
            }
            false
        }
    }
}

fn follow_audit(path: &Path, followed: &mut Vec<Followed>) -> Result<Arc<Audit>, SecurityError> {
    let audit = Arc::new(Audit::open(path)?);
    let following = Arc::clone(&audit);
    // Where it has been renamed. Every line is a change too, after which it is the same file.
    followed.push(Followed::new(vec![path.to_owned()], move |look| {
        let reopened = following.reopen();
        if let (Err(error), Look::Changed) = (&reopened, look) {
            tracing::error!(%error, "the audit log was moved, and cannot be opened again yet");
        }
        reopened.is_ok()
    }));
    Ok(audit)
}

/// Strangers need TLS, so that nothing can be read on the way, and keys, so that they are known.
fn check_address(options: &SecurityOptions, address: SocketAddr, option: &'static str) -> Result<(), SecurityError> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let (missing, fix) = match (options.tls_cert.is_some(), options.keys.is_some()) {
        (true, true) => return Ok(()),
        (true, false) => ("API keys are", "`--keys FILE`"),
        (false, true) => ("TLS is", "`--tls-cert FILE --tls-key FILE`"),
        (false, false) => ("TLS and API keys are", "`--tls-cert FILE --tls-key FILE --keys FILE`"),
    };
    if options.insecure {
        tracing::warn!(
            "{option} {address}: other machines can reach this address, and {missing} missing (`--insecure`)"
        );
        return Ok(());
    }
    Err(SecurityError::Open {
        option,
        address,
        missing,
        fix,
    })
}
