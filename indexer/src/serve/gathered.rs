//! Calls that wait at the same time and become one change: what a generation costs is paid once for all of them.
//!
//! The last document of a key counts, in the order in which the calls came; each call is told of its own documents.

use std::collections::{HashMap, HashSet};

use dyad_command::JobCancellation;
use dyad_index::lexical::DocumentFilter;
use dyad_proto::service::HeldBytes;
use dyad_proto::v1;
use tokio::sync::oneshot;
use tonic::Status;
use xxhash_rust::xxh3::xxh3_64;

use super::given::GivenOrigin;
use super::remembered::CallTicket;
use super::rules::CallRules;
use super::sent::bytes_of;
use crate::change::{ChangeConditions, ChangeOutcome, RecordFate, documents_of};

/// Most documents or keys that are made one change of several calls.
const MOST_RECORDS: usize = 1_024;
/// Most bytes of their texts and vectors.
const MOST_BYTES: usize = 8 << 20;

/// What is to be changed.
#[derive(Debug, Clone)]
pub(super) enum WantedChange {
    /// Documents to add or replace, whose metadata are valid.
    Upsert(Vec<v1::Document>),
    /// The same with a vector for each document.
    UpsertVectors {
        origin: GivenOrigin,
        documents: Vec<v1::Document>,
        vectors: Vec<Vec<f32>>,
    },
    /// Keys of documents to delete.
    Delete(Vec<String>),
    /// The documents to delete.
    DeleteMatching(DocumentFilter),
}

impl WantedChange {
    /// Documents or keys.
    fn records(&self) -> usize {
        match self {
            Self::Upsert(documents) | Self::UpsertVectors { documents, .. } => documents.len(),
            Self::Delete(keys) => keys.len(),
            Self::DeleteMatching(_) => 1,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Upsert(documents) => documents.iter().map(bytes_of).sum(),
            Self::UpsertVectors { documents, vectors, .. } => {
                let values: usize = vectors.iter().map(Vec::len).sum();
                documents.iter().map(bytes_of).sum::<usize>() + values * size_of::<f32>()
            }
            Self::Delete(keys) => keys.iter().map(String::len).sum(),
            Self::DeleteMatching(_) => 0,
        }
    }

    /// Whether both can be parts of one change.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Upsert(_), Self::Upsert(_)) | (Self::Delete(_), Self::Delete(_)) => true,
            (Self::UpsertVectors { origin, .. }, Self::UpsertVectors { origin: other, .. }) => origin == other,
            _ => false,
        }
    }

    /// The key of each document, or each key; none of a filter.
    pub(super) fn keys(&self) -> Vec<&str> {
        match self {
            Self::Upsert(documents) | Self::UpsertVectors { documents, .. } => {
                documents.iter().map(|document| document.key.as_str()).collect()
            }
            Self::Delete(keys) => keys.iter().map(String::as_str).collect(),
            Self::DeleteMatching(_) => Vec::new(),
        }
    }
}

/// A change that a client waits for.
#[derive(Debug)]
pub(super) struct ChangeCall {
    pub(super) change: WantedChange,
    /// What it may change.
    pub(super) rules: CallRules,
    /// Its name, where it has one.
    pub(super) ticket: Option<CallTicket>,
    /// The memory that it takes until it is made.
    pub(super) held: HeldBytes,
    /// Cancelled once its client has gone.
    pub(super) cancel: JobCancellation,
    pub(super) reply: oneshot::Sender<Result<v1::ChangeResponse, Status>>,
}

/// Calls of one kind. There is at least one.
#[derive(Debug)]
pub(super) struct GatheredCalls {
    pub(super) calls: Vec<ChangeCall>,
    records: usize,
    bytes: usize,
    /// Hashes of the keys that they change.
    keys: HashSet<u64>,
    /// Whether what one of them may change depends on what the index holds.
    have_rules: bool,
}

impl GatheredCalls {
    pub(super) fn begin(first: ChangeCall) -> Self {
        Self {
            records: first.change.records(),
            bytes: first.change.bytes(),
            keys: hashes_of(&first).collect(),
            have_rules: !first.rules.are_none(),
            calls: vec![first],
        }
    }

    /// Whether other calls may still join.
    pub(super) fn has_room(&self) -> bool {
        self.records < MOST_RECORDS && self.bytes < MOST_BYTES
    }

    /// Takes a call in, or gives it back where it is of another kind or too large, or where what it may change depends
    /// on what another one of them changes.
    pub(super) fn join(&mut self, call: ChangeCall) -> Option<ChangeCall> {
        let records = self.records + call.change.records();
        let bytes = self.bytes + call.change.bytes();
        let is_like = self
            .calls
            .first()
            .is_some_and(|first| first.change.is_like(&call.change));
        let have_rules = self.have_rules || !call.rules.are_none();
        let depends = have_rules && hashes_of(&call).any(|hash| self.keys.contains(&hash));
        if !is_like || depends || records > MOST_RECORDS || bytes > MOST_BYTES {
            return Some(call);
        }
        (self.records, self.bytes, self.have_rules) = (records, bytes, have_rules);
        self.keys.extend(hashes_of(&call));
        self.calls.push(call);
        None
    }
}

