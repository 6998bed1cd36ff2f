//! Keeps a served index small next to a stream of changes: threads of their own merge shards and remove generations.
//!
//! Small shards and large ones are merged by two threads, of which neither touches the shards of the other: while large
//! ones are merged, which may take minutes, small ones do not become more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use dyad_command::JobCancellation;
use dyad_files::space::free_space;
use dyad_index::manifest;

use super::metrics::IndexerMetrics;
use crate::change::{MergeCandidates, MergeConfig, SMALL_SHARDS, merge};
use crate::control::{JobControl, Silent};
use crate::error::Error;
use crate::gc::gc;
use crate::graph_build::CertificateSample;

/// Documents of the largest shard that counts as small: it is merged in about a second.
const SMALL: u64 = 4_096;
/// Generations beyond those that are kept, after which some are removed.
const SURPLUS: usize = 4;
/// Pause after a merge that failed: what is wrong with the index may last.
const PAUSE: Duration = Duration::from_mins(1);
/// Longest time without a look at the index, which other programs may have changed.
const LOOK: Duration = Duration::from_mins(1);

/// How the index is kept small.
#[derive(Debug, Clone)]
pub struct UpkeepConfig {
    /// Whether shards are merged.
    pub merge: bool,
    /// Newest generations that are kept; all of them where absent.
    pub keep: Option<usize>,
    /// Most documents of a new shard.
    pub max_documents: u64,
    /// Most bytes of memory of a merge.
    pub memory: Option<u64>,
}

impl Default for UpkeepConfig {
    fn default() -> Self {
        Self {
            merge: true,
            keep: Some(3),
            max_documents: 10_000_000,
            memory: None,
        }
    }
}

/// The threads; they end when this is dropped, and break off what they do.
#[derive(Debug)]
pub(super) struct Upkeep {
    wakers: Vec<SyncSender<()>>,
    cancel: JobCancellation,
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// One thread's work.
struct UpkeepThread {
    index: PathBuf,
    merge: Option<MergeConfig>,
    keep: Option<usize>,
    cancel: JobCancellation,
    metrics: Arc<IndexerMetrics>,
    /// Two collections at once would wait for each other.
    collecting: Arc<Mutex<()>>,
}

impl Upkeep {
    pub(super) fn start(
        index: &Path,
        config: &UpkeepConfig,
        threads: usize,
        metrics: &Arc<IndexerMetrics>,
    ) -> Result<Self, Error> {
        let cancel = JobCancellation::new();
        let collecting = Arc::new(Mutex::new(()));
        let small = MergeCandidates {
            sizes: 0..=SMALL,
            largest_tier: SMALL_SHARDS,
        };
        let large = MergeCandidates {
            sizes: SMALL + 1..=u64::MAX,
            ..MergeCandidates::default()
        };
        let mut wakers = Vec::new();
        let (few, all) = (CertificateSample::Small, CertificateSample::Full);
        for (name, candidates, sample) in [("dyad-merge-small", small, few), ("dyad-merge-large", large, all)] {
            let merge_config = MergeConfig {
                index: index.to_owned(),
                all: false,
                candidates,
                sample,
                rebuild: false,
                language: None,
                max_documents: config.max_documents,
                threads,
                memory: config.memory,
                dry_run: false,
                free_space,
            };
            let thread = UpkeepThread {
                index: index.to_owned(),
                merge: config.merge.then_some(merge_config),
                keep: config.keep,
                cancel: cancel.clone(),
                metrics: Arc::clone(metrics),
                collecting: Arc::clone(&collecting),
            };
            let (waker, woken) = sync_channel(1);
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || thread.run(&woken))?;
            wakers.push(waker);
        }
        Ok(Self { wakers, cancel })
    }

    /// Says that the index has changed.
    pub(super) fn wake(&self) {
        for waker in &self.wakers {
            // One that is full has not been looked at yet.
            let _ = waker.try_send(());
        }
    }
}

/// A panic must not end a thread: the index would grow from then on. The process's panic hook tells of it.
fn caught(work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::Panicked))
}

impl UpkeepThread {
    fn run(&self, woken: &Receiver<()>) {
        let mut failed: Option<Instant> = None;
        while !matches!(woken.recv_timeout(LOOK), Err(RecvTimeoutError::Disconnected)) {
            if failed.is_none_or(|at| at.elapsed() >= PAUSE) {
                failed = caught(|| self.merge_all()).err().map(|error| {
                    self.tell(&error, "shards were not merged");
                    Instant::now()
                });
            }
            if let Err(error) = caught(|| self.collect()) {
                self.tell(&error, "generations were not removed");
            }
            if self.cancel.is_cancelled() {
                return;
            }
        }
    }

    fn tell(&self, error: &Error, what: &str) {
        if !self.cancel.is_cancelled() {
            self.metrics.upkeep_failures.inc();
            tracing::warn!(%error, "{what}; tried again in a minute");
        }
    }

    /// Whether shards should be merged: most changes leave none, and to open the index would cost more than they do.
    fn is_due(&self, config: &MergeConfig) -> Result<bool, Error> {
        let shards = manifest::current(&self.index)?.shards;
        let groups = config.candidates.select(&shards, config.max_documents, config.all);
        Ok(!groups.is_empty())
    }

    /// Merges until no shard should be merged.
    fn merge_all(&self) -> Result<(), Error> {
        let Some(config) = &self.merge else { return Ok(()) };
        let control = JobControl {
            progress: &Silent,
            cancel: &self.cancel,
        };
        while self.is_due(config)? {
            let began = Instant::now();
            let merged = match merge(config, control) {
                // A merge by another program, or a rollback, was faster.
                Err(Error::Contended) => return Ok(()),
                merged => merged?,
            };
            let Some(manifest) = merged.manifest else { return Ok(()) };
            self.metrics.merges.inc();
            self.metrics.merged_documents.inc_by(merged.change.read);
            let (generation, shards) = (manifest.generation, manifest.shards.len());
            let (documents, seconds) = (merged.change.read, began.elapsed().as_secs_f64());
            tracing::info!(generation, documents, shards, seconds, "merged");
            self.collect()?;
        }
        Ok(())
    }

    /// Removes generations where there are more than enough.
    fn collect(&self) -> Result<(), Error> {
        let Some(keep) = self.keep else { return Ok(()) };
        let _collecting = match self.collecting.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        if manifest::generations(&self.index)?.len() < keep.saturating_add(SURPLUS) {
            return Ok(());
        }
        let collected = gc(&self.index, keep, Duration::ZERO, false)?;
        let removed = collected.removed.len() as u64;
        self.metrics.removed_generations.inc_by(removed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_not_the_end_of_a_thread() {
        let panicked = caught(|| {
            vec![0; 3].swap_remove(3);
            Ok(())
        });
        assert!(matches!(panicked, Err(Error::Panicked)));
        assert!(caught(|| Ok(())).is_ok());
    }
}
