//! Calls that are being received: documents or keys so far, each checked as it comes.

use dyad_filter::document_filter;
use dyad_index::lexical::DocumentFilter;
use dyad_proto::access::Caller;
use dyad_proto::{v1, validate};
use prost::Message as _;
use tonic::Status;

use super::gathered::WantedChange;
use super::given::GivenOrigin;
use super::received::{CallMemory, ReceivedCall};
use super::rules::CallRules;
use super::sent::{bytes_of, parse_metadata};

/// What a call has sent to be added or replaced, so far.
#[derive(Debug, Default)]
struct SentUpsert {
    documents: Vec<v1::Document>,
    /// One for each document, or none.
    vectors: Vec<Vec<f32>>,
    /// What they are of.
    origin: Option<GivenOrigin>,
}

impl SentUpsert {
    /// Takes a valid message in, for which the call has to hold memory.
    fn add(
        &mut self,
        request: v1::UpsertRequest,
        received: &mut ReceivedCall,
        rules: &mut CallRules,
    ) -> Result<(), Status> {
        let v1::UpsertRequest {
            documents,
            vectors,
            fingerprint,
            context,
            expected,
        } = request;
        let origin = (!vectors.is_empty()).then_some(GivenOrigin { fingerprint, context });
        if self.documents.is_empty() {
            self.origin = origin;
        } else if self.origin != origin {
            return Err(Status::invalid_argument(
                "expected vectors of one `fingerprint` and `context` in every message of a call, or in none, got others \
                 than in the first message. Send them as calls of their own",
            ));
        }
        rules.add_expected(expected, received)?;
        for (number, document) in (self.documents.len()..).zip(&documents) {
            received.hold(bytes_of(document))?;
            // Parsed again when the change is made: what waits is kept as it came.
            parse_metadata(document).map_err(|problem| {
                Status::invalid_argument(format!("document {number}: `metadata_json`: {problem}"))
            })?;
            rules.check_sent(number, document)?;
        }
        for vector in &vectors {
            received.hold(size_of_val(vector.values.as_slice()))?;
        }
        self.documents.extend(documents);
        self.vectors.extend(vectors.into_iter().map(|vector| vector.values));
        Ok(())
    }

    fn into_change(self) -> WantedChange {
        match self.origin {
            Some(origin) => WantedChange::UpsertVectors {
                origin,
                documents: self.documents,
                vectors: self.vectors,
            },
            None => WantedChange::Upsert(self.documents),
        }
    }
}

/// Documents of a call, so far.
pub(super) struct PendingUpsert {
    sent: SentUpsert,
    rules: CallRules,
    pub(super) received: ReceivedCall,
}

impl PendingUpsert {
    pub(super) fn begin(memory: &CallMemory, caller: &Caller) -> Self {
        Self {
            rules: CallRules::of(caller),
            sent: SentUpsert::default(),
            received: memory.begin(),
        }
    }

    pub(super) fn add(&mut self, caller: &Caller, request: v1::UpsertRequest) -> Result<(), Status> {
        caller.check_still()?;
        validate::upsert_request(&request)?;
        self.sent.add(request, &mut self.received, &mut self.rules)
    }

    pub(super) fn into_wanted(self) -> Wanted {
        Wanted {
            change: self.sent.into_change(),
            rules: self.rules,
            received: self.received,
        }
    }
}

/// What a call has sent to be deleted, so far: keys, or one filter.
pub(super) struct PendingDelete {
    keys: Vec<String>,
    filter: Option<DocumentFilter>,
    rules: CallRules,
    pub(super) received: ReceivedCall,
}

impl PendingDelete {
    pub(super) fn begin(memory: &CallMemory, caller: &Caller) -> Self {
        Self {
            keys: Vec::new(),
            filter: None,
            rules: CallRules::of(caller),
            received: memory.begin(),
        }
    }

    pub(super) fn add(&mut self, caller: &Caller, request: v1::DeleteRequest) -> Result<(), Status> {
        caller.check_still()?;
        validate::delete_request(&request)?;
        if self.filter.is_some() || (request.filter.is_some() && !self.keys.is_empty()) {
            return Err(Status::invalid_argument(
                "expected `keys` in every message of a call, or one message with a `filter`, got others next to a `filter`",
            ));
        }
        if let Some(filter) = &request.filter {
            self.received.hold(filter.encoded_len())?;
            self.filter = Some(self.rules.restrict(document_filter(filter)));
        }
        self.rules.add_expected(request.expected, &mut self.received)?;
        for key in request.keys {
            self.received.hold(key.len())?;
            self.keys.push(key);
        }
        Ok(())
    }

    pub(super) fn into_wanted(self) -> Wanted {
        Wanted {
            change: self
                .filter
                .map_or(WantedChange::Delete(self.keys), WantedChange::DeleteMatching),
            rules: self.rules,
            received: self.received,
        }
    }
}

/// A change that has been received.
pub(super) struct Wanted {
    pub(super) change: WantedChange,
    pub(super) rules: CallRules,
    pub(super) received: ReceivedCall,
}
