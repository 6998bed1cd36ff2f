//! Client of `Index`.

use tonic::Request;

use super::backoff::{ClientConfig, retry};
use super::channel::{Connection, connect};
use super::error::{ClientError, fits_in_all};
use crate::limits::{MAX_CHANGE_BYTES, MAX_CHANGED, MAX_MESSAGE_BYTES};
use crate::v1;
use crate::v1::index_client::IndexClient as GeneratedIndex;

/// A connection to a server that changes an index. Clones share it.
#[derive(Debug, Clone)]
pub struct IndexClient {
    inner: GeneratedIndex<Connection>,
    config: ClientConfig,
    url: String,
}

impl IndexClient {
    /// Connects to `http://HOST:PORT` or `https://HOST:PORT`.
    pub async fn connect(url: &str, config: ClientConfig) -> Result<Self, ClientError> {
        let inner = GeneratedIndex::new(connect(url, &config).await?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self { inner, config, url: url.to_owned() })
    }

    /// Adds or replaces documents, as one change. Sent again after a transient failure: what was changed is then unchanged.
    pub async fn upsert(&self, documents: &[v1::Document]) -> Result<v1::ChangeResponse, ClientError> {
        fits_in_all(&self.url, documents.iter().map(prost::Message::encoded_len), MAX_CHANGE_BYTES)?;
        let call = || {
            let requests = documents.chunks(MAX_CHANGED).map(|some| v1::UpsertRequest { documents: some.to_vec() });
            let (mut inner, requests) = (self.inner.clone(), requests.collect::<Vec<_>>());
            let mut request = Request::new(tokio_stream::iter(requests));
            request.set_timeout(self.config.call_timeout);
            async move { inner.upsert(request).await }
        };
        Ok(retry(&self.config, &self.url, self.config.call_timeout, call).await?.into_inner())
    }

    /// Deletes documents, as one change. Sent again after a transient failure.
    pub async fn delete(&self, keys: &[String]) -> Result<v1::ChangeResponse, ClientError> {
        fits_in_all(&self.url, keys.iter().map(String::len), MAX_CHANGE_BYTES)?;
        let call = || {
            let requests = keys.chunks(MAX_CHANGED).map(|some| v1::DeleteRequest { keys: some.to_vec() });
            let (mut inner, requests) = (self.inner.clone(), requests.collect::<Vec<_>>());
            let mut request = Request::new(tokio_stream::iter(requests));
            request.set_timeout(self.config.call_timeout);
            async move { inner.delete(request).await }
        };
        Ok(retry(&self.config, &self.url, self.config.call_timeout, call).await?.into_inner())
    }
}
