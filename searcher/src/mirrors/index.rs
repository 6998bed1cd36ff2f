//! An index that is mirrored.

use std::time::Duration;

use dyad_store::Mirror;
use tokio::time::timeout;

use crate::error::{Error, Result};

/// Longest time for a store to tell its `CURRENT`.
const LOOK: Duration = Duration::from_secs(15);

/// An index that is mirrored.
#[derive(Debug)]
pub struct MirroredIndex {
    /// The name that requests give.
    pub name: String,
    /// The directory of the mirror, and where it comes from.
    pub mirror: Mirror,
}

impl MirroredIndex {
    /// The store's `CURRENT`.
    pub(super) async fn look(&self) -> Result<String> {
        let looked = timeout(LOOK, self.mirror.look()).await.map_err(|_| {
            let reason = format!("{} has not answered within {LOOK:?}", self.mirror.remote().url());
            Error::StoreLate {
                name: self.name.clone(),
                reason,
            }
        })?;
        looked.map_err(|error| Error::Store {
            name: self.name.clone(),
            error: Box::new(error),
        })
    }

    /// Removes all generations but the current one and `keep`, as [`Mirror::tidy`] does.
    pub(super) fn tidy(&self, keep: Option<u64>) {
        let index = &self.name;
        match self.mirror.tidy(keep) {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => tracing::info!(
                index,
                ?removed,
                "generations that nobody needs were removed from the cache"
            ),
            Err(error) => {
                tracing::warn!(index, %error, "cannot remove generations from the cache; the next reload tries again");
            }
        }
    }
}
