//! Sketches by `vpshufb`, which looks up the number of ones of each half byte (Mula, Kurz and Lemire 2018): 256 bits at
//! a time.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi8, _mm256_add_epi64, _mm256_and_si256, _mm256_cmpgt_epi64, _mm256_extract_epi64,
    _mm256_maskload_epi64, _mm256_sad_epu8, _mm256_set1_epi8, _mm256_set1_epi64x, _mm256_setr_epi8, _mm256_setr_epi64x,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_sub_epi64,
};

use zerocopy::transmute;

use crate::kernels::sketches::Sketches;

/// Words of one register.
const LANES: usize = 4;

#[inline]
#[target_feature(enable = "avx2")]
fn load(words: &[u64; LANES]) -> __m256i {
    transmute!(*words)
}

/// At most 4 words, then zeros.
#[expect(unsafe_code, reason = "masked vector load")]
#[inline]
#[target_feature(enable = "avx2")]
fn load_rest(words: &[u64]) -> __m256i {
    let first = _mm256_cmpgt_epi64(_mm256_set1_epi64x(words.len() as i64), _mm256_setr_epi64x(0, 1, 2, 3));
    // SAFETY: the mask names no word beyond the slice, and a masked load touches nothing else.
    unsafe { _mm256_maskload_epi64(words.as_ptr().cast(), first) }
}

/// `weight` times the number of ones of each half byte, for every half byte.
#[inline]
#[target_feature(enable = "avx2")]
fn weighted_ones(weight: i8) -> __m256i {
    let [one, two, three, four] = [weight, 2 * weight, 3 * weight, 4 * weight];
    _mm256_setr_epi8(
        0, one, one, two, one, two, two, three, one, two, two, three, two, three, three, four, //
        0, one, one, two, one, two, two, three, one, two, two, three, two, three, three, four,
    )
}

/// Per byte, the ones of `bits` by a table of [`weighted_ones`]: at most 64.
#[inline]
#[target_feature(enable = "avx2")]
fn ones(bits: __m256i, table: __m256i) -> __m256i {
    let half = _mm256_set1_epi8(15);
    let low = _mm256_shuffle_epi8(table, _mm256_and_si256(bits, half));
    let high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(bits), half));
    _mm256_add_epi8(low, high)
}

/// `sums` and, per 64 bits: the bits shared with each plane, weighted 1, 2, 4 and -8.
#[inline]
#[target_feature(enable = "avx2")]
fn add(sums: __m256i, code: __m256i, planes: [__m256i; 4]) -> __m256i {
    // At most 8 + 16 + 32 per byte.
    let positive = _mm256_add_epi8(
        ones(_mm256_and_si256(code, planes[0]), weighted_ones(1)),
        _mm256_add_epi8(
            ones(_mm256_and_si256(code, planes[1]), weighted_ones(2)),
            ones(_mm256_and_si256(code, planes[2]), weighted_ones(4)),
        ),
    );
    let negative = ones(_mm256_and_si256(code, planes[3]), weighted_ones(8));
    let zero = _mm256_setzero_si256();
    let difference = _mm256_sub_epi64(_mm256_sad_epu8(positive, zero), _mm256_sad_epu8(negative, zero));
    _mm256_add_epi64(sums, difference)
}

/// Weighted bits of every id, see [`crate::kernels::SketchFn`].
#[target_feature(enable = "avx2")]
pub(in super::super) fn sketch(
    planes: &[u64],
    words: usize,
    lines: &[u64],
    stride: usize,
    ids: &[u32],
    out: &mut [i32],
) {
    let table = Sketches::new(planes, words, lines, stride);
    for (id, out) in ids.iter().zip(out) {
        *out = match table {
            Some(table) => weighted(&table, *id),
            None => i32::MIN,
        };
    }
}

/// Weighted bits of one id.
#[inline]
#[target_feature(enable = "avx2")]
fn weighted(table: &Sketches<'_>, id: u32) -> i32 {
    let Some(code) = table.code(id) else { return i32::MIN };
    let (registers, rest) = code.as_chunks::<LANES>();
    let (plane0, rest0) = table.plane(0).as_chunks::<LANES>();
    let (plane1, rest1) = table.plane(1).as_chunks::<LANES>();
    let (plane2, rest2) = table.plane(2).as_chunks::<LANES>();
    let (plane3, rest3) = table.plane(3).as_chunks::<LANES>();
    let mut sums = _mm256_setzero_si256();
    for (i, code) in registers.iter().enumerate() {
        sums = add(
            sums,
            load(code),
            [load(&plane0[i]), load(&plane1[i]), load(&plane2[i]), load(&plane3[i])],
        );
    }
    if !rest.is_empty() {
        let planes = [load_rest(rest0), load_rest(rest1), load_rest(rest2), load_rest(rest3)];
        sums = add(sums, load_rest(rest), planes);
    }
    let [a, b, c, d] = [
        _mm256_extract_epi64::<0>(sums),
        _mm256_extract_epi64::<1>(sums),
        _mm256_extract_epi64::<2>(sums),
        _mm256_extract_epi64::<3>(sums),
    ];
    a.wrapping_add(b).wrapping_add(c).wrapping_add(d) as i32
}
