//! `dense.dyad` with damage under valid checksums: whatever can be opened can be searched and verified without a
//! panic, and what `verify` accepts answers as an intact shard does.

#![no_main]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use dyad_index::certificate::ef_for;
use dyad_index::format::codes::CodesTable;
use dyad_index::format::graph::GraphTable;
use dyad_index::format::keys::KeysView;
use dyad_index::format::rows::StoredRows;
use dyad_index::format::{SectionEntry, SectionKind};
use dyad_index::quant::PreparedQuery;
use dyad_index::search::{NodeSet, Scored, SearchHits, SearchParams, SearchScratch, ShardView, flat};
use dyad_index::shard::DenseShard;
use dyad_index::{Cancel, Never};
use dyad_index_fuzz::{Draft, MemoryFile, Script, small_shards};
use libfuzzer_sys::fuzz_target;

/// Longer questions than this may have scores that are not numbers, whatever the shard.
const TAME: f32 = 1e3;

/// How to search.
struct Wishes {
    k: usize,
    ef: usize,
    /// Nodes of which this bit pattern has a bit pass the filter.
    pattern: u8,
}

fuzz_target!(|bytes: &[u8]| {
    let mut script = Script::new(bytes);
    let [first, seals, k, ef, pattern] = script.array();
    let wishes = Wishes {
        k: 1 + usize::from(k % 40),
        ef: usize::from(ef),
        pattern,
    };
    let shards = small_shards();
    // One more: bytes without valid checksums.
    let Some(valid) = shards.get(usize::from(first) % (shards.len() + 1)) else {
        look(script.rest(), &[0.5; 3], &wishes, false);
        return;
    };
    let mut draft = Draft::new(valid);
    let edited = draft.edit(&mut script);
    if seals != 0xFF {
        draft.seal();
    }
    look(&draft.bytes, &draft.query(), &wishes, !edited);
});

/// Opens the bytes as a shard, and reads it in every way.
fn look(bytes: &[u8], query: &[f32], wishes: &Wishes, untouched: bool) {
    let file = MemoryFile::new(bytes).expect("a file in memory");
    let shard = match DenseShard::open(&file.path()) {
        Ok(shard) => shard,
        Err(error) => {
            assert!(!untouched, "a valid file is refused: {error}");
            return;
        }
    };
    let problems = shard.verify(&Never).problems;
    assert!(
        !untouched || problems.is_empty(),
        "problems in a valid file: {problems:?}"
    );
    views(&shard, query);
    let mut allowed = NodeSet::new(shard.len());
    allowed.extend((0..shard.len() as u32).filter(|node| wishes.pattern >> (node % 8) & 1 == 1));
    let tame = problems.is_empty() && query.iter().all(|value| value.abs() < TAME);
    copies(&shard, bytes, query, wishes, tame);
    searches(&shard, query, wishes, &allowed, tame);
    if problems.is_empty() {
        for node in 0..shard.len() as u32 {
            assert_eq!(shard.keys().find(shard.keys().key(node)), Ok(Some(node)));
        }
    }
}

/// Every way to search. `valid`: verification has found no problem.
fn searches(shard: &DenseShard, query: &[f32], wishes: &Wishes, allowed: &NodeSet, valid: bool) {
    let plain = SearchParams::new(wishes.k, wishes.ef);
    let expect = |found: &SearchHits<Scored>, among: usize, k: usize| {
        assert!(found.hits.len() <= k, "{} hits of {k}", found.hits.len());
        if valid && query.len() == shard.rows().dim() {
            assert_eq!(found.hits.len(), among.min(k));
            let nodes: BTreeSet<u32> = found.hits.iter().map(|hit| hit.node).collect();
            assert_eq!(nodes.len(), found.hits.len(), "a node twice");
            assert!(nodes.last().is_none_or(|node| (*node as usize) < shard.len()));
            assert!(
                found
                    .hits
                    .iter()
                    .all(|hit| !hit.score.is_nan() && !shard.keys().key(hit.node).is_empty())
            );
        }
        assert!(found.hits.is_sorted_by(|a, b| a.score.total_cmp(&b.score).is_ge()));
    };
    let (n, k) = (shard.len(), wishes.k);
    expect(&shard.search(query, &plain), n, k);
    expect(
        &shard.search(
            query,
            &SearchParams {
                margin: Some(0.1),
                ..plain
            },
        ),
        n,
        k,
    );
    expect(
        &shard.search(
            query,
            &SearchParams {
                rescore: false,
                ..plain
            },
        ),
        n,
        k,
    );
    expect(&shard.search_exact(query, k, None), n, k);
    expect(&shard.search_exact(query, k, Some(allowed)), allowed.len(), k);
    let filtered = shard.search(
        query,
        &SearchParams {
            allowed: Some(allowed),
            ..plain
        },
    );
    expect(&filtered, allowed.len(), k);
    assert!(filtered.hits.iter().all(|hit| allowed.contains(hit.node)));
    let asked = AtomicU32::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) > 0;
    let questions: Vec<&[f32]> = std::iter::repeat_n(query, 9)
        .chain([&[][..], &query[..query.len() / 2]])
        .collect();
    for allowed in [None, Some(allowed)] {
        for cancel in [&Never as &dyn Cancel, &stop] {
            let mut answers = vec![0; questions.len()];
            shard.search_batch(
                &questions,
                &SearchParams {
                    cancel,
                    allowed,
                    ..plain
                },
                |number, _| answers[number] += 1,
            );
            assert!(answers.iter().all(|count| *count == 1), "{answers:?}");
        }
    }
}

