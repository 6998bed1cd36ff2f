//! Calls that are being received: documents or keys so far, each checked as it comes.

use dyad_filter::document_filter;
use dyad_index::lexical::DocumentFilter;
use dyad_proto::access::Caller;
use dyad_proto::{v1, validate};
use prost::Message as _;
use tonic::Status;

use super::content::content_of;
use super::gathered::WantedChange;
use super::given::GivenOrigin;
use super::received::{CallMemory, ReceivedCall};
use super::remembered::{CallName, NamedCall};
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
            request_key: _,
            wait: _,
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
    opening: CallOpening,
    pub(super) received: ReceivedCall,
}

impl PendingUpsert {
    pub(super) fn begin(memory: &CallMemory, caller: &Caller) -> Self {
        Self {
            rules: CallRules::of(caller),
            sent: SentUpsert::default(),
            opening: CallOpening::default(),
            received: memory.begin(),
        }
    }

    pub(super) fn add(&mut self, caller: &Caller, request: v1::UpsertRequest) -> Result<(), Status> {
        caller.check_still()?;
        validate::upsert_request(&request)?;
        self.opening.add(caller, &request.request_key, request.wait())?;
        self.sent.add(request, &mut self.received, &mut self.rules)
    }

    pub(super) fn into_wanted(self) -> Wanted {
        Wanted::new(self.sent.into_change(), self.rules, self.opening, self.received)
    }
}

/// What a call has sent to be deleted, so far: keys, or one filter.
pub(super) struct PendingDelete {
    keys: Vec<String>,
    filter: Option<DocumentFilter>,
    rules: CallRules,
    opening: CallOpening,
    pub(super) received: ReceivedCall,
}

impl PendingDelete {
    pub(super) fn begin(memory: &CallMemory, caller: &Caller) -> Self {
        Self {
            keys: Vec::new(),
            filter: None,
            opening: CallOpening::default(),
            rules: CallRules::of(caller),
            received: memory.begin(),
        }
    }

    pub(super) fn add(&mut self, caller: &Caller, request: v1::DeleteRequest) -> Result<(), Status> {
        caller.check_still()?;
        validate::delete_request(&request)?;
        self.opening.add(caller, &request.request_key, request.wait())?;
        if self.filter.is_some() || (request.filter.is_some() && !self.keys.is_empty()) {
            return Err(Status::invalid_argument(
                "expected `keys` in every message of a call, or one message with a `filter`, got a `filter` with keys or with other messages",
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
        let change = self
            .filter
            .map_or(WantedChange::Delete(self.keys), WantedChange::DeleteMatching);
        Wanted::new(change, self.rules, self.opening, self.received)
    }
}

/// A change that has been received.
pub(super) struct Wanted {
    pub(super) change: WantedChange,
    pub(super) rules: CallRules,
    /// The call's name, where it has one.
    pub(super) named: Option<NamedCall>,
    /// Whether the reply waits until searchers serve the change.
    pub(super) is_to_be_searchable: bool,
    pub(super) received: ReceivedCall,
}

impl Wanted {
    fn new(change: WantedChange, rules: CallRules, opening: CallOpening, received: ReceivedCall) -> Self {
        let named = opening.name.map(|name| NamedCall {
            content: content_of(&change, rules.expected()),
            name,
        });
        Self {
            change,
            rules,
            named,
            is_to_be_searchable: opening.wait == v1::Wait::Searchable,
            received,
        }
    }
}

/// What the first message of a call says of the call, and no later one otherwise.
#[derive(Default)]
struct CallOpening {
    has_begun: bool,
    /// The name of the call, or none.
    name: Option<CallName>,
    /// What its reply waits for.
    wait: v1::Wait,
}

impl CallOpening {
    /// Takes in what a message says.
    fn add(&mut self, caller: &Caller, request_key: &str, wait: v1::Wait) -> Result<(), Status> {
        let name = (!request_key.is_empty()).then(|| CallName {
            caller: caller.key_id().to_owned(),
            request_key: request_key.to_owned(),
        });
        if !self.has_begun {
            (self.has_begun, self.name, self.wait) = (true, name, wait);
            return Ok(());
        }
        let differs = |field: &str| {
            Err(Status::invalid_argument(format!(
                "`{field}`: expected one in the first message of a call, or none, got one that differs in a later message",
            )))
        };
        if name.is_some() && self.name != name {
            return differs("request_key");
        }
        if wait != v1::Wait::Unspecified && self.wait != wait {
            return differs("wait");
        }
        Ok(())
    }
}
