//! Client of `Index`.

use tonic::{Request, Response, Status};

use super::backoff::{ClientConfig, retry, retry_unmade};
use super::channel::{ClientConnection, connect};
use super::error::{ClientError, fits_in_all};
use crate::limits::{MAX_CHANGE_BYTES, MAX_CHANGED, MAX_ENCODE_BYTES, MAX_MESSAGE_BYTES, MAX_SEARCH_BYTES};
use crate::v1;
use crate::v1::index_client::IndexClient as GeneratedIndex;

/// On which terms a change is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChangeTerms<'a> {
    /// What the index has to hold; nothing is changed otherwise.
    pub expected: &'a [v1::ExpectedDocument],
    /// The name of the call, by which the server makes it once however often it is sent (`UpsertRequest.request_key`);
    /// none where it is empty. A call with a name is sent again where the connection was lost, too.
    pub request_key: &'a str,
}

/// A connection to a server that changes an index. Clones share it.
#[derive(Debug, Clone)]
pub struct IndexClient {
    inner: GeneratedIndex<ClientConnection>,
    config: ClientConfig,
    url: String,
}

impl IndexClient {
    /// Connects to `http://HOST:PORT` or `https://HOST:PORT`.
    pub async fn connect(url: &str, config: ClientConfig) -> Result<Self, ClientError> {
        let inner = GeneratedIndex::new(connect(url, &config).await?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self {
            inner,
            config,
            url: url.to_owned(),
        })
    }

    /// Adds or replaces documents, as one change. Sent again after a transient failure, unless the server may have made
    /// the change: where the connection was lost, the error leaves that open, and the same call may be sent again where
    /// nobody else changes these documents. It would bring back what others have deleted since, and undo what they have
    /// replaced.
    pub async fn upsert(&self, documents: &[v1::Document]) -> Result<v1::ChangeResponse, ClientError> {
        self.upsert_on(documents, ChangeTerms::default()).await
    }

    /// The same on terms.
    pub async fn upsert_on(
        &self,
        documents: &[v1::Document],
        terms: ChangeTerms<'_>,
    ) -> Result<v1::ChangeResponse, ClientError> {
        fits_in_all(&self.url, documents.iter().map(bytes_of), MAX_CHANGE_BYTES)?;
        let call = || {
            let some = messages(documents, bytes_of, MAX_ENCODE_BYTES);
            let requests = some.into_iter().map(|some| v1::UpsertRequest {
                documents: some.to_vec(),
                ..v1::UpsertRequest::default()
            });
            let (mut inner, mut requests) = (self.inner.clone(), requests.collect::<Vec<_>>());
            if let Some(first) = requests.first_mut() {
                first.expected = terms.expected.to_vec();
                terms.request_key.clone_into(&mut first.request_key);
            }
            let mut request = Request::new(tokio_stream::iter(requests));
            request.set_timeout(self.config.call_timeout);
            async move { inner.upsert(request).await }
        };
        self.change(terms, call).await
    }

    /// Deletes documents, as one change. Sent again as [`Self::upsert`] is: a call that was made already would delete
    /// what others have added since.
    pub async fn delete(&self, keys: &[String]) -> Result<v1::ChangeResponse, ClientError> {
        self.delete_on(keys, ChangeTerms::default()).await
    }

    /// The same on terms.
    pub async fn delete_on(&self, keys: &[String], terms: ChangeTerms<'_>) -> Result<v1::ChangeResponse, ClientError> {
        fits_in_all(&self.url, keys.iter().map(String::len), MAX_CHANGE_BYTES)?;
        let call = || {
            let some = messages(keys, String::len, MAX_SEARCH_BYTES);
            let requests = some.into_iter().map(|some| v1::DeleteRequest {
                keys: some.to_vec(),
                ..v1::DeleteRequest::default()
            });
            let (mut inner, mut requests) = (self.inner.clone(), requests.collect::<Vec<_>>());
            if let Some(first) = requests.first_mut() {
                first.expected = terms.expected.to_vec();
                terms.request_key.clone_into(&mut first.request_key);
            }
            let mut request = Request::new(tokio_stream::iter(requests));
            request.set_timeout(self.config.call_timeout);
            async move { inner.delete(request).await }
        };
        self.change(terms, call).await
    }

    /// Deletes the documents that match a filter, as one change. Sent again as [`Self::delete`] is.
    pub async fn delete_matching(&self, filter: &v1::Filter) -> Result<v1::ChangeResponse, ClientError> {
        let call = || {
            let message = v1::DeleteRequest {
                filter: Some(filter.clone()),
                ..v1::DeleteRequest::default()
            };
            let mut inner = self.inner.clone();
            let mut request = Request::new(tokio_stream::once(message));
            request.set_timeout(self.config.call_timeout);
            async move { inner.delete(request).await }
        };
        self.change(ChangeTerms::default(), call).await
    }

    /// Makes a call, and again after failures that leave no doubt, or none that matters.
    async fn change<F>(
        &self,
        terms: ChangeTerms<'_>,
        call: impl FnMut() -> F,
    ) -> Result<v1::ChangeResponse, ClientError>
    where
        F: Future<Output = Result<Response<v1::ChangeResponse>, Status>>,
    {
        let Self { config, url, .. } = self;
        let reply = if terms.request_key.is_empty() {
            retry_unmade(config, url, config.call_timeout, call).await?
        } else {
            retry(config, url, config.call_timeout, call).await?
        };
        Ok(reply.into_inner())
    }
}

/// What a server counts of a document.
fn bytes_of(document: &v1::Document) -> usize {
    let v1::Document {
        key,
        title,
        text,
        metadata_json,
        etag,
    } = document;
    key.len() + title.len() + text.len() + metadata_json.len() + etag.as_ref().map_or(0, String::len)
}

/// Tags and lengths of a document with its four texts.
const TAGS: usize = 64;

/// What goes into each message of a call: at most [`MAX_CHANGED`], and `most` bytes where one alone has no more.
fn messages<T>(all: &[T], bytes_of: impl Fn(&T) -> usize, most: usize) -> Vec<&[T]> {
    let (mut messages, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (at, one) in all.iter().enumerate() {
        let more = bytes_of(one) + TAGS;
        if at > begin && (at - begin == MAX_CHANGED || bytes + more > most) {
            messages.push(&all[begin..at]);
            (begin, bytes) = (at, 0);
        }
        bytes += more;
    }
    if begin < all.len() {
        messages.push(&all[begin..]);
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_holds_what_a_server_takes() {
        let lengths = |all: &[usize]| {
            messages(all, |bytes| *bytes, 1000)
                .iter()
                .map(|some| some.len())
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[100; 7]), [6, 1]);
        assert_eq!(lengths(&[10, 5000, 10, 10]), [1, 1, 2]);
        let many = vec![0; 3 * MAX_CHANGED + 1];
        let counts: Vec<usize> = messages(&many, |_| 0, usize::MAX)
            .iter()
            .map(|some| some.len())
            .collect();
        assert_eq!(counts, [MAX_CHANGED, MAX_CHANGED, MAX_CHANGED, 1]);
    }
}
