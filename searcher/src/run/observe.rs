//! What operators see of an engine: memory, load, caches, readiness, slow requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::engine::Engine;
use super::resources::pool::SlotLoad;
use super::served::readiness::{PAUSE, Readiness};
use crate::memory::{IndexMemory, MemoryNeed, ProcessMemoryLimit};
use crate::metrics::{CacheKind, SearcherMetrics};
use crate::question::QuestionCache;

impl Engine {
    /// The limit of the process's memory, and what is needed of it.
    pub fn memory(&self) -> (Option<&ProcessMemoryLimit>, MemoryNeed) {
        let indexes = self
            .indexes
            .iter()
            .map(|index| IndexMemory::from_snapshot(&index.snapshot()))
            .sum();
        (self.process.limit.as_ref(), self.process.need(indexes))
    }

    /// What is counted.
    pub fn metrics(&self) -> &Arc<SearcherMetrics> {
        &self.metrics
    }

    /// Request slots by class.
    pub fn load(&self) -> [SlotLoad; 3] {
        self.pool.load()
    }

    /// Jobs that are queued or run, by thread pool.
    pub fn jobs(&self) -> [(&'static str, usize); 2] {
        self.pool.jobs()
    }

    /// Bytes that a cache holds.
    pub fn cache_bytes(&self, cache: CacheKind) -> u64 {
        match cache {
            CacheKind::Questions => self.questions.as_ref().map_or(0, QuestionCache::bytes),
            CacheKind::Filters => self.filters.as_ref().map_or(0, |filters| filters.bytes()),
        }
    }

    /// From now on requests that take this long are logged; without it none is.
    pub fn set_slow_threshold(&self, threshold: Option<Duration>) {
        self.slow.set(threshold);
    }

    /// The time from which on requests are logged, where any is.
    pub(crate) fn slow_threshold(&self) -> Option<Duration> {
        self.slow.threshold()
    }

    /// Whether a slow request gets a line in the log now.
    pub(crate) fn admits_slow_line(&self, now: Instant) -> bool {
        self.slow.admits(now)
    }

    /// Whether it can answer, as it was at the last look.
    pub fn readiness(&self) -> Readiness {
        self.readiness.now()
    }

    /// Changes of readiness.
    pub fn readiness_changes(&self) -> watch::Receiver<Readiness> {
        self.readiness.changes()
    }

    /// Looks whether it can answer.
    pub async fn check_readiness(&self) -> Readiness {
        self.readiness
            .check(&self.towers, self.indexes.iter().cloned().collect())
            .await
    }

    /// Looks again and again, until the future is dropped.
    pub async fn follow_readiness(&self) {
        loop {
            tokio::time::sleep(PAUSE).await;
            _ = self.check_readiness().await;
            self.see_damage_on_leaves();
            self.slow.tell_left_out(Instant::now());
        }
    }
}
