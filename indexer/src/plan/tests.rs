//! Tests of predicted sizes.

use dyad_index::format::RowType;

use super::*;
use crate::graph_build::{BuildParams, BuilderKind};

/// The plan of one shard with usual parameters.
fn usual(row_type: RowType) -> BuildPlan {
    let params = BuildParams {
        m: 16,
        ef_construction: 200,
        seed: 0,
        threads: 1,
    };
    let graph = GraphConfig {
        builder: BuilderKind::Native,
        params,
        row_type,
    };
    BuildPlan::new(graph, 384)
}

#[test]
fn sizes_follow_the_formula() {
    let plan = BuildPlan {
        documents: Some(1_000),
        ..usual(RowType::F16)
    };
    assert_eq!(
        BuildPlan {
            questions: 1_000,
            ..plan
        }
        .memory_bytes(9)
            - plan.memory_bytes(9),
        1_000 * 384 * 4,
        "held from the beginning to the end"
    );
    assert_eq!(plan.index_bytes(1_000), 1_000 * (384 * 2 + 384 + 64 + 33 * 4));
    assert_eq!(usual(RowType::F32).index_bytes(1), 384 * 4 + 384 + 64 + 33 * 4);
    assert_eq!(plan.mapped_bytes(1_000), 1_000 * 384 * 4);
    let text = plan.to_string();
    assert!(
        text.starts_with("1000 documents of 384 values in 1 shard, built by native: about 1.3 MiB on"),
        "{text}"
    );
    assert!(
        BuildPlan {
            documents: None,
            ..plan
        }
        .to_string()
        .contains("per million about 1.3 GiB on disk")
    );
}

#[test]
fn memory_grows_with_documents_links_and_threads_and_shrinks_with_shards() {
    for builder in [BuilderKind::Native, BuilderKind::HnswRs, BuilderKind::HnswRsInt8] {
        let mut plan = usual(RowType::F32);
        plan.graph.builder = builder;
        let with_params = |params: BuildParams| {
            let graph = GraphConfig { params, ..plan.graph };
            BuildPlan { graph, ..plan }.memory_bytes(100_000)
        };
        let params = plan.graph.params;
        let at = plan.memory_bytes(100_000);
        assert!(at > 100_000 * (384 * 5 + 1_000) && at < 100_000 * 10_000, "{at}");
        assert!(plan.memory_bytes(200_000) > at);
        assert!(with_params(BuildParams { m: 32, ..params }) > at);
        assert!(with_params(BuildParams { threads: 8, ..params }) >= at);
        assert!(BuildPlan { shards: 4, ..plan }.memory_bytes(100_000) < at);
        assert_eq!(plan.memory_bytes(u64::MAX), u64::MAX, "no overflow");
    }
}

#[test]
fn a_limit_makes_more_shards_or_says_what_is_needed() {
    let plan = BuildPlan {
        documents: Some(1_000_000),
        text_bytes: Some(10 << 30),
        ..usual(RowType::F16)
    };
    let free = plan.memory_bytes(1_000_000);
    assert!(free > 15 << 30, "all terms stay in memory");
    let mut shards_before = 0;
    for memory in [8_u64 << 30, 4 << 30, 2 << 30, 1 << 30, 800 << 20] {
        let within = plan.within(memory, 256).unwrap();
        assert!(
            within.memory_bytes(1_000_000) <= memory && within.shards >= shards_before,
            "{within:?}"
        );
        assert!(
            BuildPlan {
                shards: within.shards - 1,
                ..within
            }
            .memory_bytes(1_000_000)
                > memory
                || within.shards == 1
        );
        shards_before = within.shards;
        let most = plan.documents_within(memory, 1_000_000);
        let one = |documents: u64| {
            BuildPlan {
                documents: Some(documents),
                ..plan
            }
            .within(memory, 1)
            .map(|plan| plan.memory_bytes(documents))
        };
        assert!(
            one(most).unwrap() <= memory && (most == 1_000_000 || one(most + 1).is_err()),
            "{most}"
        );
    }
    assert!(shards_before > 3);
    let refused = plan.within(150 << 20, 256).unwrap_err().to_string();
    let needed = refused
        .split_once("need at least ")
        .unwrap()
        .1
        .split_once(" MiB")
        .unwrap()
        .0;
    let needed = (needed.parse::<f64>().unwrap() * f64::from(1 << 20)) as u64;
    assert!(plan.within(needed - (2 << 20), 256).is_err(), "{refused}");
    // Enough is enough, with texts of which nothing is known, too.
    for text_bytes in [Some(10 << 30), None] {
        let plan = BuildPlan {
            text_bytes,
            documents: Some(8_000),
            ..plan
        };
        let Err(Error::Memory { needed, .. }) = plan.within(1, 256) else {
            panic!("1 byte is not enough")
        };
        assert!(
            plan.within(needed, 256).is_ok() && plan.within(needed - 1, 256).is_err(),
            "{needed}"
        );
    }
    assert_eq!(plan.documents_within(1 << 20, 1_000_000), 0);
}

#[test]
fn texts_and_empty_shards_count() {
    let plan = BuildPlan {
        documents: Some(48),
        shards: 100,
        text_bytes: Some(10_000),
        ..usual(RowType::F16)
    };
    // No more shards than documents; each takes its tables while texts are read.
    assert!(
        plan.to_string()
            .starts_with("48 documents of 384 values in 48 shards, "),
        "{plan}"
    );
    assert!(plan.memory_bytes(48) > BASE_BYTES + 48 * SHARD_BYTES);
    assert!(plan.memory_bytes(48) < BASE_BYTES + 50 * SHARD_BYTES);
    let long = BuildPlan {
        text_bytes: Some(1 << 30),
        ..plan
    };
    assert!(long.memory_bytes(48) > (1 << 30) + (1 << 29));
    assert!(!plan.to_string().contains("once the texts are read"));
    assert!(
        BuildPlan {
            text_bytes: None,
            terms: None,
            ..plan
        }
        .to_string()
        .contains(" of memory once the texts are read, of which")
    );
    // f16: all vectors in f32 and the first shard take more than all shards and the last one's vectors.
    let one = BuildPlan {
        shards: 1,
        dim: 768,
        text_bytes: Some(7),
        ..plan
    };
    assert_eq!(one.disk_bytes(1_000), 1_000 * 768 * 4 + one.index_bytes(1_000) + 7);
    let many = BuildPlan { shards: 100, ..one };
    assert!(many.disk_bytes(100_000) < one.disk_bytes(100_000));
    assert!(many.disk_bytes(100_000) > 100_000 * 768 * 4 + one.index_bytes(1_000));
    assert_eq!(one.disk_bytes(u64::MAX), u64::MAX, "no overflow");
}
