//! What calls may change: the holder of an API key with a filter sees some documents only, and writes no others.

use dyad_filter::document_filter;
use dyad_index::lexical::DocumentFilter;
use dyad_proto::access::Caller;
use dyad_proto::v1;
use tonic::{Code, Status};

use super::received::ReceivedCall;
use super::sent::stored_form;
use crate::change::{ChangeConditions, ExpectedContent};

/// What one call may change; everything by default.
#[derive(Debug, Clone, Default)]
pub(super) struct CallRules {
    /// Which documents exist for its caller; all where absent.
    scope: Option<DocumentFilter>,
    /// What must be in the index.
    expected: Vec<v1::ExpectedDocument>,
}

impl CallRules {
    /// Of a call of this caller.
    pub(super) fn of(caller: &Caller) -> Self {
        Self {
            scope: caller.filter().map(document_filter),
            expected: Vec::new(),
        }
    }

    /// Whether the call may change everything, whatever the index holds.
    pub(super) fn are_none(&self) -> bool {
        self.scope.is_none() && self.expected.is_empty()
    }

    /// Whether documents are to be as the caller expects them.
    pub(super) fn expect_documents(&self) -> bool {
        !self.expected.is_empty()
    }

    /// These documents.
    pub(super) fn expected(&self) -> &[v1::ExpectedDocument] {
        &self.expected
    }

    /// The keys of these documents.
    pub(super) fn expected_keys(&self) -> impl Iterator<Item = &str> {
        self.expected.iter().map(|document| document.key.as_str())
    }

    /// Adds what one message of the call expects.
    pub(super) fn add_expected(
        &mut self,
        more: Vec<v1::ExpectedDocument>,
        received: &mut ReceivedCall,
    ) -> Result<(), Status> {
        for document in &more {
            received.hold(document.key.len() + document.etag.len())?;
        }
        self.expected.extend(more);
        Ok(())
    }

    /// Refuses a document that would not exist for who writes it; `number` is its place in the call.
    pub(super) fn check_sent(&self, number: usize, document: &v1::Document) -> Result<(), Status> {
        let Some(scope) = &self.scope else { return Ok(()) };
        let invalid = |problem| Status::invalid_argument(format!("document {number}: {problem}"));
        if scope.matches(&stored_form(document).map_err(invalid)?) {
            return Ok(());
        }
        Err(Status::permission_denied(format!(
            "document {number}: this API key has a filter, which the document does not pass; nothing was changed. Give it the \
             metadata that the filter asks for"
        )))
    }

    /// A filter of the call together with that of its caller.
    pub(super) fn restrict(&self, filter: DocumentFilter) -> DocumentFilter {
        match &self.scope {
            Some(scope) => DocumentFilter::All(vec![scope.clone(), filter]),
            None => filter,
        }
    }

    /// Adds what must hold of the documents with the keys of the call.
    pub(super) fn add_to<'a>(&'a self, conditions: &mut ChangeConditions<'a>, keys: impl IntoIterator<Item = &'a str>) {
        if let Some(scope) = &self.scope {
            keys.into_iter().for_each(|key| conditions.restrict(key, scope));
        }
        for document in &self.expected {
            conditions.expect(ExpectedContent {
                key: &document.key,
                etag: Some(document.etag.as_str()).filter(|etag| !etag.is_empty()),
                scope: self.scope.as_ref(),
            });
        }
    }

    /// What the caller is told of a change. To one who sees some documents only, the number of all, paths of the server
    /// and documents of other calls are no concern; errors go to the log.
    pub(super) fn told(&self, made: Result<v1::ChangeResponse, Status>) -> Result<v1::ChangeResponse, Status> {
        match made {
            Ok(reply) => Ok(self.told_reply(reply)),
            Err(status) if self.scope.is_some() => Err(without_places(status)),
            Err(status) => Err(status),
        }
    }

    /// The same of a change that was made.
    pub(super) fn told_reply(&self, reply: v1::ChangeResponse) -> v1::ChangeResponse {
        let documents = if self.scope.is_some() { 0 } else { reply.documents };
        v1::ChangeResponse { documents, ..reply }
    }
}

fn without_places(status: Status) -> Status {
    let message = match status.code() {
        Code::Unavailable => "the change cannot be made now; nothing was changed. Send it again later",
        Code::ResourceExhausted => "the server has no room for the change; nothing was changed",
        Code::DeadlineExceeded => "the documents were not embedded in time; nothing was changed. Send them again later",
        Code::Internal | Code::Unknown | Code::DataLoss | Code::NotFound => {
            "the change failed. The log of the server says why; look at the documents before you send it again"
        }
        Code::FailedPrecondition => {
            "the vectors do not fit the index: it is of another model or context than `fingerprint` and `context` say, or the encoder \
             service has another model, or no shard would keep its recall; nothing was changed. Ask the operator"
        }
        // Of the call itself.
        _ => return status,
    };
    let metadata = status.metadata().clone();
    Status::with_metadata(status.code(), message, metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_told_no_paths_and_no_number_of_documents() {
        let tenant = CallRules {
            scope: Some(DocumentFilter::Keys(vec!["a".to_owned()])),
            expected: Vec::new(),
        };
        let reply = v1::ChangeResponse {
            documents: 7,
            indexed: 1,
            ..v1::ChangeResponse::default()
        };
        let told = tenant.told(Ok(reply)).unwrap();
        assert_eq!((told.documents, told.indexed), (0, 1));
        assert_eq!(CallRules::default().told(Ok(reply)).unwrap(), reply);
        let mut busy = Status::unavailable("documents `x` to `y` could not be embedded");
        busy.metadata_mut().insert("hint", 1_i64.into());
        let told = tenant.told(Err(busy.clone())).unwrap_err();
        assert!(told.code() == Code::Unavailable && told.metadata().contains_key("hint"));
        assert!(!told.message().contains("`x`"), "{told}");
        assert_eq!(
            CallRules::default().told(Err(busy.clone())).unwrap_err().message(),
            busy.message()
        );
        let own = Status::invalid_argument("document 1");
        assert_eq!(tenant.told(Err(own)).unwrap_err().message(), "document 1");
    }
}