/// Hashes of the keys that a call changes, or expects something of, and of the documents of which these may be
/// passages. Two keys with one hash only keep calls apart.
fn hashes_of(call: &ChangeCall) -> impl Iterator<Item = u64> {
    let keys = call.change.keys().into_iter().chain(call.rules.expected_keys());
    keys.flat_map(documents_of).map(|key| xxh3_64(key.as_bytes()))
}

/// What must hold of the documents that these calls change.
pub(super) fn conditions_of(calls: &[ChangeCall]) -> ChangeConditions<'_> {
    let mut conditions = ChangeConditions::default();
    for call in calls {
        call.rules.add_to(&mut conditions, call.change.keys());
    }
    conditions
}

/// The changes of several calls of one kind as one, in which no key comes twice.
pub(super) fn joined(changes: &[&WantedChange]) -> WantedChange {
    let mut kept = kept_records(changes).into_iter();
    let mut is_kept = || kept.next().unwrap_or_default();
    let mut joined = match changes.first() {
        None | Some(WantedChange::Delete(_)) => WantedChange::Delete(Vec::new()),
        Some(WantedChange::DeleteMatching(filter)) => WantedChange::DeleteMatching(filter.clone()),
        Some(WantedChange::Upsert(_)) => WantedChange::Upsert(Vec::new()),
        Some(WantedChange::UpsertVectors { origin, .. }) => WantedChange::UpsertVectors {
            origin: origin.clone(),
            documents: Vec::new(),
            vectors: Vec::new(),
        },
    };
    for change in changes {
        match (&mut joined, change) {
            (WantedChange::Delete(all), WantedChange::Delete(keys)) => {
                all.extend(keys.iter().filter(|_| is_kept()).cloned());
            }
            (WantedChange::Upsert(all), WantedChange::Upsert(documents)) => {
                all.extend(documents.iter().filter(|_| is_kept()).cloned());
            }
            (
                WantedChange::UpsertVectors {
                    documents: all,
                    vectors: rows,
                    ..
                },
                WantedChange::UpsertVectors { documents, vectors, .. },
            ) => {
                let given = documents.iter().zip(vectors).filter(|_| is_kept());
                for (document, vector) in given {
                    all.push(document.clone());
                    rows.push(vector.clone());
                }
            }
            _ => {}
        }
    }
    joined
}

/// Whether each record counts, over all changes: of an upsert the last of its key does, of a deletion the first.
fn kept_records(changes: &[&WantedChange]) -> Vec<bool> {
    let keys: Vec<&str> = changes.iter().flat_map(|change| change.keys()).collect();
    let is_delete = matches!(changes.first(), Some(WantedChange::Delete(_)));
    let mut kept = vec![false; keys.len()];
    let mut seen = HashSet::with_capacity(keys.len());
    let numbers: Box<dyn Iterator<Item = usize>> = if is_delete {
        Box::new(0..keys.len())
    } else {
        Box::new((0..keys.len()).rev())
    };
    for number in numbers {
        if let (Some(key), Some(kept)) = (keys.get(number), kept.get_mut(number)) {
            *kept = seen.insert(*key);
        }
    }
    kept
}

/// What each of the changes came to, by the outcome of all of them as one.
pub(super) fn replies(changes: &[&WantedChange], outcome: &ChangeOutcome) -> Vec<v1::ChangeResponse> {
    let mut kept = kept_records(changes).into_iter();
    let missing: HashSet<&str> = outcome.missing.first.iter().map(String::as_str).collect();
    // Where the first of several deletions of a key has deleted its document, the others find none.
    let mut owner: HashMap<&str, usize> = HashMap::new();
    let mut replies = Vec::with_capacity(changes.len());
    for (number, change) in changes.iter().enumerate() {
        let mut reply = v1::ChangeResponse {
            documents: outcome.documents_after,
            ..v1::ChangeResponse::default()
        };
        for key in change.keys() {
            reply.read += 1;
            let is_kept = kept.next().unwrap_or_default();
            let first = *owner.entry(key).or_insert(number);
            match change {
                WantedChange::Delete(_) if !is_kept && first == number => reply.superseded += 1,
                WantedChange::Delete(_) if !is_kept || missing.contains(key) => reply.rejected += 1,
                WantedChange::Delete(_) => reply.indexed += 1,
                _ if !is_kept => reply.superseded += 1,
                _ => match outcome.kept.fate(key) {
                    RecordFate::Unchanged => reply.unchanged += 1,
                    RecordFate::NewMetadata => {
                        reply.indexed += 1;
                        reply.reused += 1;
                    }
                    RecordFate::Indexed => reply.indexed += 1,
                },
            }
        }
        if let WantedChange::DeleteMatching(_) = change {
            (reply.read, reply.indexed) = (outcome.change.read, outcome.change.indexed);
        }
        if reply.indexed > 0 {
            reply.generation = outcome.manifest.as_ref().map_or(0, |manifest| manifest.generation);
        }
        replies.push(reply);
    }
    replies
}

