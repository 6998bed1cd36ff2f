//! `/metrics`: what the searcher has counted, and values of the moment, read from the engine. Sizes are bytes.

use dyad_proto::service::Security;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::scraped_leaves::ScrapedLeaves;
use crate::memory::{IndexMemory, Resident};
use crate::metrics::CacheKind;
use crate::run::Engine;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ScrapedCacheLabels {
    cache: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IndexLabels {
    index: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabels {
    class: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IndexKind {
    index: String,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    model: String,
    fingerprint: String,
}

/// Values of the moment.
#[derive(Debug, Default)]
pub(super) struct Scrape {
    registry: Registry,
    ready: Gauge,
    requests: Family<ClassLabels, Gauge>,
    requests_limit: Family<ClassLabels, Gauge>,
    jobs: Family<ClassLabels, Gauge>,
    cache_bytes: Family<ScrapedCacheLabels, Gauge>,
    memory: Family<KindLabels, Gauge>,
    tower_up: Family<ModelLabels, Gauge>,
    generation: Family<IndexLabels, Gauge>,
    created: Family<IndexLabels, Gauge>,
    documents: Family<IndexLabels, Gauge>,
    deleted: Family<IndexLabels, Gauge>,
    shards: Family<IndexLabels, Gauge>,
    damaged_shards: Family<IndexLabels, Gauge>,
    index_bytes: Family<IndexKind, Gauge>,
    leaves: ScrapedLeaves,
}

impl Scrape {
    pub(super) fn new(security: &Security) -> Self {
        let (mut registry, gauges) = (Registry::with_prefix("dyad_searcher"), Self::default());
        registry.register("ready", "Whether /readyz says so", gauges.ready.clone());
        registry.register(
            "requests_under_way",
            "Request slots that are taken, by class",
            gauges.requests.clone(),
        );
        registry.register(
            "requests_limit",
            "Request slots, by class",
            gauges.requests_limit.clone(),
        );
        registry.register(
            "jobs",
            "Jobs that are queued or run, by thread pool",
            gauges.jobs.clone(),
        );
        registry.register_with_unit("cache", "Size of a cache", Unit::Bytes, gauges.cache_bytes.clone());
        let help = "Memory: anonymous and file are resident now, needed is the most that the indexes can take, limit is what there is";
        registry.register_with_unit("memory", help, Unit::Bytes, gauges.memory.clone());
        registry.register(
            "tower_up",
            "Whether a question tower embedded the last question",
            gauges.tower_up.clone(),
        );
        registry.register("generation", "Generation that is served", gauges.generation.clone());
        let help = "When that generation was published, in seconds since the epoch";
        registry.register_with_unit("generation_created", help, Unit::Seconds, gauges.created.clone());
        registry.register("documents", "Documents that are not deleted", gauges.documents.clone());
        registry.register(
            "deleted_documents",
            "Deleted documents still in shards' files",
            gauges.deleted.clone(),
        );
        registry.register("shards", "Shards", gauges.shards.clone());
        registry.register(
            "damaged_shards",
            "Shards in which damage was found",
            gauges.damaged_shards.clone(),
        );
        let help = "Bytes of an index's files: hot ones (graphs and codes) are read by nearly every search";
        registry.register_with_unit("index", help, Unit::Bytes, gauges.index_bytes.clone());
        gauges.leaves.register(&mut registry);
        registry.register_collector(Box::new(security.clone()));
        Self { registry, ..gauges }
    }

    fn read(&self, engine: &Engine) {
        self.ready.set(i64::from(engine.readiness().is_ok()));
        for load in engine.load() {
            let labels = ClassLabels { class: load.class };
            self.requests.get_or_create(&labels).set(load.taken as i64);
            self.requests_limit.get_or_create(&labels).set(load.limit as i64);
        }
        for (class, jobs) in engine.jobs() {
            self.jobs.get_or_create(&ClassLabels { class }).set(jobs as i64);
        }
        for cache in [CacheKind::Questions, CacheKind::Filters] {
            self.cache_bytes
                .get_or_create(&ScrapedCacheLabels { cache: cache.name() })
                .set(engine.cache_bytes(cache) as i64);
        }
        let ((limit, need), resident) = (engine.memory(), Resident::now());
        for (kind, bytes) in [
            ("anonymous", resident.anonymous),
            ("file", resident.file),
            ("needed", need.total()),
            ("limit", limit.map_or(0, |limit| limit.bytes)),
        ] {
            self.memory.get_or_create(&KindLabels { kind }).set(bytes as i64);
        }
        for one in engine.towers().iter() {
            let model = one.tower.model();
            let labels = ModelLabels {
                model: model.name.clone(),
                fingerprint: model.fingerprint.clone(),
            };
            self.tower_up.get_or_create(&labels).set(i64::from(!one.is_down()));
        }
        self.leaves.read(engine);
        for index in engine.indexes() {
            let (served, index) = (index.generation(), index.name().to_owned());
            let snapshot = served.snapshot();
            let (record, covered, files) = (
                snapshot.manifest(),
                served.coverage(),
                IndexMemory::from_snapshot(snapshot),
            );
            let deleted: u64 = record.shards.iter().map(|shard| shard.documents - shard.live()).sum();
            for (kind, bytes) in [("hot", files.hot), ("cold", files.cold)] {
                self.index_bytes
                    .get_or_create(&IndexKind {
                        index: index.clone(),
                        kind,
                    })
                    .set(bytes as i64);
            }
            engine.metrics().index(&index);
            let labels = IndexLabels { index };
            for (family, value) in [
                (&self.generation, record.generation),
                (&self.created, record.created_unix_s),
                (&self.documents, covered.documents),
                (&self.deleted, deleted),
                (&self.shards, u64::from(covered.shards)),
                (&self.damaged_shards, u64::from(covered.damaged_shards)),
            ] {
                family.get_or_create(&labels).set(value as i64);
            }
        }
    }

    /// The text.
    pub(super) fn text(&self, engine: &Engine) -> Result<String, std::fmt::Error> {
        self.read(engine);
        let mut scrape = String::new();
        engine.metrics().write(&mut scrape)?;
        text::encode(&mut scrape, &self.registry)?;
        Ok(scrape)
    }
}
