//! Connects to a server.

use std::sync::Arc;
use std::time::Duration;

use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::backoff::{ClientConfig, retry};
use super::error::ClientError;

/// Connects, with bounded retries; never to `https://`, since TLS is not supported. For callers that encode messages themselves: all
/// others have a client.
pub async fn connect(url: &str, config: &ClientConfig) -> Result<Channel, ClientError> {
    let endpoint = Endpoint::from_shared(url.to_owned())
        .map_err(|error| ClientError::Url { url: url.to_owned(), reason: error.to_string() })?;
    if endpoint.uri().scheme_str() == Some("https") {
        return Err(ClientError::Tls { url: url.to_owned() });
    }
    if endpoint.uri().scheme_str() != Some("http") || endpoint.uri().host().is_none() {
        return Err(ClientError::Url { url: url.to_owned(), reason: "scheme or host is missing".to_owned() });
    }
    let endpoint = endpoint
        .connect_timeout(config.connect_timeout)
        .timeout(config.call_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(30))
        .keep_alive_while_idle(true);
    retry(config, url, || {
        let endpoint = endpoint.clone();
        async move {
            endpoint.connect().await.map_err(|error| {
                let mut status = Status::unavailable(chain(&error));
                status.set_source(Arc::new(error));
                status
            })
        }
    })
    .await
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
