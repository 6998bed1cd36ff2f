//! Reload, rollback, `CURRENT` followed, and verification. Reload and rollback complete what they have begun, also
//! where the caller leaves.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_index::manifest::{self, Manifest};
use dyad_index::snapshot::Snapshot;
use dyad_index::storage::WriteLock;
use dyad_proto::access::Caller;

use super::engine::Engine;
use super::resources::cancellation::SearchCancellation;
use super::served::generation::ServedGeneration;
use super::served::served_index::{ServedIndex, pointer};
use crate::error::{Error, Result};
use crate::leaves::HeldShards;
use crate::memory::IndexMemory;
use crate::mirrors::Mirrors;

/// Until a generation that could not be served is tried again.
const RETRY: Duration = Duration::from_mins(1);

/// Between two looks whether requests still read a generation that is no longer served.
const CLOSE_PAUSE: Duration = Duration::from_millis(20);

/// Closes a generation on a thread of its own, once no request reads it: unmapping large files takes long, and must not
/// happen on an I/O thread, where the last request may end.
fn close_in_background(generation: Arc<ServedGeneration>) {
    let close = move || {
        while Arc::strong_count(&generation) > 1 || Arc::strong_count(generation.snapshot()) > 1 {
            std::thread::sleep(CLOSE_PAUSE);
        }
        drop(generation);
    };
    let thread = std::thread::Builder::new().name("dyad-close".to_owned());
    if let Err(error) = thread.spawn(close) {
        tracing::warn!("the generation before is closed at once: cannot start a thread: {error}");
    }
}

impl Engine {
    /// With indexes that are mirrored from stores.
    #[must_use]
    pub fn with_mirrors(mut self, mirrors: Option<Mirrors>) -> Self {
        self.mirrors = mirrors;
        self
    }

    /// Opens the generation that `CURRENT` of an index names and serves it; returns the old and the new number. Of an
    /// index in a store, that is the store's `CURRENT`: its generation is fetched first.
    pub async fn reload(self: &Arc<Self>, index: &str) -> Result<(u64, u64)> {
        let index = self.index(index, &Caller::default())?;
        if let Some(mirrors) = &self.mirrors {
            let fetched = mirrors.refresh(&index.name).await;
            fetched.inspect_err(|_| self.metrics.reload(&index.name, false))?;
        }
        self.reload_index(index).await
    }

    async fn reload_index(self: &Arc<Self>, index: &Arc<ServedIndex>) -> Result<(u64, u64)> {
        self.switch(index, |engine, index| {
            let served = index.snapshot();
            // Where it cannot be read, opening it says why.
            if let Ok(wanted) = manifest::current(&index.path) {
                engine.check_memory(index, &wanted)?;
            }
            let pointer = pointer(&index.path).unwrap_or_default();
            let snapshot = engine.held.open(&index.path, None, Some(&served))?;
            engine
                .towers
                .check(&snapshot.manifest().model, Some(&served.manifest().model))?;
            Ok((snapshot, pointer))
        })
        .await
    }

    /// Reads every `CURRENT` at intervals of `pause` and serves the generation that it names, until the future is
    /// dropped: by number and checksum, for another index may have taken the directory's place, and have a generation
    /// of the same number. A generation that cannot be served is logged once and tried again after a minute, or when
    /// `CURRENT` names another; the one that is served stays. A directory that cannot be read is reported by `Status`.
    /// Stores are asked at the same intervals, and what they have is fetched.
    pub async fn follow(self: &Arc<Self>, pause: Duration) {
        let mut refused: Vec<Option<(String, Instant)>> = vec![None; self.indexes.iter().len()];
        if let Some(mirrors) = &self.mirrors {
            mirrors.follow(pause, Arc::clone(&self.metrics)).await;
        }
        loop {
            let fetched = async {
                match &self.mirrors {
                    Some(mirrors) => mirrors.fetched().await,
                    None => std::future::pending().await,
                }
            };
            // Elapsed, or interrupted by what was fetched.
            _ = tokio::time::timeout(pause, fetched).await;
            self.close_earlier();
            let engine = Arc::clone(self);
            let current = |index: &Arc<ServedIndex>| pointer(&index.path);
            let read = tokio::task::spawn_blocking(move || engine.indexes.iter().map(current).collect::<Vec<_>>());
            let Ok(current) = read.await else { continue };
            for ((index, refused), pointer) in self.indexes.iter().zip(&mut refused).zip(current) {
                if let Some(pointer) = pointer {
                    self.follow_to(index, pointer, refused).await;
                }
            }
        }
    }

