//! The life of what is served: reload, rollback, verification. Each ends what it has begun, whoever waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_index::manifest;
use dyad_index::snapshot::Snapshot;
use dyad_index::storage::WriteLock;

use super::checksums;
use super::engine::{Engine, check_model};
use super::stop::Stop;
use crate::error::{Error, Result};

impl Engine {
    /// Opens the generation that `CURRENT` names and serves it; gives the old and the new number.
    pub async fn reload(self: &Arc<Self>) -> Result<(u64, u64)> {
        self.switch(|engine| {
            let snapshot = Snapshot::open(&engine.index)?;
            check_model(&snapshot.manifest().model, engine.tower.model())?;
            Ok(snapshot)
        })
        .await
    }

    /// Points `CURRENT` at a generation and serves it; gives the old and the new number.
    pub async fn rollback(self: &Arc<Self>, generation: u64) -> Result<(u64, u64)> {
        self.switch(move |engine| {
            let index = &engine.index;
            // Opened before the pointer moves: a generation that cannot be served is not made current.
            let snapshot = Snapshot::open_manifest(index, manifest::load(index, generation)?)?;
            check_model(&snapshot.manifest().model, engine.tower.model())?;
            manifest::point_to(index, generation, &WriteLock::acquire(index)?)?;
            Ok(snapshot)
        })
        .await
    }

    /// Serves what `open` opens. One at a time; a caller that goes away ends nothing that has begun, so that the pointer on
    /// disk and what is served never part.
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
            let previous = before.manifest().generation;
            tracing::info!(previous, generation, "serving another generation");
            // Here and not on a thread that does I/O: the last holder of a generation unmaps it.
            drop(before);
            Ok((previous, generation))
        });
        work.await.map_err(|_| Error::Internal)?
    }

    /// Reads every byte of the served generation; gives the problems found and the bytes read.
    pub async fn verify(&self, time: Duration) -> Result<(Vec<String>, u64)> {
        // Minutes of reading: on a thread of its own, and one at a time, so that no search waits for it. The turn belongs to
        // the work and not to the caller, who may leave.
        let turn = Arc::clone(&self.verifying).try_acquire_owned().map_err(|_| Error::Verifying)?;
        let snapshot = self.snapshot();
        // Dropped with this future, when the caller leaves: the work ends soon after.
        let (stop, _waiting) = Stop::after(Instant::now(), time);
        let asked = Arc::clone(&stop);
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            dyad_index::verify::verify(snapshot.index(), snapshot.manifest(), &*asked)
        });
        let findings = work.await.map_err(|_| Error::Internal)?;
        match findings.prevented {
            Some(reason) => Err(Error::NotVerified(reason)),
            None if findings.stopped => Err(stop.over()),
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
