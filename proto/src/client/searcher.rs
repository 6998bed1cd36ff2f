//! Clients of `Searcher` and `Admin`.

use std::time::Duration;

use tokio_stream::Stream;
use tonic::{Request, Streaming};

use super::backoff::{ClientConfig, begin, retry};
use super::channel::{ClientConnection, connect};
use super::error::{ClientError, fits};
use crate::limits::{self, MAX_MESSAGE_BYTES};
use crate::v1;
use crate::v1::admin_client::AdminClient as GeneratedAdmin;
use crate::v1::searcher_client::SearcherClient as GeneratedSearcher;

/// A connection to a searcher. Clones share it.
#[derive(Debug, Clone)]
pub struct SearcherClient {
    inner: GeneratedSearcher<ClientConnection>,
    config: ClientConfig,
    url: String,
}

/// A connection to a searcher's admin service. Clones share it.
#[derive(Debug, Clone)]
pub struct AdminClient {
    inner: GeneratedAdmin<ClientConnection>,
    config: ClientConfig,
    url: String,
}

/// One method per unary call: a request of at most `limit` bytes in, a reply out, retried after transient failures.
macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident($request:ident, $limit:ident) -> $response:ident;)*) => {$(
        $(#[$doc])*
        pub async fn $name(&self, request: v1::$request) -> Result<v1::$response, ClientError> {
            fits(&self.url, &request, limits::$limit)?;
            let call = || {
                let mut inner = self.inner.clone();
                let mut request = Request::new(request.clone());
                request.set_timeout(self.config.call_timeout);
                async move { inner.$name(request).await }
            };
            Ok(retry(&self.config, &self.url, self.config.call_timeout, call).await?.into_inner())
        }
    )*};
}

impl SearcherClient {
    /// Connects to `http://HOST:PORT` or `https://HOST:PORT`.
    pub async fn connect(url: &str, config: ClientConfig) -> Result<Self, ClientError> {
        let inner = GeneratedSearcher::new(connect(url, &config).await?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self {
            inner,
            config,
            url: url.to_owned(),
        })
    }

    /// The server's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    unary! {
        /// Answers one question.
        search(SearchRequest, MAX_SEARCH_BYTES) -> SearchResponse;
        /// Answers many questions together.
        search_batch(SearchBatchRequest, MAX_SEARCH_BATCH_BYTES) -> SearchBatchResponse;
        /// Stored documents by key.
        get_documents(GetDocumentsRequest, MAX_SEARCH_BYTES) -> GetDocumentsResponse;
        /// Stored documents chosen at random.
        sample_documents(SampleDocumentsRequest, MAX_SEARCH_BYTES) -> SampleDocumentsResponse;
        /// Stored documents in the order of their keys.
        scroll_documents(ScrollDocumentsRequest, MAX_SEARCH_BYTES) -> ScrollDocumentsResponse;
        /// How many documents there are.
        count_documents(CountDocumentsRequest, MAX_SEARCH_BYTES) -> CountDocumentsResponse;
        /// The fields that documents have.
        list_fields(ListFieldsRequest, MAX_OTHER_BYTES) -> ListFieldsResponse;
        /// Why a document is, or is not, among the hits.
        explain(ExplainRequest, MAX_SEARCH_BYTES) -> ExplainResponse;
    }

    /// Many questions over one call; replies keep the order of the requests. Nothing is retried. No request is answered
    /// after `deadline`; one of 10 minutes or more is for each request.
    pub async fn search_stream(
        &self,
        requests: impl Stream<Item = v1::SearchRequest> + Send + 'static,
        deadline: Duration,
    ) -> Result<Streaming<v1::SearchStreamResponse>, ClientError> {
        let mut inner = self.inner.clone();
        begin(&self.url, requests, deadline, async |request| {
            inner.search_stream(request).await
        })
        .await
    }
}

impl AdminClient {
    /// Connects to `http://HOST:PORT` or `https://HOST:PORT`.
    pub async fn connect(url: &str, config: ClientConfig) -> Result<Self, ClientError> {
        let inner = GeneratedAdmin::new(connect(url, &config).await?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self {
            inner,
            config,
            url: url.to_owned(),
        })
    }

    unary! {
        /// All indexes that are served.
        list_indexes(ListIndexesRequest, MAX_OTHER_BYTES) -> ListIndexesResponse;
        /// What is served of an index.
        status(StatusRequest, MAX_OTHER_BYTES) -> StatusResponse;
        /// Opens the current generation.
        reload(ReloadRequest, MAX_OTHER_BYTES) -> ReloadResponse;
        /// Goes back to an earlier generation.
        rollback(RollbackRequest, MAX_OTHER_BYTES) -> RollbackResponse;
        /// Reads every byte and checks it.
        verify(VerifyRequest, MAX_OTHER_BYTES) -> VerifyResponse;
    }
}