    /// Serves the generation that this `CURRENT` names, unless it is served or was `refused` a short time ago.
    async fn follow_to(
        self: &Arc<Self>,
        index: &Arc<ServedIndex>,
        pointer: String,
        refused: &mut Option<(String, Instant)>,
    ) {
        let recent = |(other, at): &(String, Instant)| *other == pointer && at.elapsed() < RETRY;
        if pointer == **index.pointer.load() || refused.as_ref().is_some_and(recent) {
            return;
        }
        *refused = match self.reload_index(index).await {
            Ok(_) => {
                index.refused.store(None);
                None
            }
            Err(error) => {
                index.refuse(&self.held, &pointer, error.to_string());
                let logged = refused.as_ref().is_some_and(|(other, _)| *other == pointer);
                // A root waits for its leaves, which are fetching it.
                let waits = matches!(error, Error::NoLeaves { .. } | Error::FewLeaves { .. });
                if !logged && !waits {
                    let (index, current) = (&*index.name, pointer.trim());
                    tracing::error!(index, current, %error, "CURRENT names a generation that cannot be served");
                }
                let now = Instant::now();
                Some((
                    pointer,
                    if waits {
                        now.checked_sub(RETRY).unwrap_or(now)
                    } else {
                        now
                    },
                ))
            }
        };
    }

    /// Points `CURRENT` of an index at a generation and serves it; returns the old and the new number.
    /// A root refuses it: its leaves follow the `CURRENT` of their index.
    pub async fn rollback(self: &Arc<Self>, index: &str, generation: u64) -> Result<(u64, u64)> {
        let index = self.index(index, &Caller::default())?;
        index.generation().check_is_here("Rollback")?;
        self.switch(index, move |engine, index| {
            let (path, served) = (&index.path, index.snapshot());
            // Opened before the pointer moves: a generation that cannot be served is not made current.
            let bytes = fs_err::read(path.join(manifest::manifest_name(generation)));
            let wanted = manifest::load(path, generation)?;
            engine.check_memory(index, &wanted)?;
            let snapshot = engine.held.open(path, Some(generation), Some(&served))?;
            engine
                .towers
                .check(&snapshot.manifest().model, Some(&served.manifest().model))?;
            manifest::point_to(path, generation, &WriteLock::acquire(path)?)?;
            Ok((
                snapshot,
                bytes
                    .map(|bytes| manifest::pointer_to(generation, &bytes))
                    .unwrap_or_default(),
            ))
        })
        .await
    }

    /// Refuses a generation that does not fit into memory in place of the one that is served. That one's pages are
    /// dropped meanwhile, those of the shards that both have stay. So do those of a generation that a leaf keeps for
    /// roots: were it counted, the next one would be refused as long as roots ask for this one, and they do until the
    /// next one is held.
    fn check_memory(&self, index: &ServedIndex, wanted: &Manifest) -> Result<()> {
        if self.process.limit.is_none() {
            return Ok(());
        }
        let other = |other: &&Arc<ServedIndex>| other.name != index.name;
        let others = self
            .indexes
            .iter()
            .filter(other)
            .map(|other| IndexMemory::from_snapshot(&other.snapshot()))
            .sum();
        let needed = self.held.memory(&index.path, wanted)?;
        Ok(self.process.check(&index.name, needed, others)?)
    }

