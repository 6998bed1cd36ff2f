//! Metrics of the server of changes, and their text for Prometheus (OpenMetrics 1.0). Names begin with `dyad_indexer_`;
//! times are seconds.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dyad_index::manifest::{self, ShardEntry};
use dyad_proto::service::Security;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::change::select_mergeable;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChangeCallLabels {
    call: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChangeCallOnly {
    call: &'static str,
}

/// Counters, gauges and histograms of one server.
#[derive(Debug)]
pub(super) struct IndexerMetrics {
    registry: Mutex<Registry>,
    calls: Family<ChangeCallLabels, Counter>,
    call_time: Family<ChangeCallOnly, Histogram, fn() -> Histogram>,
    /// Calls that wait for their turn.
    pub(super) waiting: Gauge,
    /// Calls that were made as one change.
    pub(super) gathered: Histogram,
    /// Documents that were added, replaced or deleted.
    pub(super) documents_changed: Counter,
    /// Generations that calls have published.
    pub(super) published: Counter,
    /// Merges that were published.
    pub(super) merges: Counter,
    /// Documents that were written again by them.
    pub(super) merged_documents: Counter,
    /// Merges and removals that failed.
    pub(super) upkeep_failures: Counter,
    /// Generations that were removed.
    pub(super) removed_generations: Counter,
    generation: Gauge,
    created: Gauge,
    documents: Gauge,
    deleted: Gauge,
    shards: Gauge,
    shards_to_merge: Gauge,
    generations: Gauge,
}

/// 1 ms to 65 s.
fn times() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

impl IndexerMetrics {
    pub(super) fn new() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("dyad_indexer")),
            calls: Family::default(),
            call_time: Family::new_with_constructor(times),
            waiting: Gauge::default(),
            gathered: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            documents_changed: Counter::default(),
            published: Counter::default(),
            merges: Counter::default(),
            merged_documents: Counter::default(),
            upkeep_failures: Counter::default(),
            removed_generations: Counter::default(),
            generation: Gauge::default(),
            created: Gauge::default(),
            documents: Gauge::default(),
            deleted: Gauge::default(),
            shards: Gauge::default(),
            shards_to_merge: Gauge::default(),
            generations: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let registry = &mut *self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let build = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("revision", dyad_command::revision()),
        ];
        registry.register(
            "build",
            "The release, and the commit that it was built of",
            Info::new(build.to_vec()),
        );
        registry.register("calls", "Calls answered, by method and status", self.calls.clone());
        let help = "From the whole of a call's documents or keys to its reply";
        registry.register_with_unit("call", help, Unit::Seconds, self.call_time.clone());
        let counters = [
            (
                "documents_changed",
                "Documents that were added, replaced or deleted",
                &self.documents_changed,
            ),
            ("changes", "Generations that calls have published", &self.published),
            ("merges", "Merges of shards", &self.merges),
            (
                "merged_documents",
                "Documents that merges have written again",
                &self.merged_documents,
            ),
            (
                "upkeep_failures",
                "Merges and removals of generations that failed",
                &self.upkeep_failures,
            ),
            (
                "generations_removed",
                "Generations that were removed",
                &self.removed_generations,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register("gathered_calls", "Calls made as one change", self.gathered.clone());
        let gauges = [
            ("waiting_calls", "Calls that wait for their turn", &self.waiting),
            ("generation", "Current generation", &self.generation),
            ("documents", "Documents that are not deleted", &self.documents),
            (
                "deleted_documents",
                "Deleted documents still in shards' files",
                &self.deleted,
            ),
            ("shards", "Shards of the current generation", &self.shards),
            (
                "shards_to_merge",
                "Of these, shards that should be merged",
                &self.shards_to_merge,
            ),
            ("generations", "Generations on disk", &self.generations),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        let help = "When the current generation was published, in seconds since the epoch";
        registry.register_with_unit("generation_created", help, Unit::Seconds, self.created.clone());
    }

    /// Adds the metrics of keys and TLS.
    pub(super) fn add_security(&self, security: &Security) {
        let registry = &mut *self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(security.clone()));
    }

    /// Counts a call that has been answered.
    pub(super) fn answered(&self, call: &'static str, status: &'static str, time: Duration) {
        self.calls.get_or_create(&ChangeCallLabels { call, status }).inc();
        self.call_time
            .get_or_create(&ChangeCallOnly { call })
            .observe(time.as_secs_f64());
    }

    /// The text, with values of the moment of an index.
    pub(super) fn text(&self, index: &Path) -> Result<String, std::fmt::Error> {
        // An index that cannot be read keeps its last values; `/readyz` says why.
        if let (Ok(current), Ok(generations)) = (manifest::current(index), manifest::generations(index)) {
            let live: u64 = current.shards.iter().map(ShardEntry::live).sum();
            let all: u64 = current.shards.iter().map(|shard| shard.documents).sum();
            let to_merge: usize = select_mergeable(&current.shards, u64::MAX, false)
                .iter()
                .map(Vec::len)
                .sum();
            for (gauge, value) in [
                (&self.generation, current.generation),
                (&self.created, current.created_unix_s),
                (&self.documents, live),
                (&self.deleted, all - live),
                (&self.shards, current.shards.len() as u64),
                (&self.shards_to_merge, to_merge as u64),
                (&self.generations, generations.len() as u64),
            ] {
                gauge.set(value as i64);
            }
        }
        let mut scrape = String::new();
        text::encode(
            &mut scrape,
            &self.registry.lock().unwrap_or_else(PoisonError::into_inner),
        )?;
        Ok(scrape)
    }
}
