//! What searches through filters cost, in microseconds: run by hand.

use std::fmt::Write as _;
use std::time::Instant;

use dyad_index::Metric;
use dyad_index::search::{NodeSet, Scored, SearchHits, SearchParams, SearchScratch, ShardView};
use dyad_index::shard::DenseShard;

use crate::filters::{K, share};

/// Microseconds per query, the middle of three passes, and the hits. `search` hands over the hits of each query.
fn timed(
    queries: &[&[f32]],
    mut search: impl FnMut(&mut dyn FnMut(usize, SearchHits<Scored>)),
) -> (f64, Vec<SearchHits<Scored>>) {
    let mut all = vec![SearchHits::default(); queries.len()];
    let mut pass = || {
        let started = Instant::now();
        search(&mut |number, hits| all[number] = hits);
        started.elapsed().as_secs_f64() * 1e6 / queries.len() as f64
    };
    let mut times = [pass(), pass(), pass()];
    times.sort_by(f64::total_cmp);
    (times[1], all)
}

/// Mean share of the exact hits that are found.
fn found_of(exact: &[SearchHits<Scored>], all: &[SearchHits<Scored>]) -> f64 {
    let (mut found, mut wanted) = (0, 0);
    for (exact, hits) in exact.iter().zip(all) {
        let is_found = |hit: &&Scored| hits.hits.iter().take(K).any(|other| other.node == hit.node);
        found += exact.hits.iter().filter(is_found).count();
        wanted += exact.hits.len();
    }
    found as f64 / wanted as f64
}

/// What each way through a filter takes and finds, as a line.
fn measure(shard: &DenseShard, queries: &[&[f32]], allowed: &NodeSet) -> String {
    let (graph, rows, mut scratch) = (shard.graph(), shard.rows(), SearchScratch::default());
    let (codes, order) = (shard.codes(), Some(graph.order()));
    let view = ShardView {
        codes,
        links: &graph,
        order,
        rows: &rows,
        metric: Metric::Cosine,
    };
    let (exact_us, exact) = timed(queries, |found| {
        shard.search_exact_batch(queries, K, Some(allowed), &dyad_files::Never, found);
    });
    let plain = SearchParams {
        allowed: Some(allowed),
        ..SearchParams::new(K, K)
    };
    let (us, found) = timed(queries, |found| {
        view.scan_codes(queries, allowed, &plain, &mut scratch, found);
    });
    let mut line = format!(
        "{:>8}  {exact_us:>8.0}  {us:>8.0} {:.3}",
        allowed.len(),
        found_of(&exact, &found)
    );
    let wide = |count: usize| (count * shard.len() / allowed.len().max(1)).min(shard.len());
    for ef in [28, 40, 64] {
        let margin = shard.certificate().margin(wide(K), wide(ef));
        for (two_hop, ef) in [(true, ef), (false, wide(ef))] {
            let params = SearchParams {
                margin,
                two_hop,
                ef,
                ..plain
            };
            let (us, found) = timed(queries, |found| view.search(queries, &params, &mut scratch, found));
            write!(line, "  {us:>8.0} {:.3}", found_of(&exact, &found)).unwrap();
        }
    }
    line
}

/// What `CODES_PER_EXPANSION` and its like of `dyad_index::search` are set from: `DYAD_SHARD` is a `dense.dyad` of
/// `minilm-vectors`, as `dyad-bench ann --keep-indexes` leaves them below `target/dyad-bench/index`.
#[test]
#[ignore = "a measurement"]
fn graph_and_scan_through_filters() {
    let (Some(path), Some(data)) = (std::env::var_os("DYAD_SHARD"), std::env::var_os("DYAD_DATA")) else {
        eprintln!("skipped: DYAD_SHARD and DYAD_DATA are not set");
        return;
    };
    let shard = DenseShard::open(path.as_ref()).unwrap();
    let bytes = fs_err::read(std::path::Path::new(&data).join("minilm-vectors/queries.f32.npy")).unwrap();
    // The header is 128 bytes long.
    let values: Vec<f32> = bytes[128..]
        .chunks_exact(4)
        .map(|word| f32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let queries: Vec<&[f32]> = values.chunks_exact(shard.rows().dim()).take(200).collect();
    eprintln!(
        "microseconds and recall: by vectors, by codes; then for ef 28, 40 and 64 among allowed and among all nodes"
    );
    for of_all in [0.005, 0.01, 0.02, 0.04, 0.1, 0.2, 0.5, 0.9] {
        eprintln!("{}", measure(&shard, &queries, &share(shard.len(), of_all)));
    }
}
