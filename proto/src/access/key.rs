//! A key as a server has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Role;
use super::key_record::KeyRecord;
use crate::admission::AdmissionLimit;
use crate::v1;

/// Calls of a key since the server started.
#[derive(Debug, Default)]
pub(super) struct KeyCalls {
    pub(super) allowed: AtomicU64,
    /// It was revoked.
    pub(super) revoked: AtomicU64,
    /// Its role is too low.
    pub(super) denied: AtomicU64,
    /// It had as many under way as it may.
    pub(super) busy: AtomicU64,
}

/// A key that is accepted, or was.
#[derive(Debug)]
pub(super) struct AcceptedKey {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) digest: [u8; 32],
    pub(super) is_revoked: bool,
    pub(super) indexes: Vec<String>,
    pub(super) filter: Option<v1::Filter>,
    /// Calls that may be under way.
    pub(super) concurrency: Option<AdmissionLimit>,
    pub(super) calls: Arc<KeyCalls>,
    /// What the file says of it.
    record: KeyRecord,
    /// Set when the file says something else: calls that go on must not.
    has_ended: AtomicBool,
}

impl AcceptedKey {
    /// `before`: the key of this id until now, whose calls still count.
    pub(super) fn new(record: &KeyRecord, before: Option<&Self>) -> Result<Self, String> {
        let at_most = |most: usize| {
            let limit = AdmissionLimit::new(most);
            let same = before
                .and_then(|before| before.concurrency.clone())
                .filter(|had| had.limit() == limit.limit());
            same.unwrap_or(limit)
        };
        Ok(Self {
            id: record.id.clone(),
            name: record.name.clone(),
            role: record.role,
            digest: record.digest(),
            is_revoked: record.revoked_unix_s.is_some(),
            indexes: record.indexes.clone(),
            filter: record.parsed_filter()?,
            concurrency: record.concurrency.map(at_most),
            calls: before.map(|before| Arc::clone(&before.calls)).unwrap_or_default(),
            record: record.clone(),
            has_ended: AtomicBool::new(false),
        })
    }

    /// Whether the file says the same of it.
    pub(super) fn is_of(&self, record: &KeyRecord) -> bool {
        self.record == *record
    }

    /// Another key, or none, is in its place.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}
