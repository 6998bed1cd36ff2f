//! Activations of a feed-forward block, 16 values at a time.

use std::arch::x86_64::{
    __m512, _mm512_abs_ps, _mm512_add_ps, _mm512_div_ps, _mm512_fmadd_ps, _mm512_fnmadd_ps, _mm512_max_ps,
    _mm512_min_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_sub_ps,
};

use super::simd::exp;
use crate::config::HiddenActivation;

/// torch's operator of that name, within 1e-6. NaN stays NaN.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn activate(activation: HiddenActivation, x: __m512) -> __m512 {
    match activation {
        HiddenActivation::Gelu => gelu(x),
        HiddenActivation::GeluTanh => gelu_tanh(x),
        // A NaN is the second operand and stays one.
        HiddenActivation::Relu => _mm512_max_ps(_mm512_setzero_ps(), x),
        HiddenActivation::Silu => by_logistic(x, _mm512_sub_ps(_mm512_setzero_ps(), x)),
    }
}

/// `x (1 + erf(x / sqrt 2)) / 2` (Hendrycks and Gimpel 2016), as `max(x, 0) - |x| erfc(|x| / sqrt 2) / 2`; erfc by
/// Abramowitz and Stegun 7.1.26, whose error is at most 1.5e-7.
#[inline]
#[target_feature(enable = "avx512f")]
fn gelu(x: __m512) -> __m512 {
    let size = _mm512_abs_ps(x);
    let z = _mm512_mul_ps(size, _mm512_set1_ps(std::f32::consts::FRAC_1_SQRT_2));
    let one = _mm512_set1_ps(1.0);
    let t = _mm512_div_ps(one, _mm512_fmadd_ps(z, _mm512_set1_ps(0.327_591_1), one));
    let mut p = _mm512_set1_ps(1.061_405_4);
    for coefficient in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(coefficient));
    }
    let square = _mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(z, z));
    let half = _mm512_mul_ps(_mm512_mul_ps(p, t), _mm512_mul_ps(exp(square), _mm512_set1_ps(0.5)));
    _mm512_fnmadd_ps(size, half, _mm512_max_ps(_mm512_setzero_ps(), x))
}

/// `x (1 + tanh(u)) / 2 = x / (1 + exp(-2 u))` with `u = sqrt(2 / pi) (x + 0.044715 x^3)` (the same paper).
#[inline]
#[target_feature(enable = "avx512f")]
fn gelu_tanh(x: __m512) -> __m512 {
    let one = _mm512_set1_ps(1.0);
    let inner = _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(0.044_715), one);
    // -2 sqrt(2 / pi).
    by_logistic(x, _mm512_mul_ps(_mm512_mul_ps(x, _mm512_set1_ps(-1.595_769)), inner))
}

/// `x / (1 + exp(turned))`.
#[inline]
#[target_feature(enable = "avx512f")]
fn by_logistic(x: __m512, turned: __m512) -> __m512 {
    // Where exp ends; a NaN is the second operand and stays one.
    let power = exp(_mm512_min_ps(_mm512_set1_ps(87.0), turned));
    _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0), power))
}

#[cfg(test)]
mod tests {
    use tch::{Kind, Tensor};

    use super::super::simd::{Avx512, LANES, load, store};
    use super::*;

    #[expect(
        unsafe_code,
        reason = "calls a function compiled for AVX-512, after the processor was checked"
    )]
    fn of(_: Avx512, activation: HiddenActivation, values: &mut [f32]) {
        #[target_feature(enable = "avx512f")]
        fn all(activation: HiddenActivation, values: &mut [f32]) {
            for values in values.as_chunks_mut::<LANES>().0 {
                let activated = activate(activation, load(values));
                store(values, activated);
            }
        }
        // SAFETY: the processor has AVX-512F, as the first argument says.
        unsafe { all(activation, values) }
    }

    #[test]
    fn values_are_those_of_torch_in_f64() {
        let Some(here) = Avx512::found() else {
            println!("skipped: this processor has no AVX-512");
            return;
        };
        let inputs: Vec<f32> = (-16_000..16_000)
            .map(|step| step as f32 / 1000.0)
            .chain([
                -1e4, 1e4, -1e30, 1e30, 0.0, -0.0, 1e-40, 88.0, -88.0, 50.0, -50.0, 1e-20, 0.5, 1.5, 2.5, 3.5,
            ])
            .collect();
        let exact = Tensor::from_slice(&inputs).to_kind(Kind::Double);
        for (activation, expected) in [
            (HiddenActivation::Gelu, exact.gelu("none")),
            (HiddenActivation::GeluTanh, exact.gelu("tanh")),
            (HiddenActivation::Relu, exact.relu()),
            (HiddenActivation::Silu, exact.silu()),
        ] {
            let mut got = inputs.clone();
            of(here, activation, &mut got);
            let expected = Vec::<f64>::try_from(expected).unwrap();
            for ((x, got), expected) in inputs.iter().zip(got).zip(expected) {
                let limit = 1e-6_f64.max(expected.abs() * 3e-7);
                assert!(
                    (f64::from(got) - expected).abs() <= limit,
                    "{activation:?} {x}: {got} {expected}"
                );
            }
            let mut bad = [f32::NAN; LANES];
            of(here, activation, &mut bad);
            assert!(bad.iter().all(|value| value.is_nan()), "{activation:?}");
        }
    }
}
