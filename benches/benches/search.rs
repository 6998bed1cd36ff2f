//! The steps of a search: keeping the best k, one hop of a walk, rescoring, and a whole search in company.
//!
//! `cargo bench -p dyad-bench --bench search`

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use dyad_index::format::RowType;
use dyad_index::format::rows::{self, StoredRows};
use dyad_index::quant::{Codec, Codes, PreparedQuery};
use dyad_index::search::{
    DenseRows, ExactRows as _, RowQuestion, Scored, SearchParams, SearchScratch, ShardView, SlotLinks as _, TopK,
};
use dyad_index::{Arranged, Graph, GraphLayer, Metric};

const DIM: usize = 384;
/// 48 MiB of int8 rows: more than a second-level cache holds.
const ROWS: usize = 1 << 17;
/// Links per row.
const DEGREE: u32 = 32;

struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

fn vectors(rows: usize) -> Vec<f32> {
    let mut numbers = Numbers(7);
    let mut values: Vec<f32> = (0..rows * DIM).map(|_| numbers.unit()).collect();
    for row in values.chunks_mut(DIM) {
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        for x in row {
            *x /= norm;
        }
    }
    values
}

/// Links to anywhere: a walk finds nothing good, and reads memory as a real one does.
fn graph(n: u32) -> Graph {
    let mut numbers = Numbers(11);
    let lists: Vec<Vec<u32>> = (0..n)
        .map(|node| {
            let mut links: Vec<u32> = (0..DEGREE).map(|_| (numbers.next() % u64::from(n)) as u32).collect();
            links.retain(|link| *link != node);
            links.sort_unstable();
            links.dedup();
            links
        })
        .collect();
    Graph {
        entry: 0,
        layers: vec![GraphLayer::from_lists((0..n).collect(), &lists)],
    }
}

fn top_k(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("top-k of 10,000");
    let mut numbers = Numbers(3);
    let scored: Vec<Scored> = (0..10_000)
        .map(|node| Scored {
            node,
            score: numbers.unit(),
        })
        .collect();
    for k in [10, 100, 1_000] {
        group.bench_with_input(BenchmarkId::from_parameter(k), &k, |bencher, k| {
            bencher.iter(|| {
                let mut best = TopK::new(*k);
                for item in &scored {
                    best.offer(*item);
                }
                black_box(best.drain_sorted())
            });
        });
    }
    group.finish();
}

fn steps(criterion: &mut Criterion) {
    let values = vectors(ROWS);
    let dense = DenseRows::new(&values, DIM);
    let codes = Codes::encode(&dense, Codec::fit(&dense, Metric::Cosine, 1));
    let Ok(arranged) = Arranged::new(&graph(ROWS as u32), &codes) else {
        return;
    };
    let (view, codes) = (arranged.layout.view(), arranged.codes.view());
    let mut numbers = Numbers(5);
    let mut slot = move || (numbers.next() % ROWS as u64) as u32;
    let query = &vectors(1)[..];
    let mut prepared = PreparedQuery::default();
    criterion.bench_function("prepare a question", |bencher| {
        bencher.iter(|| codes.codec().prepare(black_box(query), &mut prepared));
    });

    let (mut fresh, mut products, mut estimates) = (Vec::new(), Vec::new(), Vec::new());
    criterion.bench_function("one hop, out of cache", |bencher| {
        bencher.iter_batched(
            &mut slot,
            |slot| {
                fresh.clear();
                view.append(slot, &mut fresh);
                codes.prefetch_lines(&fresh);
                codes.estimate(&prepared, &fresh, 0.2, &mut products, &mut estimates);
                black_box(codes.score(&prepared, slot))
            },
            BatchSize::SmallInput,
        );
    });

    let mut group = criterion.benchmark_group("rescore 14, out of cache");
    let order: Vec<u32> = (0..ROWS as u32).collect();
    for kind in RowType::ALL {
        let mut bytes = Vec::new();
        if rows::write(&dense, kind, &order, &mut bytes).is_err() {
            return;
        }
        // Whole cache lines, and aligned as a mapped file is.
        let mut aligned = vec![0u64; bytes.len() / 8];
        aligned.iter_mut().zip(bytes.chunks_exact(8)).for_each(|(word, bytes)| {
            let mut eight = [0; 8];
            eight.copy_from_slice(bytes);
            *word = u64::from_le_bytes(eight);
        });
        let Ok(stored) = StoredRows::new(zerocopy::IntoBytes::as_bytes(&aligned[..]), kind, codes, ROWS) else {
            return;
        };
        group.bench_function(kind.name(), |bencher| {
            bencher.iter_batched(
                || std::array::from_fn::<u32, 14, _>(|_| slot()),
                |nodes| {
                    for node in &nodes {
                        stored.prefetch(*node);
                    }
                    let question = RowQuestion::new(&stored, query, Metric::Cosine);
                    nodes.iter().map(|node| question.score(*node)).sum::<f32>()
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();

    let queries = vectors(64);
    let questions: Vec<&[f32]> = queries.chunks(DIM).collect();
    let shard = ShardView {
        codes,
        links: &view,
        order: Some(view.order()),
        rows: &dense,
        metric: Metric::Cosine,
    };
    let mut scratch = SearchScratch::default();
    let params = SearchParams::new(10, 64);
    let mut group = criterion.benchmark_group("64 searches at ef 64");
    group.bench_function("one after another", |bencher| {
        bencher.iter(|| {
            for question in &questions {
                black_box(shard.search_one(question, &params, &mut scratch));
            }
        });
    });
    group.bench_function("taking turns", |bencher| {
        bencher.iter(|| {
            shard.search(&questions, &params, &mut scratch, |_, walked| {
                black_box(walked);
            });
        });
    });
    group.finish();
}

criterion_group!(benches, top_k, steps);
criterion_main!(benches);
