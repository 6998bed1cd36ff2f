//! What generations with the same shards and metadata share: which passages are of one document.

use std::sync::{Arc, Mutex, OnceLock};

use super::shard::Shard;
use crate::lexical::PassageDocuments;

/// Found when it is first asked for.
#[derive(Debug, Default)]
pub(super) struct SharedDocuments {
    /// The documents of the passages, once they were looked for; none where no passage names a document.
    pub(super) found: OnceLock<Option<Arc<PassageDocuments>>>,
    /// Held while they are found, so that the memory for it is taken once.
    pub(super) finding: Mutex<()>,
}

impl SharedDocuments {
    /// For a generation with these shards: those of the generation `before`, of which the shards are given, where these
    /// are the same.
    pub(super) fn new(shards: &[Shard], before: Option<(&[Shard], &Arc<Self>)>) -> Arc<Self> {
        let has_same = |(others, _): &(&[Shard], &Arc<Self>)| {
            others.len() == shards.len()
                && others
                    .iter()
                    .zip(shards)
                    .all(|(one, other)| have_same_passages(one, other))
        };
        before
            .filter(has_same)
            .map_or_else(Arc::default, |(_, shared)| Arc::clone(shared))
    }
}

/// Whether two shards have the same passages with the same metadata, deleted ones among them.
fn have_same_passages(one: &Shard, other: &Shard) -> bool {
    let have_same_updates = match (&one.updates, &other.updates) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    };
    have_same_updates && Arc::ptr_eq(&one.text, &other.text)
}
