//! Shards without rows besides their int8 codes.

use super::damage::{Bench, search_all};
use super::{DIM, N, vectors, written, written_as, written_of};
use crate::format::{RowType, SectionKind};
use crate::model::Metric;
use crate::search::{DenseRows, NodeSet, SearchParams, flat};
use crate::shard::{DenseShard, Verified};
use dyad_files::Never;

#[test]
fn codes_stand_for_the_vectors() {
    let (_dir, path) = written_as(RowType::Int8);
    let shard = DenseShard::open(&path).unwrap();
    assert_eq!(
        shard.verify(&Never),
        Verified {
            bytes_read: fs_err::metadata(&path).unwrap().len(),
            ..Verified::default()
        }
    );
    let vectors_len = shard.header().section(SectionKind::Vectors).unwrap().len;
    assert_eq!(vectors_len, u64::from(N) * 4, "no rows");
    let (_other, full) = written();
    assert!(fs_err::metadata(&path).unwrap().len() < fs_err::metadata(full).unwrap().len());
    // What is stored is near what was given, and what every search compares.
    let (given, mut stored) = (vectors(), Vec::new());
    for (node, row) in (0..N).zip(given.chunks_exact(DIM)) {
        let decoded = shard.vector(node).unwrap();
        let apart = decoded.iter().zip(row).map(|(one, other)| (one - other).abs());
        assert!(apart.fold(0.0, f32::max) < 0.02, "{node}: {decoded:?} {row:?}");
        stored.extend(decoded);
    }
    let rows = DenseRows::new(&stored, DIM);
    let mut some = NodeSet::new(N as usize);
    some.extend((0..N).filter(|node| node % 3 != 0));
    for query in given.chunks_exact(DIM) {
        for allowed in [None, Some(&some)] {
            let params = SearchParams {
                allowed,
                ..SearchParams::new(4, N as usize)
            };
            let expected = flat(&rows, query, 4, Metric::Cosine, allowed);
            let by_graph = shard.search(query, &params);
            let exact = shard.search_exact(query, 4, allowed);
            assert_eq!(by_graph.hits, exact.hits, "the same scores, bit for bit");
            for (hit, expected) in exact.hits.iter().zip(&expected) {
                assert!((hit.score - expected.score).abs() < 5e-3, "{hit:?} {expected:?}");
                assert_eq!(shard.score(hit.node, query), Some(hit.score));
            }
            let best = &exact.hits[0];
            let key = shard.keys().key(best.node).to_owned();
            assert_eq!(shard.ahead_of(query, best.score, &key, allowed, &Never), Some(0));
        }
    }
}

/// Long vectors, far from their mean and from the origin: a rounded one is nearer to its question than it can be.
#[test]
fn distances_are_never_below_0() {
    let values: Vec<f32> = vectors().iter().map(|value| 200.0 * value + 90.0).collect();
    let (_dir, path) = written_of(&values, Metric::L2, RowType::Int8);
    let shard = DenseShard::open(&path).unwrap();
    for query in values.chunks_exact(DIM) {
        for hits in [
            shard.search(query, &SearchParams::new(4, N as usize)),
            shard.search_exact(query, 4, None),
        ] {
            assert!(hits.hits.iter().all(|hit| hit.score <= 0.0), "{hits:?}");
        }
        let scores = shard.scores(0..N, query);
        assert!(
            scores.iter().all(|score| score.is_some_and(|score| score <= 0.0)),
            "{scores:?}"
        );
    }
}

/// What verification computes again from rounded rows is as far off as their rounding can make it.
#[test]
fn short_vectors_far_from_the_mean_are_intact() {
    for seed in 0..20 {
        let mut values: Vec<f32> = vectors()
            .iter()
            .enumerate()
            .map(|(at, value)| value + ((at * 31 + seed * 17) % 13) as f32)
            .collect();
        values[DIM..2 * DIM].fill(0.0);
        values[2 * DIM..3 * DIM].fill(0.01);
        let (_dir, path) = written_of(&values, Metric::Dot, RowType::Int8);
        let verified = DenseShard::open(&path).unwrap().verify(&Never);
        assert_eq!(verified.problems, [""; 0], "{seed}");
    }
}

#[test]
fn earlier_releases_refuse_them_and_damage_is_found() {
    let bench = Bench::of(RowType::Int8);
    assert_eq!(bench.intact[8], 4, "a version that they do not read");
    let shard = DenseShard::open(&bench.path).unwrap();
    let section = *shard.header().section(SectionKind::Vectors).unwrap();
    drop(shard);
    let start = section.offset as usize;
    for at in start..start + section.len as usize {
        for bit in [0, 3, 7] {
            bench.with(at, &[bench.intact[at] ^ 1 << bit], |path| {
                let shard = DenseShard::open(path).unwrap();
                search_all(&shard);
                let found = shard.verify(&Never).problems;
                assert!(
                    found.iter().any(|problem| problem.contains("VECTORS")),
                    "{at}: {found:?}"
                );
            });
        }
    }
}