    /// Serves the generation that `open` opens, by the `CURRENT` that it was opened by. One at a time of all indexes,
    /// whose memory is counted together; a caller that leaves interrupts nothing, so that the pointer on disk and the
    /// served generation always agree.
    async fn switch(
        self: &Arc<Self>,
        index: &Arc<ServedIndex>,
        open: impl FnOnce(&Self, &ServedIndex) -> Result<(Snapshot, String)> + Send + 'static,
    ) -> Result<(u64, u64)> {
        let turn = Arc::clone(&self.indexes.switching).lock_owned().await;
        let (engine, name) = (Arc::clone(self), Arc::clone(&index.name));
        let index = Arc::clone(index);
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let (snapshot, pointer) = open(&engine, &index)?;
            let generation = snapshot.manifest().generation;
            let opened = engine.on_leaves(ServedGeneration::new(&index.name, snapshot)?, engine.is_held(&index))?;
            engine.checksums.check_in_background(opened.snapshot());
            let before = index.served.swap(Arc::new(opened));
            index.pointer.store(Arc::new(pointer));
            let previous = before.name().generation;
            tracing::info!(index = &*index.name, previous, generation, "serving another generation");
            if matches!(engine.held, HeldShards::OfLeaf { .. }) {
                // Roots follow later.
                index.earlier.keep(before);
            } else {
                engine.close(before);
            }
            Ok((previous, generation))
        });
        let switched = work.await.map_err(|_| Error::Internal).flatten();
        // A root that waits for its leaves, which are fetching the generation, has not failed.
        if !matches!(switched, Err(Error::NoLeaves { .. } | Error::FewLeaves { .. })) {
            self.metrics.reload(&name, switched.is_ok());
        }
        if let (Some(mirrors), Ok((previous, _))) = (&self.mirrors, &switched) {
            mirrors.served(&name, *previous);
        }
        switched
    }

    /// Closes a generation that is not served any more.
    fn close(&self, before: Arc<ServedGeneration>) {
        if let Some(filters) = &self.filters {
            filters.forget(before.snapshot());
        }
        close_in_background(before);
    }

    /// Whether leaves hold all shards of the generation that is served, so that the next one may wait for more of them.
    fn is_held(&self, index: &ServedIndex) -> bool {
        let served = index.generation();
        let (Some(leaves), Some(on_leaves)) = (&self.leaves, served.on_leaves()) else {
            return true;
        };
        let holders = leaves.holders(served.name(), on_leaves.shards.len());
        holders.iter().all(|holders| *holders > 0)
    }

    /// Takes over which shards leaves have found to be damaged since their generation is served.
    pub(super) fn see_damage_on_leaves(&self) {
        let Some(leaves) = &self.leaves else { return };
        for index in self.indexes.iter() {
            if let Some(on_leaves) = index.generation().on_leaves() {
                leaves.see_damage(on_leaves);
            }
        }
    }

    /// Closes generations that roots have not asked for in a while.
    fn close_earlier(&self) {
        for index in self.indexes.iter() {
            for old in index.earlier.take_old(index.generation().name(), Instant::now()) {
                self.close(old);
            }
        }
    }

    /// Reads every byte of the served generation of an index; returns the problems found and the bytes read.
    pub async fn verify(&self, index: &str, time: Duration) -> Result<(Vec<String>, u64)> {
        let generation = self.index(index, &Caller::default())?.generation();
        generation.check_is_here("Verify")?;
        let snapshot = Arc::clone(generation.snapshot());
        // Reading takes minutes: on a thread of its own, and one at a time, so that no search waits for it. The permit
        // is held by the work and not by the caller, who may leave.
        let turn = self.verifying.try_admit(1).map_err(|_| Error::Verifying)?;
        // Dropped with this future, when the caller leaves: the work ends soon after.
        let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), time);
        let asked = Arc::clone(&cancel);
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            dyad_index::verify::verify_part(snapshot.index(), snapshot.manifest(), snapshot.numbers(), &*asked)
        });
        let findings = work.await.map_err(|_| Error::Internal)?;
        match findings.prevented {
            Some(reason) => Err(Error::NotVerified(reason)),
            None if findings.stopped => Err(cancel.deadline_error()),
            None => Ok((findings.problems, findings.bytes)),
        }
    }

    /// Generations of an index on disk, and the one that a rollback would go to.
    pub async fn generations(&self, index: &ServedIndex) -> Result<(Vec<u64>, Option<u64>)> {
        let (index, served): (PathBuf, u64) = (index.path.clone(), index.snapshot().manifest().generation);
        let work = tokio::task::spawn_blocking(move || {
            let present = manifest::generations(&index)?;
            Ok((present, manifest::predecessor(&index, served).ok()))
        });
        work.await.map_err(|_| Error::Internal)?
    }
}
