//! 16 values at a time: loads, stores, the exponential function and the transposition of 16 registers in AVX-512.

use std::arch::x86_64::{
    __m512, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm512_castpd_ps, _mm512_castps_pd, _mm512_fmadd_ps,
    _mm512_fnmadd_ps, _mm512_loadu_ps, _mm512_max_ps, _mm512_mul_ps, _mm512_roundscale_ps, _mm512_scalef_ps,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_shuffle_f32x4, _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps,
    _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};

/// Proof that this processor has AVX-512F: it can only be made where it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    pub(super) fn found() -> Option<Self> {
        is_x86_feature_detected!("avx512f").then_some(Self(()))
    }
}

/// Proof that this processor multiplies bytes too (AVX-512 VNNI).
#[derive(Debug, Clone, Copy)]
pub(super) struct Vnni(Avx512);

impl Vnni {
    pub(super) fn found() -> Option<Self> {
        Avx512::found()
            .filter(|_| is_x86_feature_detected!("avx512vnni"))
            .map(Self)
    }

    pub(super) fn avx512(self) -> Avx512 {
        self.0
    }
}

/// Values of one register.
pub(super) const LANES: usize = 16;

#[expect(unsafe_code, reason = "vector load")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(values: &[f32; LANES]) -> __m512 {
    // SAFETY: the array is 16 values of 4 bytes, which is what the instruction reads, at any alignment.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

#[expect(unsafe_code, reason = "vector store")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store(values: &mut [f32; LANES], register: __m512) {
    // SAFETY: the array is 16 values of 4 bytes, which is what the instruction writes, at any alignment.
    unsafe { _mm512_storeu_ps(values.as_mut_ptr(), register) }
}

/// `exp(x)` within 2 units in the last place for `x` up to 88; below -87.3 as there, so above 0. Cephes' `expf`: `x = n
/// ln 2 + r`, a polynomial of degree 6 in `r`, `2^n` by the exponent.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn exp(x: __m512) -> __m512 {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // A NaN is the second operand and stays one.
    let x = _mm512_max_ps(_mm512_set1_ps(-87.3), x);
    let turns = _mm512_mul_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E));
    let n = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(turns);
    let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2_HIGH), x);
    let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2_LOW), r);
    let mut p = _mm512_set1_ps(1.987_569_1e-4);
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(coefficient));
    }
    let one = _mm512_set1_ps(1.0);
    let p = _mm512_fmadd_ps(_mm512_mul_ps(p, r), r, r);
    _mm512_scalef_ps(std::arch::x86_64::_mm512_add_ps(p, one), n)
}

/// 16 rows of 16 values become columns.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transposed(rows: &mut [__m512; LANES]) {
    let mut next = [_mm512_setzero_ps(); LANES];
    // Within quarters of 4 values: pairs of rows are interleaved, then pairs of pairs.
    for pair in 0..LANES / 2 {
        let [a, b] = [rows[2 * pair], rows[2 * pair + 1]];
        next[2 * pair] = _mm512_unpacklo_ps(a, b);
        next[2 * pair + 1] = _mm512_unpackhi_ps(a, b);
    }
    for four in 0..LANES / 4 {
        for part in 0..2 {
            let [a, b] = [0, 2].map(|of| _mm512_castps_pd(next[4 * four + of + part]));
            rows[4 * four + 2 * part] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            rows[4 * four + 2 * part + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    }
    // Register `4 f + c` holds column `c + 4 q` of rows `4 f ..` in its quarter `q`: quarters are transposed as values
    // were.
    for column in 0..4 {
        for half in 0..2 {
            let [a, b] = [rows[8 * half + column], rows[8 * half + 4 + column]];
            next[8 * half + column] = _mm512_shuffle_f32x4::<0x88>(a, b);
            next[8 * half + 4 + column] = _mm512_shuffle_f32x4::<0xdd>(a, b);
        }
    }
    for column in 0..4 {
        for odd in 0..2 {
            let [a, b] = [next[4 * odd + column], next[8 + 4 * odd + column]];
            rows[4 * odd + column] = _mm512_shuffle_f32x4::<0x88>(a, b);
            rows[8 + 4 * odd + column] = _mm512_shuffle_f32x4::<0xdd>(a, b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        unsafe_code,
        reason = "calls a function compiled for AVX-512, after the processor was checked"
    )]
    fn exp_of(_: Avx512, x: f32) -> f32 {
        #[target_feature(enable = "avx512f")]
        fn of(x: f32) -> f32 {
            let mut values = [x; LANES];
            store(&mut values, exp(load(&[x; LANES])));
            values[5]
        }
        // SAFETY: the processor has AVX-512F, as the first argument says.
        unsafe { of(x) }
    }

    #[test]
    fn exponentials_are_those_of_f64() {
        let Some(here) = Avx512::found() else {
            println!("skipped: this processor has no AVX-512");
            return;
        };
        for step in -8700..=8800_i32 {
            let x = step as f32 / 100.0;
            let (got, expected) = (f64::from(exp_of(here, x)), f64::from(x).exp());
            assert!((got - expected).abs() <= expected * 2.4e-7, "{x}: {got} {expected}");
        }
        for far in [-1000.0, f32::NEG_INFINITY] {
            assert!(exp_of(here, far) < 1e-37);
        }
        assert!(exp_of(here, f32::NAN).is_nan());
    }

    #[expect(
        unsafe_code,
        reason = "calls a function compiled for AVX-512, after the processor was checked"
    )]
    #[test]
    fn rows_become_columns() {
        #[target_feature(enable = "avx512f")]
        fn of(rows: &mut [[f32; LANES]; LANES]) {
            let mut registers = [_mm512_setzero_ps(); LANES];
            for (register, row) in registers.iter_mut().zip(&*rows) {
                *register = load(row);
            }
            transposed(&mut registers);
            for (row, register) in rows.iter_mut().zip(registers) {
                store(row, register);
            }
        }
        if Avx512::found().is_none() {
            println!("skipped: this processor has no AVX-512");
            return;
        }
        let rows: [[f32; LANES]; LANES] =
            std::array::from_fn(|row| std::array::from_fn(|column| (LANES * row + column) as f32));
        let mut columns = rows;
        // SAFETY: the processor has AVX-512F, as was found above.
        unsafe { of(&mut columns) };
        for (number, column) in columns.iter().enumerate() {
            let expected = rows.iter().map(|row| row[number].to_bits());
            assert!(
                column.iter().map(|value| value.to_bits()).eq(expected),
                "column {number}: {column:?}"
            );
        }
    }
}
