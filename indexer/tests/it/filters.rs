//! Searching through filters of every selectivity, against the exact scan of the nodes that pass.

use std::sync::atomic::{AtomicU32, Ordering};

use dyad_index::format::RowType;
use dyad_index::search::{DenseRows, NodeSet, SearchHits, SearchParams};
use dyad_index::shard::{self, DENSE_FILE, DenseShard, ShardInput, ShardMeta};
use dyad_index::{BuildRecord, Metric, ModelRecord};
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::native::Native;
use dyad_indexer::graph_build::{BuildParams, GraphBuild, RecallGate};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const ROWS: usize = 60_000;
const CLUSTERS: usize = 40;
const DIM: usize = 32;
pub(crate) const K: usize = 10;
const EF: usize = 128;

/// From -1 to 1, the same for the same number and seed.
fn uniform(number: usize, seed: u64) -> f32 {
    (xxh3_64_with_seed(&number.to_le_bytes(), seed) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

/// A row of the cluster `row % CLUSTERS`.
fn row(row: usize, seed: u64) -> Vec<f32> {
    let value = |at: usize| uniform(row % CLUSTERS * DIM + at, 1) + 0.7 * uniform(row * DIM + at, seed);
    unit((0..DIM).map(value).collect())
}

fn unit(mut row: Vec<f32>) -> Vec<f32> {
    let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
    for value in &mut row {
        *value /= length;
    }
    row
}

/// A shard of these rows, built as `dyad-indexer build` does.
fn built(values: &[f32], dim: usize, params: &BuildParams) -> (tempfile::TempDir, DenseShard) {
    let rows = DenseRows::new(values, dim);
    let build = GraphBuild {
        rows: &rows,
        metric: Metric::Cosine,
        row_type: RowType::F32,
        codec: None,
        builder: &Native,
        params,
        initial: None,
        gate: RecallGate::default(),
        control: JobControl::silent(),
        label: "",
    };
    let made = build.run().unwrap();
    let model = ModelRecord {
        name: "m".into(),
        fingerprint: "f00d".into(),
        dim,
        full_dim: None,
        metric: Metric::Cosine,
        max_tokens: 64,
    };
    let BuildParams {
        m,
        ef_construction,
        seed,
        threads,
    } = *params;
    let build = BuildRecord {
        builder: "native".into(),
        m,
        ef_construction,
        seed,
        threads,
        tool: "test".into(),
    };
    let keys: Vec<String> = (0..values.len() / dim).map(|node| format!("{node:06}")).collect();
    let input = ShardInput {
        meta: &ShardMeta { model, build },
        vectors: &rows,
        row_type: RowType::F32,
        arranged: &made.arranged,
        keys: &keys,
        certificate: &made.certificate,
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(DENSE_FILE);
    shard::write(&path, &input).unwrap();
    let shard = DenseShard::open(&path).unwrap();
    (dir, shard)
}

fn set(nodes: usize, passes: impl Fn(usize) -> bool) -> NodeSet {
    let mut set = NodeSet::new(nodes);
    set.extend((0..nodes).filter(|node| passes(*node)).map(|node| node as u32));
    set
}

/// Nodes by chance.
pub(crate) fn share(nodes: usize, share: f64) -> NodeSet {
    set(nodes, |node| f64::from(uniform(node, 99)) * 0.5 + 0.5 < share)
}

/// The clusters by distance of their centres from a query's, the farthest first.
fn far_clusters(query: &[f32]) -> Vec<usize> {
    let score = |cluster: usize| -> f32 {
        unit((0..DIM).map(|at| uniform(cluster * DIM + at, 1)).collect())
            .iter()
            .zip(query)
            .map(|(a, b)| a * b)
            .sum()
    };
    let mut clusters: Vec<usize> = (0..CLUSTERS).collect();
    clusters.sort_by(|a, b| score(*a).total_cmp(&score(*b)));
    clusters
}

/// Mean recall@10 over queries, each with a set of its own, and how many were answered by a scan. No query may get
/// fewer hits than there are.
fn recall_at(ef: usize, shard: &DenseShard, queries: &[Vec<f32>], allowed: impl Fn(&[f32]) -> NodeSet) -> (f64, u64) {
    let mut found = 0;
    let mut wanted = 0;
    let mut scans = 0;
    for query in queries {
        let allowed = allowed(query);
        let params = SearchParams {
            allowed: Some(&allowed),
            ..SearchParams::new(K, ef)
        };
        let SearchHits { hits, cost, .. } = shard.search(query, &params);
        scans += u64::from(cost.scans);
        let exact = shard.search_exact(query, K, Some(&allowed)).hits;
        assert_eq!(hits.len(), K.min(allowed.len()));
        assert!(hits.iter().all(|hit| allowed.contains(hit.node)));
        wanted += exact.len();
        found += exact
            .iter()
            .filter(|hit| hits.iter().any(|other| other.node == hit.node))
            .count();
    }
    (found as f64 / wanted as f64, scans)
}

fn recall(shard: &DenseShard, queries: &[Vec<f32>], allowed: impl Fn(&[f32]) -> NodeSet) -> f64 {
    recall_at(EF, shard, queries, allowed).0
}

/// The clusters that are farthest from a query.
fn farthest(query: &[f32], clusters: usize) -> NodeSet {
    let far = far_clusters(query);
    set(ROWS, |node| far[..clusters].contains(&(node % CLUSTERS)))
}

#[test]
fn recall_holds_at_every_selectivity_and_where_the_filter_follows_the_vectors() {
    let values: Vec<f32> = (0..ROWS).flat_map(|number| row(number, 2)).collect();
    let params = BuildParams {
        m: 16,
        ef_construction: 100,
        seed: 1,
        threads: 2,
    };
    let (_dir, shard) = built(&values, DIM, &params);
    let queries: Vec<Vec<f32>> = (0..60).map(|number| row(number, 3)).collect();
    let mut low = Vec::new();
    let mut check = |what: String, recall: f64| {
        if recall < 0.9 {
            low.push(format!("{what}: {recall:.3}"));
        }
    };
    for selectivity in [0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9] {
        let allowed = share(ROWS, selectivity);
        check(
            format!("{selectivity} by chance"),
            recall(&shard, &queries, |_| allowed.clone()),
        );
    }
    for clusters in [1, 2, 4, 8, 12, 20, 30, 36] {
        let far = recall(&shard, &queries, |query| farthest(query, clusters));
        check(format!("the {clusters} farthest of {CLUSTERS} clusters"), far);
        let near = |query: &[f32]| {
            let far = far_clusters(query);
            set(ROWS, |node| far[CLUSTERS - clusters..].contains(&(node % CLUSTERS)))
        };
        check(
            format!("the {clusters} nearest of {CLUSTERS} clusters"),
            recall(&shard, &queries, near),
        );
    }
    // A beam so narrow that the graph costs less than a scan for all but a few questions: among all nodes from a half
    // on, below that among the allowed ones; and where nothing near a question is allowed, the first of these turns
    // into the second.
    let narrow = |what: String, found: (f64, u64), least: f64| {
        let (recall, scans) = found;
        assert!(
            scans < 6 && recall >= least,
            "{what}: recall {recall:.3}, {scans} scans"
        );
    };
    for selectivity in [0.25, 0.35, 0.5, 0.7] {
        let allowed = share(ROWS, selectivity);
        let by_chance = recall_at(16, &shard, &queries, |_| allowed.clone());
        narrow(format!("{selectivity} by chance at ef 16"), by_chance, 0.7);
    }
    for clusters in [20, 30] {
        let far = recall_at(16, &shard, &queries, |query| farthest(query, clusters));
        // From there all clusters are nearly as far, and a narrow beam sees few of them: chance finds less than a
        // thousandth.
        narrow(
            format!("the {clusters} farthest of {CLUSTERS} clusters at ef 16"),
            far,
            0.15,
        );
    }
    assert!(low.is_empty(), "recall@{K} at ef {EF}: {low:?}");
    for few in [0, 1, 7] {
        // `recall` asserts the number of hits.
        let found = recall(&shard, &queries[..5], |_| set(ROWS, |node| node < few));
        assert!(few == 0 || (found - 1.0).abs() < 1e-9, "{few} nodes pass: {found}");
    }
}

#[test]
fn filtered_questions_in_company_find_what_they_find_alone() {
    let values: Vec<f32> = (0..30_000).flat_map(|number| row(number, 2)).collect();
    let (_dir, shard) = built(
        &values,
        DIM,
        &BuildParams {
            m: 8,
            ef_construction: 40,
            seed: 1,
            threads: 2,
        },
    );
    let queries: Vec<Vec<f32>> = (0..CLUSTERS).map(|number| row(number, 3)).collect();
    let queries: Vec<&[f32]> = queries.iter().map(Vec::as_slice).collect();
    // Common enough for a graph search, but near some questions only: those are searched together, others with a wider
    // beam or by a scan.
    let allowed = set(30_000, |node| node % CLUSTERS < CLUSTERS / 2);
    let params = SearchParams {
        allowed: Some(&allowed),
        ..SearchParams::new(K, 16)
    };
    let mut together = vec![None; queries.len()];
    shard.search_batch(&queries, &params, |number, found| {
        assert!(
            together[number].replace(found).is_none(),
            "question {number} is answered once"
        );
    });
    let mut scans = [0, 0];
    for (query, together) in queries.iter().zip(together) {
        let (alone, together) = (shard.search(query, &params), together.unwrap());
        assert_eq!(alone, together);
        scans[alone.cost.scans as usize] += 1;
    }
    assert!(
        scans.iter().all(|count| *count > 0),
        "some are scanned, and some not: {scans:?}"
    );
}

#[test]
fn a_cancelled_search_ends_soon_and_says_so() {
    let values: Vec<f32> = (0..6000).flat_map(|number| row(number, 2)).collect();
    let (_dir, shard) = built(
        &values,
        DIM,
        &BuildParams {
            m: 8,
            ef_construction: 40,
            seed: 1,
            threads: 2,
        },
    );
    let query = row(7, 3);
    let (checks, patience) = (AtomicU32::new(0), AtomicU32::new(u32::MAX));
    let cancel = || checks.fetch_add(1, Ordering::Relaxed) >= patience.load(Ordering::Relaxed);
    let (few, half) = (set(6000, |node| node % 3 == 0), share(6000, 0.5));
    for (allowed, ef) in [(None, 3000), (Some(&half), 150)] {
        let params = SearchParams {
            allowed,
            ..SearchParams::new(K, ef)
        };
        let whole = shard.search(&query, &params);
        checks.store(0, Ordering::Relaxed);
        patience.store(u32::MAX, Ordering::Relaxed);
        let asked = shard.search(
            &query,
            &SearchParams {
                cancel: &cancel,
                ..params
            },
        );
        assert_eq!((&asked.hits, asked.is_cancelled()), (&whole.hits, false));
        // Whichever check cancels it: it costs no more, and a search that had begun returns what it has.
        let mut partial = 0;
        for check in 0..checks.load(Ordering::Relaxed) {
            checks.store(0, Ordering::Relaxed);
            patience.store(check, Ordering::Relaxed);
            let stopped = shard.search(
                &query,
                &SearchParams {
                    cancel: &cancel,
                    ..params
                },
            );
            let (cost, whole_cost) = (stopped.cost.total(), whole.cost.total());
            assert!(
                stopped.is_cancelled() && cost <= whole_cost,
                "{ef}, {check}: {} {cost} of {whole_cost}",
                stopped.is_cancelled()
            );
            partial += usize::from(!stopped.hits.is_empty());
        }
        // The filtered one is a scan, which finds nothing until its end.
        assert_eq!(
            partial > 0,
            allowed.is_none(),
            "{ef}: whether a search was cancelled while it ran"
        );
    }
    // By the scan of codes, which such a filter and beam lead to: nothing is found, and one block was read.
    checks.store(0, Ordering::Relaxed);
    patience.store(1, Ordering::Relaxed);
    let params = SearchParams {
        allowed: Some(&few),
        cancel: &cancel,
        ..SearchParams::new(K, 2000)
    };
    let stopped = shard.search(&query, &params);
    assert_eq!((stopped.hits.len(), stopped.cost.estimated), (0, 256));
}
