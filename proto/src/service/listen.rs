//! Listens on an address; the errors of servers.

use std::io;
use std::time::Duration;

use tokio::net::TcpListener;

/// A server that cannot start or that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not `HOST:PORT` or cannot be listened on.
    #[error("cannot listen on `{address}`: {reason}. {}", hint(reason, option))]
    Bind {
        /// As given.
        address: String,
        /// The system's reason.
        reason: io::Error,
        /// The option that the address was given with.
        option: &'static str,
    },
    /// The reflection service could not be built from the compiled `.proto` files.
    #[error("reflection cannot be built")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The compiled `.proto` files cannot be read.
    #[error("the descriptors of the services cannot be read")]
    Descriptors(#[from] prost::DecodeError),
    /// Requests were still running when the drain deadline passed.
    #[error("requests were still running {0:?} after the signal to stop, and were dropped")]
    Drain(Duration),
}

/// Listens on `HOST:PORT`, which the option `--listen` gave; port 0 lets the system choose.
pub async fn bind(address: &str) -> Result<TcpListener, ServeError> {
    bind_for(address, "--listen").await
}

/// As [`bind`], for an address that another option gave; errors name it.
pub async fn bind_for(address: &str, option: &'static str) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|reason| ServeError::Bind {
        address: address.to_owned(),
        reason,
        option,
    })
}

/// The fix for an address that cannot be listened on.
fn hint(reason: &io::Error, option: &str) -> String {
    match reason.kind() {
        io::ErrorKind::AddrInUse => {
            format!("End the process that holds the port, or choose another one with `{option}`")
        }
        io::ErrorKind::PermissionDenied => {
            format!("Ports below 1024 need privileges: choose a higher one with `{option}`")
        }
        _ => format!("`{option}` takes HOST:PORT, for example 127.0.0.1:7700"),
    }
}
