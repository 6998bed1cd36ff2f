//! The fields of an index as they were listed last: they take long to read, and each page that is opened asks for them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use dyad_index::snapshot::Snapshot;
use dyad_proto::v1;

/// The fields of one generation, for callers for whom all of its documents exist.
#[derive(Debug, Default)]
pub(in crate::run) struct ListedFields(Mutex<Option<(Weak<Snapshot>, v1::ListFieldsResponse)>>);

impl ListedFields {
    /// Those of an opened generation, where they are known.
    pub(in crate::run) fn of_generation(&self, snapshot: &Arc<Snapshot>) -> Option<v1::ListFieldsResponse> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // No other generation has its address as long as this is held.
        let (_, fields) = kept.as_ref().filter(|(of, _)| of.as_ptr() == Arc::as_ptr(snapshot))?;
        Some(fields.clone())
    }

    /// Keeps those of an opened generation in place of those of another.
    pub(in crate::run) fn keep(&self, snapshot: &Arc<Snapshot>, fields: &v1::ListFieldsResponse) {
        let kept = Some((Arc::downgrade(snapshot), fields.clone()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }
}
