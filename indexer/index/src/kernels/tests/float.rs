//! Floats against sums in f64, within the rounding that any order of addition may have.

use half::f16;

use super::data::{LENGTHS, LONGEST, Random, STARTS};
use crate::kernels::{Kernels, available, block_of_round, dot};

/// Terms of a sum, exact enough: products of two f32 are exact in f64.
fn check(kernels: &Kernels, what: &str, got: f32, terms: impl Iterator<Item = f64>) {
    let (mut sum, mut size, mut len) = (0.0f64, 0.0f64, 0.0f64);
    for term in terms {
        sum += term;
        size += term.abs();
        len += 1.0;
    }
    // Each product and each addition rounds once: relative to the sizes, or to the smallest number where they vanish.
    let bound = 2.0 * len * (f64::from(f32::EPSILON) * size + f64::from(f32::from_bits(1)));
    assert!(
        (f64::from(got) - sum).abs() <= bound,
        "{} {what} of {len}: {got} is not {sum} within {bound}",
        kernels.name
    );
}

fn products<'a>(a: &'a [f32], b: &'a [f32]) -> impl Iterator<Item = f64> + 'a {
    a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y))
}

fn squares<'a>(a: &'a [f32], b: &'a [f32]) -> impl Iterator<Item = f64> + 'a {
    // The difference rounds in f32, as every kernel's does.
    a.iter().zip(b).map(|(x, y)| f64::from(x - y) * f64::from(x - y))
}

/// Ordinary rows; rows whose products come near the largest and the smallest numbers; rows of denormal numbers and
/// zeros.
fn rows() -> Vec<(&'static str, Vec<f32>, Vec<f32>)> {
    let mut random = Random::new(1);
    let mut row = |value: &dyn Fn(&mut Random) -> f32| (0..LONGEST).map(|_| value(&mut random)).collect::<Vec<f32>>();
    let ordinary = |random: &mut Random| random.float();
    let wide = |random: &mut Random| random.float() * [1e17, 1.0, 1e-17, 1e-30, -0.0][random.below(5)];
    let tiny = |random: &mut Random| f32::from_bits((random.bits() >> 42) as u32) * [1.0, -1.0, 0.0][random.below(3)];
    let large = |random: &mut Random| random.float() * 5e17;
    vec![
        ("ordinary", row(&ordinary), row(&ordinary)),
        ("wide", row(&wide), row(&wide)),
        ("tiny", row(&tiny), row(&tiny)),
        ("tiny by large", row(&tiny), row(&large)),
        ("large", row(&large), row(&large)),
    ]
}

#[test]
fn products_and_distances_agree_with_f64() {
    for (what, a, b) in rows() {
        for kernels in available() {
            for len in LENGTHS {
                for start in STARTS {
                    // The two rows start at different alignments.
                    let (a, b) = (&a[start..start + len], &b[3 - start..3 - start + len]);
                    check(&kernels, what, (kernels.dot)(a, b), products(a, b));
                    check(&kernels, what, (kernels.squared_l2)(a, b), squares(a, b));
                }
            }
        }
    }
}

#[test]
fn products_with_half_precision_agree_with_f64() {
    let mut random = Random::new(2);
    let mut extreme = || match random.below(8) {
        0 => f16::MAX,
        1 => f16::MIN,
        2 => f16::MIN_POSITIVE,
        3 => f16::from_bits(1),
        4 => f16::NEG_ZERO,
        _ => f16::from_f32(random.float()),
    };
    let row: Vec<f16> = (0..LONGEST).map(|_| extreme()).collect();
    for (what, query, _) in rows() {
        for kernels in available() {
            for len in LENGTHS {
                for start in STARTS {
                    let (query, row) = (&query[start..start + len], &row[3 - start..3 - start + len]);
                    let wide: Vec<f32> = row.iter().map(|value| value.to_f32()).collect();
                    check(&kernels, what, (kernels.dot_f16)(query, row), products(query, &wide));
                }
            }
        }
    }
}

/// Every half-precision number, alone in its lane, gives itself.
#[test]
fn every_half_precision_number_is_read_as_it_is() {
    let all: Vec<f16> = (0..=u16::MAX)
        .map(f16::from_bits)
        .filter(|value| value.is_finite())
        .collect();
    for kernels in available() {
        for (i, value) in all.iter().enumerate() {
            let mut row = [f16::ZERO; 77];
            row[i % 77] = *value;
            let got = (kernels.dot_f16)(&[1.0; 77], &row);
            // Adding zero leaves every number as it is, but turns a negative zero into a positive one.
            assert_eq!(
                got.to_bits(),
                (value.to_f32() + 0.0).to_bits(),
                "{} {value:e}",
                kernels.name
            );
        }
    }
}