#[cfg(test)]
mod tests {
    use dyad_index::manifest::Change;

    use super::*;
    use crate::change::{KeptRecords, MissingKeys};

    fn upsert(documents: &[(&str, &str)]) -> WantedChange {
        let document = |(key, text): &(&str, &str)| v1::Document {
            key: (*key).to_owned(),
            text: (*text).to_owned(),
            ..v1::Document::default()
        };
        WantedChange::Upsert(documents.iter().map(document).collect())
    }

    fn delete(keys: &[&str]) -> WantedChange {
        WantedChange::Delete(keys.iter().map(|key| (*key).to_owned()).collect())
    }

    fn outcome(missing: &[&str]) -> ChangeOutcome {
        ChangeOutcome {
            manifest: None,
            change: Change::default(),
            documents_before: 9,
            documents_after: 7,
            missing: MissingKeys {
                total: missing.len() as u64,
                first: missing.iter().map(|key| (*key).to_owned()).collect(),
            },
            kept: KeptRecords::default(),
        }
    }

    fn call(change: WantedChange) -> ChangeCall {
        ChangeCall {
            change,
            rules: CallRules::default(),
            ticket: None,
            held: HeldBytes::default(),
            cancel: JobCancellation::new(),
            reply: oneshot::channel().0,
        }
    }

    #[test]
    fn calls_of_one_kind_are_gathered_up_to_a_bound() {
        let mut gathered = GatheredCalls::begin(call(delete(&["a"])));
        assert!(gathered.join(call(upsert(&[("a", "1")]))).is_some());
        assert!(gathered.join(call(delete(&["b"]))).is_none());
        let many: Vec<String> = (0..MOST_RECORDS).map(|number| number.to_string()).collect();
        assert!(
            gathered
                .join(call(WantedChange::Delete(many[..MOST_RECORDS - 1].to_vec())))
                .is_some()
        );
        assert!(
            gathered
                .join(call(WantedChange::Delete(many[..MOST_RECORDS - 2].to_vec())))
                .is_none()
        );
        assert!(!gathered.has_room() && gathered.calls.len() == 3);
        let of = |fingerprint: &str| WantedChange::UpsertVectors {
            origin: GivenOrigin {
                fingerprint: fingerprint.to_owned(),
                context: String::new(),
            },
            documents: Vec::new(),
            vectors: Vec::new(),
        };
        let mut gathered = GatheredCalls::begin(call(of("a")));
        assert!(gathered.join(call(of("b"))).is_some(), "of another model");
        assert!(gathered.join(call(of("a"))).is_none());
    }

    #[test]
    fn the_last_document_of_a_key_counts_and_each_call_is_told_of_its_own() {
        let calls = [
            upsert(&[("a", "1"), ("b", "1"), ("a", "2")]),
            upsert(&[("b", "2"), ("c", "1")]),
        ];
        let calls: Vec<&WantedChange> = calls.iter().collect();
        let WantedChange::Upsert(documents) = joined(&calls) else {
            unreachable!()
        };
        let all: Vec<(&str, &str)> = documents
            .iter()
            .map(|one| (one.key.as_str(), one.text.as_str()))
            .collect();
        assert_eq!(all, [("a", "2"), ("b", "2"), ("c", "1")]);
        let replies = replies(&calls, &outcome(&[]));
        let counts = |reply: &v1::ChangeResponse| (reply.read, reply.indexed, reply.superseded);
        assert_eq!(replies.iter().map(counts).collect::<Vec<_>>(), [(3, 1, 2), (2, 2, 0)]);
    }

    #[test]
    fn the_first_deletion_of_a_key_counts() {
        let calls = [delete(&["a", "a", "x"]), delete(&["a", "b", "x"])];
        let calls: Vec<&WantedChange> = calls.iter().collect();
        let WantedChange::Delete(keys) = joined(&calls) else {
            unreachable!()
        };
        assert_eq!(keys, ["a", "x", "b"]);
        let replies = replies(&calls, &outcome(&["x"]));
        let counts = |reply: &v1::ChangeResponse| (reply.read, reply.indexed, reply.superseded, reply.rejected);
        assert_eq!(
            replies.iter().map(counts).collect::<Vec<_>>(),
            [(3, 1, 1, 1), (3, 1, 0, 2)]
        );
    }
}
