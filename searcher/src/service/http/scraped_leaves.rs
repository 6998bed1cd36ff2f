//! `/metrics` of a root: its leaves.

use std::sync::atomic::AtomicU64;

use dyad_proto::v1;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::run::Engine;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeafLabels {
    url: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HeldIndexLabels {
    index: String,
}

/// Values of the moment.
#[derive(Debug, Default)]
pub(super) struct ScrapedLeaves {
    up: Family<LeafLabels, Gauge>,
    under_way: Family<LeafLabels, Gauge>,
    calls: Family<LeafLabels, Gauge>,
    p95: Family<LeafLabels, Gauge<f64, AtomicU64>>,
    refused: Family<LeafLabels, Gauge>,
    hedged: Gauge,
    least_holders: Family<HeldIndexLabels, Gauge>,
}

impl ScrapedLeaves {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("leaf_up", "Whether a leaf reports what it holds", self.up.clone());
        registry.register(
            "leaf_calls_under_way",
            "Calls that a leaf has not answered yet",
            self.under_way.clone(),
        );
        registry.register("leaf_calls", "Calls that a leaf has answered", self.calls.clone());
        let help = "Within which a leaf has answered 95 of 100 of its last calls";
        registry.register_with_unit("leaf_p95", help, Unit::Seconds, self.p95.clone());
        registry.register(
            "leaf_refused_shards",
            "Shards that a leaf was to hold and does not",
            self.refused.clone(),
        );
        registry.register(
            "leaf_hedged_calls",
            "Calls that were made a second time, since the first was late",
            self.hedged.clone(),
        );
        registry.register(
            "least_leaves_of_shard",
            "Leaves that hold the shard of the served generation which fewest hold",
            self.least_holders.clone(),
        );
    }

    pub(super) fn read(&self, engine: &Engine) {
        let Some(leaves) = engine.leaves() else { return };
        // Those that are gone are not told any more.
        self.up.clear();
        self.under_way.clear();
        self.calls.clear();
        self.p95.clear();
        self.refused.clear();
        self.hedged.set(leaves.hedged_calls() as i64);
        for leaf in leaves.status(&v1::GenerationName::default()) {
            let labels = LeafLabels { url: leaf.url };
            self.up.get_or_create(&labels).set(i64::from(leaf.is_up));
            self.under_way
                .get_or_create(&labels)
                .set(i64::from(leaf.calls_under_way));
            self.calls.get_or_create(&labels).set(leaf.calls as i64);
            self.p95.get_or_create(&labels).set(leaf.p95_us as f64 / 1e6);
            self.refused.get_or_create(&labels).set(leaf.refused.len() as i64);
        }
        for index in engine.indexes() {
            let served = index.generation();
            let count = served.snapshot().manifest().shards.len();
            let least = leaves
                .holders(served.name(), count)
                .into_iter()
                .min()
                .unwrap_or_default();
            let index = index.name().to_owned();
            self.least_holders
                .get_or_create(&HeldIndexLabels { index })
                .set(i64::from(least));
        }
    }
}
