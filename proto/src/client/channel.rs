//! Connects to a server.

use std::sync::Arc;
use std::time::Duration;

use tonic::Status;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use super::backoff::{ClientConfig, retry};
use super::credentials::ApiKey;
use super::error::ClientError;

/// A connection to a server: every request carries the client's API key, if it has one. Clones share it.
pub type ClientConnection = InterceptedService<Channel, ApiKey>;

/// Connects to `http://` or `https://`, with bounded retries. For callers that encode messages themselves: all others
/// have a client.
pub async fn connect(url: &str, config: &ClientConfig) -> Result<ClientConnection, ClientError> {
    connect_as(url, None, config).await
}

/// The same to a URL that has an address in place of the name of which the server's certificate is: one of several
/// servers behind a name.
pub(super) async fn connect_as(
    url: &str,
    name: Option<&str>,
    config: &ClientConfig,
) -> Result<ClientConnection, ClientError> {
    let endpoint = endpoint_of(url)?;
    let host = endpoint.uri().host().unwrap_or_default();
    let endpoint = if endpoint.uri().scheme_str() == Some("https") {
        let reason = |error: tonic::transport::Error| ClientError::Tls {
            url: url.to_owned(),
            reason: chain(&error),
        };
        // The timeout of the connection does not hold for the handshake.
        let tls = config.credentials.tls().timeout(config.connect_timeout);
        let tls = match name {
            Some(name) => tls.domain_name(name),
            None => tls,
        };
        endpoint.tls_config(tls).map_err(reason)?
    } else {
        if config.credentials.has_api_key() && !is_loopback(host) {
            tracing::warn!("the API key is sent to `{url}` in plain text. Use https://");
        }
        endpoint
    };
    let endpoint = endpoint
        .connect_timeout(config.connect_timeout)
        .timeout(config.call_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(30))
        .keep_alive_while_idle(true);
    // Of names, addresses and the handshake, each of which has its own.
    let time = config.connect_timeout.saturating_mul(3);
    let channel = retry(config, url, time, || {
        let endpoint = endpoint.clone();
        async move {
            endpoint.connect().await.map_err(|error| {
                let mut status = Status::unavailable(chain(&error));
                status.set_source(Arc::new(error));
                status
            })
        }
    });
    Ok(InterceptedService::new(channel.await?, config.credentials.api_key()))
}

/// A connection that is made when a call is, with no credentials.
pub(super) fn unconnected(url: &str) -> Result<ClientConnection, ClientError> {
    let channel = endpoint_of(url)?.connect_lazy();
    Ok(InterceptedService::new(channel, ApiKey::default()))
}

/// Checks a server's URL, for callers that connect later.
pub fn check_url(url: &str) -> Result<(), ClientError> {
    endpoint_of(url).map(drop)
}

/// The server at `http://HOST:PORT` or `https://HOST:PORT`.
fn endpoint_of(url: &str) -> Result<Endpoint, ClientError> {
    let invalid = |reason: String| ClientError::Url {
        url: url.to_owned(),
        reason,
    };
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| invalid(error.to_string()))?;
    match (endpoint.uri().scheme_str(), endpoint.uri().host()) {
        (Some("http" | "https"), Some(_)) => Ok(endpoint),
        _ => Err(invalid("scheme or host is missing".to_owned())),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    address.map_or_else(
        |_| host.eq_ignore_ascii_case("localhost"),
        |address| address.to_canonical().is_loopback(),
    )
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
