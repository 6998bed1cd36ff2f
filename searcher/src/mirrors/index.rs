//! An index that is mirrored.

use std::time::Duration;

use dyad_index::{Cancel, manifest};
use dyad_store::{Mirror, Pulled};
use tokio::time::timeout;

use crate::error::{Error, Result};
use crate::leaves::HeldShards;

/// Longest time for a store to tell its `CURRENT`.
const LOOK: Duration = Duration::from_secs(15);

/// An index that is mirrored.
#[derive(Debug)]
pub struct MirroredIndex {
    /// The name that requests give.
    pub name: String,
    /// The directory of the mirror, and where it comes from.
    pub mirror: Mirror,
    /// Which shards are mirrored.
    pub held: HeldShards,
}

impl MirroredIndex {
    /// Whether what is held of the generation of this `CURRENT` was fetched last.
    pub(super) fn has(&self, pointer: &str) -> bool {
        if self.held == HeldShards::All {
            return self.mirror.has(pointer);
        }
        // Of another generation the shards would be others, and the pointer is.
        let own = manifest::current(self.mirror.directory());
        own.is_ok_and(|own| self.mirror.has_part(pointer, &self.held.numbers(&own)))
    }

    /// Fetches what is held of the store's current generation.
    pub(super) async fn refresh(&self, cancel: &dyn Cancel) -> std::result::Result<Pulled, dyad_store::Error> {
        if self.held == HeldShards::All {
            return self.mirror.refresh(cancel).await;
        }
        let there = self.mirror.current().await?;
        let numbers = self.held.numbers(&there.manifest);
        self.mirror.refresh_part(&there, &numbers, cancel).await
    }

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