/// Views and what they say, also about places that do not exist.
fn views(shard: &DenseShard, query: &[f32]) {
    let (graph, codes, rows, keys) = (shard.graph(), shard.codes(), shard.rows(), shard.keys());
    graph.counts();
    let copy = graph.to_graph();
    assert_eq!(graph.validate(&Never).is_ok(), copy.validate(shard.len()).is_ok());
    let unreached = copy.reachable().iter().filter(|reached| !**reached).count() as u64;
    assert_eq!(graph.unreached(&Never), Some(unreached));
    let certificate = shard.certificate();
    certificate.margin(10, 100);
    certificate.margin(1, 6);
    ef_for(&certificate.recall, 0.95, 10);
    let (mut row, mut prepared) = (Vec::new(), PreparedQuery::default());
    let (mut products, mut scores) = (Vec::new(), Vec::new());
    let places = || (0..shard.len() as u32).chain([shard.len() as u32, 1 << 30, u32::MAX]);
    let all: Vec<u32> = places().collect();
    for place in places() {
        rows.decode(place, &mut row);
        let _ = keys.find(keys.key(place));
        codes.prefetch_row(place);
        codes.prepare(place, &mut prepared);
        codes.score(&prepared, place / 2);
        codes.estimate(&prepared, &[place, place / 2], 0.2, &mut products, &mut scores);
        codes.prepare_exact(place, &mut prepared);
        codes.score(&prepared, place);
    }
    codes.codec().prepare(query, &mut prepared);
    codes.estimate(&prepared, &all, 0.2, &mut products, &mut scores);
    assert_eq!(scores.len(), all.len());
    let _ = keys.find("key-7");
    shard.evict_vectors();
}

/// The same search over copies of the sections, each in memory of exactly its size: the sanitizer sees the ends of
/// those, and does not see the end of a section in a mapped file.
fn copies(shard: &DenseShard, bytes: &[u8], query: &[f32], wishes: &Wishes, valid: bool) {
    // Memory of its own also where it is empty, so that it is aligned.
    let copy = |kind| {
        let entry = shard
            .header()
            .section(kind)
            .copied()
            .expect("an open shard has every section");
        let SectionEntry { offset, len, .. } = entry;
        let mut copied: Vec<u8> = Vec::with_capacity(len.max(1) as usize);
        copied.extend_from_slice(&bytes[offset as usize..(offset + len) as usize]);
        copied
    };
    let (header, metric) = (shard.header(), shard.meta().model.metric);
    let n = header.vectors as usize;
    let vectors = copy(SectionKind::Vectors);
    let (links, codes, keys) = (
        copy(SectionKind::Graph),
        copy(SectionKind::Codes),
        copy(SectionKind::Keys),
    );
    let graph = GraphTable::parse(&links, header.vectors).expect("it could be opened");
    let table = CodesTable::parse(&codes, header.vectors, header.dim, metric).expect("it could be opened");
    let rows = StoredRows::new(&vectors, header.row_type, table.view(&codes), n).expect("it could be opened");
    let keys = KeysView::new(&keys, header.vectors).expect("it could be opened");
    let _ = keys.check();
    let graph = graph.view(&links);
    let order = Some(graph.order());
    let view = ShardView {
        codes: table.view(&codes),
        links: &graph,
        order,
        rows: &rows,
        metric,
    };
    let result = view.search_one(
        query,
        &SearchParams::new(wishes.k, wishes.ef),
        &mut SearchScratch::default(),
    );
    // Without the scan that a shard falls back to: a search of a graph that `verify` accepts reaches all of it.
    let whole = view.search_one(query, &SearchParams::new(n, n), &mut SearchScratch::default());
    if valid && query.len() == header.dim as usize {
        assert_eq!(whole.hits.len(), n, "a search loses nodes");
    }
    for hit in result.hits.iter().chain(&flat(&rows, query, wishes.k, metric, None)) {
        keys.key(hit.node);
    }
}
