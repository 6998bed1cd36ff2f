//! Client of `Leaf`. Nothing is retried: who asks knows other leaves.

use std::time::Duration;

use tonic::{Request, Response, Status, Streaming};

use super::backoff::ClientConfig;
use super::channel::{ClientConnection, connect_as, unconnected};
use super::error::{ClientError, fits};
use crate::limits::MAX_MESSAGE_BYTES;
use crate::rules::request_limits;
use crate::v1;
use crate::v1::leaf_client::LeafClient as Generated;

const SEARCH_BYTES: usize = request_limits("/dyad.v1.Leaf/Search").bytes as usize;

/// A connection to a leaf. Clones share it.
#[derive(Debug, Clone)]
pub struct LeafClient {
    inner: Generated<ClientConnection>,
    url: String,
}

/// One method per unary call that is made once.
macro_rules! once {
    ($($(#[$doc:meta])* $name:ident($request:ident) -> $response:ident;)*) => {$(
        $(#[$doc])*
        pub async fn $name(&self, request: v1::$request, time: Duration) -> Result<v1::$response, ClientError> {
            fits(&self.url, &request, SEARCH_BYTES)?;
            let mut inner = self.inner.clone();
            let mut request = Request::new(request);
            request.set_timeout(time);
            let late = || Err(Status::deadline_exceeded(format!("no answer within {time:?}")));
            // Also where the leaf accepts the call and never answers.
            let answered = tokio::time::timeout(time, inner.$name(request)).await.unwrap_or_else(|_| late());
            answered.map(Response::into_inner).map_err(|status| self.failed(&status))
        }
    )*};
}

impl LeafClient {
    /// Connects to `http://ADDRESS:PORT` or `https://ADDRESS:PORT`; with TLS, the certificate is that of `name`.
    pub async fn connect(url: &str, name: &str, config: &ClientConfig) -> Result<Self, ClientError> {
        let inner = Generated::new(connect_as(url, Some(name), config).await?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self {
            inner,
            url: url.to_owned(),
        })
    }

    /// Over a channel to nowhere, for tests of who asks: no call is made.
    pub fn unconnected(url: &str) -> Result<Self, ClientError> {
        let inner = Generated::new(unconnected(url)?);
        Ok(Self {
            inner,
            url: url.to_owned(),
        })
    }

    /// The server's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn failed(&self, status: &Status) -> ClientError {
        ClientError::from_status(&self.url, 1, status)
    }

    /// The error of an answer that cannot be one.
    pub fn contract(&self, reason: String) -> ClientError {
        ClientError::Contract {
            url: self.url.clone(),
            reason,
        }
    }

    /// What the leaf holds: at once, and whenever that changes.
    pub async fn watch(&self) -> Result<Streaming<v1::LeafReport>, ClientError> {
        let mut inner = self.inner.clone();
        let watched = inner.watch(v1::WatchRequest {}).await;
        watched.map(Response::into_inner).map_err(|status| self.failed(&status))
    }

    once! {
        /// Documents of some shards that hold the terms of a question.
        terms(TermsRequest) -> TermsResponse;
        /// The best hits of some shards.
        search(LeafSearchRequest) -> LeafSearchResponse;
        /// What replies show of documents.
        fetch(FetchRequest) -> FetchResponse;
        /// Documents that are read without a question.
        read(LeafReadRequest) -> LeafReadResponse;
        /// What is known of one document.
        explain(LeafExplainRequest) -> LeafExplainResponse;
        /// Whether some documents are in none of these groups.
        other_groups(OtherGroupsRequest) -> OtherGroupsResponse;
    }
}