/// Where a sum has no finite value, the answer has none either: it never turns into an ordinary number.
#[test]
fn infinities_and_nan_stay_visible() {
    for kernels in available() {
        for len in LENGTHS.skip(1).step_by(13) {
            for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
                let mut a = vec![1.0f32; len];
                a[len / 2] = value;
                let b = vec![1.0f32; len];
                let half: Vec<f16> = a.iter().map(|value| f16::from_f32(*value)).collect();
                for got in [(kernels.dot)(&a, &b), (kernels.dot_f16)(&b, &half)] {
                    assert_eq!(got.is_nan(), value.is_nan(), "{} {value} {got}", kernels.name);
                    assert!(
                        got.is_nan() || got.to_bits() == value.to_bits(),
                        "{} {value} {got}",
                        kernels.name
                    );
                }
                assert!(!(kernels.squared_l2)(&a, &b).is_finite(), "{} {value}", kernels.name);
            }
            let largest = vec![f32::MAX; len];
            let got = (kernels.dot)(&largest, &largest);
            assert_eq!(got.to_bits(), f32::INFINITY.to_bits(), "{} {got}", kernels.name);
        }
    }
}

#[test]
fn different_lengths_use_the_shorter() {
    for kernels in available() {
        assert_eq!(
            (kernels.dot)(&[1.0, 2.0, 3.0], &[4.0, 5.0]).to_bits(),
            14.0f32.to_bits()
        );
        assert_eq!((kernels.dot)(&[], &[1.0]).to_bits(), 0.0f32.to_bits());
        assert_eq!(
            (kernels.squared_l2)(&[1.0, 2.0], &[4.0, 5.0, 6.0]).to_bits(),
            18.0f32.to_bits()
        );
        assert_eq!((kernels.squared_l2)(&[1.0], &[]).to_bits(), 0.0f32.to_bits());
        assert_eq!((kernels.dot_f16)(&[3.0, 1.0], &[f16::ONE]).to_bits(), 3.0f32.to_bits());
        assert_eq!((kernels.dot_f16)(&[], &[f16::ONE]).to_bits(), 0.0f32.to_bits());
        let (long, short) = (vec![1.0f32; 200], vec![1.0f32; 100]);
        assert_eq!((kernels.dot)(&long, &short).to_bits(), 100.0f32.to_bits());
        assert_eq!(
            (kernels.dot_f16)(&short, &vec![f16::ONE; 200]).to_bits(),
            100.0f32.to_bits()
        );
    }
    assert_eq!(dot(&[1.0, 2.0, 3.0], &[4.0, 5.0]).to_bits(), 14.0f32.to_bits());
}

/// One round by definition: element `(i, j)` of a Hadamard matrix is -1 to the number of ones that `i` and `j` share.
#[test]
fn every_set_rotates_to_the_same_bits_as_the_definition_says() {
    let mut random = Random::new(4);
    for (dim, rounds) in
        (1..=40)
            .map(|dim| (dim, 3))
            .chain([(100, 4), (127, 1), (256, 4), (384, 4), (768, 4), (1000, 2)])
    {
        let block = 1 << usize::ilog2(dim);
        let mut value = |_| (random.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0;
        let signs: Vec<f32> = (0..rounds * dim).map(&mut value).collect();
        let row: Vec<f32> = (0..dim).map(&mut value).collect();
        let mut exact: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect();
        for (round, signs) in signs.chunks_exact(dim).enumerate() {
            exact
                .iter_mut()
                .zip(signs)
                .for_each(|(value, sign)| *value *= f64::from(*sign));
            let inside = block_of_round(round, dim, block);
            let before = exact[inside.clone()].to_vec();
            for (i, value) in exact[inside].iter_mut().enumerate() {
                let sign = |j: usize| {
                    if (i & j).count_ones().is_multiple_of(2) {
                        1.0
                    } else {
                        -1.0
                    }
                };
                *value = before.iter().enumerate().map(|(j, value)| sign(j) * value).sum();
            }
            if block != dim {
                let (front, back) = exact.split_at_mut(dim.div_ceil(2));
                for (a, b) in front.iter_mut().zip(back) {
                    (*a, *b) = ((*a + *b) / 2.0_f64.sqrt(), (*a - *b) / 2.0_f64.sqrt());
                }
            }
        }
        let size = exact.iter().map(|value| value * value).sum::<f64>().sqrt();
        let mut first = None;
        for kernels in available() {
            let mut rotated = row.clone();
            (kernels.rotate)(&signs, block, &mut rotated);
            let error = exact
                .iter()
                .zip(&rotated)
                .map(|(x, y)| (x - f64::from(*y)).abs())
                .fold(0.0, f64::max);
            assert!(error <= 1e-5 * size, "{} of {dim}: {error} of {size}", kernels.name);
            let bits: Vec<u32> = rotated.iter().map(|value| value.to_bits()).collect();
            assert_eq!(
                *first.get_or_insert_with(|| bits.clone()),
                bits,
                "{} of {dim}",
                kernels.name
            );
        }
    }
}
