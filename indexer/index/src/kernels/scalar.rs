//! Kernels in plain Rust: the oracle of all others, and the fallback where none of them can run.

use half::f16;

use super::Kernels;
use super::fast_scan::{fast_scan, not_below, transpose};
use super::rotate::rotate;
use super::sketches::Sketches;

/// Plain Rust, on every machine.
pub const SCALAR: Kernels = Kernels {
    name: "scalar",
    dot,
    squared_l2,
    dot_f16,
    dot_i8,
    dot_i8_x4,
    sketch,
    fast_scan,
    not_below,
    transpose,
    rotate: rotate_any,
};

/// Partial sums, so that the compiler may use whatever vectors the target has.
const LANES: usize = 16;

/// Sum of `term(a[i], b[i])` over the shorter length.
#[inline]
fn sum<A: Copy, B: Copy>(a: &[A], b: &[B], term: impl Fn(A, B) -> f32) -> f32 {
    let len = a.len().min(b.len());
    let (a_chunks, a_rest) = a[..len].as_chunks::<LANES>();
    let (b_chunks, b_rest) = b[..len].as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += term(x[lane], y[lane]);
        }
    }
    let tail: f32 = a_rest.iter().zip(b_rest).map(|(x, y)| term(*x, *y)).sum();
    sums.iter().sum::<f32>() + tail
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |x, y| x * y)
}

fn squared_l2(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |x, y| (x - y) * (x - y))
}

fn dot_f16(query: &[f32], row: &[f16]) -> f32 {
    sum(query, row, |x, y| x * widen(y))
}

/// The number itself, without a branch, so that the compiler may use vectors: the bits as those of an f32 whose
/// exponent is too small by 112, which a product with 2^112 mends, for denormal numbers too.
#[inline]
fn widen(value: f16) -> f32 {
    const REBIAS: f32 = f32::from_bits((127 + 112) << 23);
    const INFINITE: u32 = 0x7C00 << 13;
    let bits = u32::from(value.to_bits());
    let size = (bits & 0x7FFF) << 13;
    let exponent = if size >= INFINITE { f32::INFINITY.to_bits() } else { 0 };
    f32::from_bits((f32::from_bits(size) * REBIAS).to_bits() | exponent | (bits & 0x8000) << 16)
}

fn dot_i8(query: &[i8], row: &[u8]) -> i32 {
    query
        .iter()
        .zip(row)
        .fold(0i32, |sum, (q, r)| sum.wrapping_add(i32::from(*q) * i32::from(*r)))
}

fn dot_i8_x4(query: &[i8], rows: [&[u8]; 4]) -> [i32; 4] {
    rows.map(|row| dot_i8(query, row))
}

fn sketch(planes: &[u64], words: usize, lines: &[u64], stride: usize, ids: &[u32], out: &mut [i32]) {
    let table = Sketches::new(planes, words, lines, stride);
    for (id, out) in ids.iter().zip(out) {
        *out = table
            .and_then(|table| table.code(*id).map(|code| weighted_bits(&table, code)))
            .unwrap_or(i32::MIN);
    }
}

/// Bits that `code` shares with the four planes, weighted 1, 2, 4 and -8.
fn weighted_bits(table: &Sketches<'_>, code: &[u64]) -> i32 {
    let [p0, p1, p2, p3] = [0, 1, 2, 3].map(|p| table.plane(p));
    let mut sum = 0i32;
    for (i, word) in code.iter().enumerate() {
        let shared = |plane: &[u64]| (word & plane[i]).count_ones() as i32;
        sum = sum.wrapping_add(shared(p0) + 2 * shared(p1) + 4 * shared(p2) - 8 * shared(p3));
    }
    sum
}

fn rotate_any(signs: &[f32], block: usize, values: &mut [f32]) {
    rotate(signs, block, values);
}
