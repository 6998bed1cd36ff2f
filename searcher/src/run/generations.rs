//! Reload, rollback, `CURRENT` followed, and verification. Reload and rollback complete what they have begun, also where the caller
//! leaves.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_index::manifest;
use dyad_index::snapshot::Snapshot;
use dyad_index::storage::WriteLock;

use super::cancellation::Cancellation;
use super::checksums;
use super::engine::{Engine, check_model};
use crate::error::{Error, Result};

/// Until a generation that could not be served is tried again.
const RETRY: Duration = Duration::from_mins(1);

/// Between two looks whether requests still read a generation that is no longer served.
const CLOSE_PAUSE: Duration = Duration::from_millis(20);

/// Closes a generation on a thread of its own, once no request reads it: unmapping large files takes long, and must not
/// happen on an I/O thread, where the last request may end.
fn close_in_background(snapshot: Arc<Snapshot>) {
    let close = move || {
        while Arc::strong_count(&snapshot) > 1 {
            std::thread::sleep(CLOSE_PAUSE);
        }
        drop(snapshot);
    };
    let thread = std::thread::Builder::new().name("dyad-close".to_owned());
    if let Err(error) = thread.spawn(close) {
        tracing::warn!("the generation before is closed at once: cannot start a thread: {error}");
    }
}

impl Engine {
    /// Opens the generation that `CURRENT` names and serves it; returns the old and the new number.
    pub async fn reload(self: &Arc<Self>) -> Result<(u64, u64)> {
        self.switch(|engine| {
            let snapshot = Snapshot::open_after(&engine.index, Some(&engine.snapshot()))?;
            check_model(&snapshot.manifest().model, engine.tower())?;
            Ok(snapshot)
        })
        .await
    }

    /// Reads `CURRENT` at intervals of `pause` and serves the generation that it names, until the future is dropped. A generation that
    /// cannot be served is logged once and tried again after a minute, or when `CURRENT` names another; the one that is served stays. A
    /// directory that cannot be read is reported by `Status`.
    pub async fn follow(self: &Arc<Self>, pause: Duration) {
        let mut refused: Option<(u64, Instant)> = None;
        loop {
            tokio::time::sleep(pause).await;
            let index = self.index.clone();
            let read = tokio::task::spawn_blocking(move || manifest::current_generation(&index));
            let Ok(Ok(Some(generation))) = read.await else { continue };
            let recent = |(other, at): (u64, Instant)| other == generation && at.elapsed() < RETRY;
            if generation == self.snapshot().manifest().generation || refused.is_some_and(recent) {
                continue;
            }
            refused = match self.reload().await {
                Ok(_) => None,
                Err(error) => {
                    let logged = refused.is_some_and(|(other, _)| other == generation);
                    if !logged {
                        tracing::error!(generation, %error, "CURRENT names a generation that cannot be served");
                    }
                    Some((generation, Instant::now()))
                }
            };
        }
    }

    /// Points `CURRENT` at a generation and serves it; returns the old and the new number.
    pub async fn rollback(self: &Arc<Self>, generation: u64) -> Result<(u64, u64)> {
        self.switch(move |engine| {
            let index = &engine.index;
            // Opened before the pointer moves: a generation that cannot be served is not made current.
            let served = engine.snapshot();
            let snapshot = Snapshot::open_manifest(index, manifest::load(index, generation)?, Some(&served))?;
            check_model(&snapshot.manifest().model, engine.tower())?;
            manifest::point_to(index, generation, &WriteLock::acquire(index)?)?;
            Ok(snapshot)
        })
        .await
    }

    /// Serves the generation that `open` opens. One at a time; a caller that leaves interrupts nothing, so that the pointer on
    /// disk and the served generation always agree.
    async fn switch(
        self: &Arc<Self>,
        open: impl FnOnce(&Self) -> Result<Snapshot> + Send + 'static,
    ) -> Result<(u64, u64)> {
        let turn = Arc::clone(&self.switching).lock_owned().await;
        let engine = Arc::clone(self);
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let snapshot = open(&engine)?;
            let generation = snapshot.manifest().generation;
            let snapshot = Arc::new(snapshot);
            checksums::check_in_background(&snapshot);
            let before = engine.served.swap(snapshot);
            if let Some(filters) = &engine.filters {
                filters.clear();
            }
            let previous = before.manifest().generation;
            tracing::info!(previous, generation, "serving another generation");
            close_in_background(before);
            Ok((previous, generation))
        });
        work.await.map_err(|_| Error::Internal)?
    }

    /// Reads every byte of the served generation; returns the problems found and the bytes read.
    pub async fn verify(&self, time: Duration) -> Result<(Vec<String>, u64)> {
        // Reading takes minutes: on a thread of its own, and one at a time, so that no search waits for it. The permit is held
        // by the work and not by the caller, who may leave.
        let turn = Arc::clone(&self.verifying).try_acquire_owned().map_err(|_| Error::Verifying)?;
        let snapshot = self.snapshot();
        // Dropped with this future, when the caller leaves: the work ends soon after.
        let (cancel, _guard) = Cancellation::with_deadline(Instant::now(), time);
        let asked = Arc::clone(&cancel);
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            dyad_index::verify::verify(snapshot.index(), snapshot.manifest(), &*asked)
        });
        let findings = work.await.map_err(|_| Error::Internal)?;
        match findings.prevented {
            Some(reason) => Err(Error::NotVerified(reason)),
            None if findings.stopped => Err(cancel.deadline_error()),
            None => Ok((findings.problems, findings.bytes)),
        }
    }

    /// Generations on disk, and the one that a rollback would go to.
    pub async fn generations(&self) -> Result<(Vec<u64>, Option<u64>)> {
        let (index, served): (PathBuf, u64) = (self.index.clone(), self.snapshot().manifest().generation);
        let work = tokio::task::spawn_blocking(move || {
            let present = manifest::generations(&index)?;
            Ok((present, manifest::predecessor(&index, served).ok()))
        });
        work.await.map_err(|_| Error::Internal)?
    }
}
