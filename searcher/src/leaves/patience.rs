//! How long a generation waits for leaves that are to hold some of its shards and do not, as where their machine is
//! down: for ever would be no service, and not at all would be no second holder while leaves fetch it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So long, from when each shard of some generation had one holder and not enough of them.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// Since when indexes have too few holders of shards, by name.
#[derive(Debug, Default)]
pub(super) struct HolderPatience(Mutex<BTreeMap<String, Instant>>);

impl HolderPatience {
    /// A generation of an index has a holder for each shard, and not enough for some: whether that has been so long
    /// enough. It stays so for the generations after it, until one has enough.
    pub(super) fn is_over(&self, index: &str) -> bool {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = since.entry(index.to_owned()).or_insert_with(Instant::now);
        since.elapsed() >= PATIENCE
    }

    /// A generation of an index has enough holders.
    pub(super) fn begin_anew(&self, index: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_over_after_a_minute_and_stays_so_until_there_are_enough_holders() {
        let patience = HolderPatience::default();
        assert!(!patience.is_over("wiki"));
        tokio::time::advance(PATIENCE).await;
        assert!(patience.is_over("wiki") && patience.is_over("wiki"));
        assert!(!patience.is_over("other"));
        patience.begin_anew("wiki");
        assert!(!patience.is_over("wiki"));
    }
}
