//! The inner loops of the index, each instruction set of this machine against plain Rust.
//!
//! `cargo bench -p dyad-bench --bench kernels -- 'dot_i8/384/in cache'` runs those whose name matches
//! `KERNEL/DIMENSION/PLACE/SET`. A number is the time of one row (of four for `dot_i8_x4`, of 32 for `sketch_x32`):
//!
//! | place | rows |
//! |---|---|
//! | `in cache` | 16 KiB of them, over and over: what the processor's ports allow |
//! | `memory` | rows at random of 128 MiB: what a hop costs that does not prefetch |
//! | `prefetched` | the same, each asked for eight rows ahead of its use |

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use dyad_index::kernels::{Kernels, available, prefetch};
use half::f16;
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;
use zerocopy::{Immutable, IntoBytes};

const DIMENSIONS: [usize; 4] = [128, 384, 768, 1024];
const IN_CACHE: usize = 16 << 10;
const IN_MEMORY: usize = 128 << 20;
/// Rows between asking for a row and its use.
const AHEAD: usize = 8;
/// Rows until the order repeats: a power of two, so that the remainder costs nothing.
const ORDER: usize = 1 << 16;
/// Ids of one call of `sketch`: the links of a node, about.
const IDS: usize = 32;

/// A table that starts on a cache line, and the order in which its rows are read.
struct Table<T> {
    values: Vec<T>,
    skip: usize,
    width: usize,
    order: Vec<u32>,
}

impl<T: Copy> Table<T> {
    /// `bytes` of rows of `width` values.
    fn new(width: usize, bytes: usize, mut value: impl FnMut(u64) -> T) -> Self {
        // So that every run reads the same rows.
        let mut random = SplitMix64::seed_from_u64(0);
        let rows = bytes / (width * size_of::<T>());
        let line = 64 / size_of::<T>();
        let values: Vec<T> = (0..rows * width + line)
            .map(|_| value(random.next_u64() >> 8))
            .collect();
        let skip = (values.as_ptr().addr().next_multiple_of(64) - values.as_ptr().addr()) / size_of::<T>();
        let order = (0..ORDER)
            .map(|_| (random.next_u64() >> 32) as u32 % rows as u32)
            .collect();
        Self {
            values,
            skip,
            width,
            order,
        }
    }

    fn all(&self) -> &[T] {
        &self.values[self.skip..]
    }

    fn row(&self, at: usize) -> &[T] {
        let id = self.order[at % ORDER] as usize;
        &self.all()[id * self.width..][..self.width]
    }
}

fn group<'a>(criterion: &'a mut Criterion, kernel: &str, dim: usize) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(format!("{kernel}/{dim}"));
    group
        .sample_size(30)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    group
}

/// One row (or `rows` at once) per iteration, in the three places.
fn rows<T: Copy + IntoBytes + Immutable, R>(
    criterion: &mut Criterion,
    name: &str,
    at_once: usize,
    value: impl Fn(u64) -> T,
    call: impl Fn(&Kernels, &Table<T>, usize) -> R,
) {
    for dim in DIMENSIONS {
        let mut group = group(criterion, name, dim);
        for (place, bytes, ahead) in [
            ("in cache", IN_CACHE, 0),
            ("memory", IN_MEMORY, 0),
            ("prefetched", IN_MEMORY, AHEAD),
        ] {
            let table = Table::new(dim, bytes, &value);
            for kernels in available() {
                let mut at = 0;
                group.bench_function(BenchmarkId::new(place, kernels.name), |bench| {
                    bench.iter(|| {
                        at += at_once;
                        if ahead > 0 {
                            (0..at_once).for_each(|i| prefetch(table.row(at + ahead + i).as_bytes()));
                        }
                        black_box(call(&kernels, &table, at))
                    });
                });
            }
        }
        group.finish();
    }
}

fn float(random: u64) -> f32 {
    (random & 0xFFFF) as f32 / 65_536.0 - 0.5
}

fn floats(criterion: &mut Criterion) {
    let query: Vec<f32> = (0..1024).map(float).collect();
    rows(criterion, "dot", 1, float, |kernels, table, at| {
        (kernels.dot)(&query[..table.width], table.row(at))
    });
    rows(criterion, "squared_l2", 1, float, |kernels, table, at| {
        (kernels.squared_l2)(&query[..table.width], table.row(at))
    });
    let half = |random| f16::from_f32(float(random));
    rows(criterion, "dot_f16", 1, half, |kernels, table, at| {
        (kernels.dot_f16)(&query[..table.width], table.row(at))
    });
}

fn integers(criterion: &mut Criterion) {
    let query: Vec<i8> = (0..1024u32).map(|i| (i * 37 % 255) as i8).collect();
    let byte = |random| random as u8;
    rows(criterion, "dot_i8", 1, byte, |kernels, table, at| {
        (kernels.dot_i8)(&query[..table.width], table.row(at))
    });
    rows(criterion, "dot_i8_x4", 4, byte, |kernels, table, at| {
        let four = [table.row(at), table.row(at + 1), table.row(at + 2), table.row(at + 3)];
        (kernels.dot_i8_x4)(&query[..table.width], four)
    });
}

/// One call for 32 ids per iteration; rows as in an index: the sketch, two words of factors, filled up to whole lines.
fn sketches(criterion: &mut Criterion) {
    for dim in DIMENSIONS {
        let words = dim / 64;
        let stride = (words + 2).next_multiple_of(8);
        let mut random = SplitMix64::seed_from_u64(7);
        let planes: Vec<u64> = (0..4 * words).map(|_| random.next_u64()).collect();
        let mut group = group(criterion, "sketch_x32", dim);
        for (place, bytes) in [("in cache", IN_CACHE), ("memory", IN_MEMORY), ("prefetched", IN_MEMORY)] {
            let table = Table::new(stride, bytes, |bits| bits);
            for kernels in available() {
                let mut at = 0;
                let mut out = [0; IDS];
                group.bench_function(BenchmarkId::new(place, kernels.name), |bench| {
                    bench.iter(|| {
                        at = (at + IDS) % ORDER;
                        if place == "prefetched" {
                            (0..IDS).for_each(|i| prefetch(table.row(at + IDS + i).as_bytes()));
                        }
                        (kernels.sketch)(
                            &planes,
                            words,
                            table.all(),
                            stride,
                            &table.order[at..at + IDS],
                            &mut out,
                        );
                        black_box(out[0])
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group!(kernels, floats, integers, sketches);
criterion_main!(kernels);
