//! Rotation and codes against plain arithmetic.

use proptest::prelude::*;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng as _;

use super::*;
use crate::kernels::{BLOCK_ROWS, Lookup};
use crate::model::Metric;
use crate::rows::{DenseRows, VectorRows as _};

fn values(n: usize, dim: usize, seed: u64, unit: bool) -> Vec<f32> {
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut values: Vec<f32> = (0..n * dim)
        .map(|at| (random.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0 + 0.3 * ((at % dim) % 3) as f32)
        .collect();
    for row in values.chunks_mut(dim).filter(|_| unit) {
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        for x in row {
            *x /= norm;
        }
    }
    values
}

fn squared(values: &[f32]) -> f32 {
    values.iter().map(|x| x * x).sum()
}

#[test]
fn a_rotation_keeps_lengths_and_products_in_every_dimension() {
    for dim in (1..=130).chain([255, 256, 257, 384, 768, 1000]) {
        let rotation = Rotation::new(dim, 5);
        let (mut a, mut b) = (values(1, dim, 1, false), values(1, dim, 2, false));
        let before = (squared(&a), a.iter().zip(&b).map(|(x, y)| x * y).sum::<f32>());
        rotation.apply(&mut a);
        rotation.apply(&mut b);
        let after = (squared(&a), a.iter().zip(&b).map(|(x, y)| x * y).sum::<f32>());
        let tolerance = 1e-4 * dim as f32;
        assert!(
            (before.0 - after.0).abs() < tolerance && (before.1 - after.1).abs() < tolerance,
            "{dim}"
        );
    }
}

#[test]
fn a_rotation_is_undone_in_every_dimension() {
    for dim in (1..=130).chain([255, 256, 257, 384, 768, 1000]) {
        let (rotation, before) = (Rotation::new(dim, 5), values(1, dim, 1, false));
        let mut after = before.clone();
        rotation.apply(&mut after);
        rotation.undo(&mut after);
        let apart = before.iter().zip(&after).map(|(x, y)| (x - y).abs());
        assert!(apart.fold(0.0, f32::max) < 1e-5, "{dim}");
    }
}

/// Rows that are decoded are the given ones, but for half a step of each value, and encoded again they are what they
/// were: however often an index without other rows is merged, it loses nothing more.
#[test]
fn what_is_decoded_is_near_and_has_the_same_codes_again() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        for dim in [1, 2, 24, 64, 100, 384] {
            let n = 40;
            let given = values(n, dim, 7, metric == Metric::Cosine);
            let rows = DenseRows::new(&given, dim);
            let codec = Codec::fit(&rows, metric, 3);
            let slots: Vec<u32> = (0..n as u32).collect();
            let mut codes = Codes::encode(&rows, codec.clone());
            let first = codes.clone();
            for _ in 0..3 {
                let decoded = CodeRows::new(&slots, codes.view());
                let (mut all, mut row) = (Vec::new(), Vec::new());
                for node in 0..n as u32 {
                    decoded.decode(node, &mut row);
                    let apart: f32 = row.iter().zip(rows.row(node)).map(|(x, y)| (x - y).powi(2)).sum();
                    let factors = codes.view().factors(node).unwrap();
                    // Half a step of each value; by distances the length is corrected, for which the step is longer.
                    let most = 0.75 * factors.scale * (dim as f32).sqrt() + 1e-5;
                    assert!(apart.sqrt() <= most, "{metric:?} {dim}: {} of {most}", apart.sqrt());
                    all.extend_from_slice(&row);
                }
                decoded.decode(n as u32, &mut row);
                assert!(row.is_empty());
                let again = Codes::encode(&DenseRows::new(&all, dim), codec.clone());
                assert!(again.rows == first.rows, "{metric:?} {dim}");
                let long = squared(codec.centre()).sqrt();
                for node in 0..n as u32 {
                    let (one, other) = (first.view().factors(node).unwrap(), again.view().factors(node).unwrap());
                    // The product with the centre is that of the decoded row from then on.
                    let moved = match metric {
                        Metric::Cosine | Metric::Dot => 0.5 * one.scale * (dim as f32).sqrt() * long,
                        Metric::L2 => 0.0,
                    };
                    let near = |one: f32, other: f32, by: f32| (one - other).abs() <= by + 1e-3 * one.abs().max(1e-2);
                    assert!(near(one.bias, other.bias, moved), "{metric:?} {dim}: {one:?} {other:?}");
                    if metric != Metric::L2 {
                        assert!(near(one.scale, other.scale, 0.0), "{metric:?} {dim}: {one:?} {other:?}");
                    }
                }
                codes = again;
            }
        }
    }
}

/// A question of twice eight bits is compared with a row as one of f64 is, value by value.
#[test]
fn a_refined_question_adds_no_rounding_of_its_own() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        for dim in [3, 64, 100, 384] {
            let given = values(50, dim, 9, metric == Metric::Cosine);
            let rows = DenseRows::new(&given, dim);
            let codes = Codes::encode(&rows, Codec::fit(&rows, metric, 1));
            let slots: Vec<u32> = (0..50).collect();
            let stored = CodeRows::new(&slots, codes.view());
            let question = values(1, dim, 23, metric == Metric::Cosine);
            let prepared = stored.prepare(&question);
            for node in 0..50 {
                let (view, mut expected) = (codes.view(), f64::from(prepared.base));
                let factors = view.factors(node).unwrap();
                for (value, code) in prepared.residual.iter().zip(view.row(node).unwrap()) {
                    expected += f64::from(*value) * f64::from(factors.scale) * (f64::from(*code) - 128.0);
                }
                expected += f64::from(prepared.bias) * f64::from(factors.bias);
                let (got, row) = (stored.score(node, &prepared), rows.row(node));
                let size = (squared(&question) * squared(row)).sqrt().max(1.0);
                let apart = f64::from(got) - expected;
                assert!(apart.abs() < 2e-4 * f64::from(size), "{metric:?} {dim}: {apart}");
                // And as the given row is, but for half a step of each value.
                let step = 0.5 * factors.scale * (dim as f32).sqrt() * squared(&prepared.residual).sqrt();
                let exact = metric.score(&question, row);
                assert!(
                    (got - exact).abs() < step + 1e-3 * size,
                    "{metric:?} {dim}: {got} {exact}"
                );
            }
            assert!(stored.score(50, &prepared).is_nan());
            assert!(stored.score(0, &stored.prepare(&question[1..])).is_nan());
        }
    }
}

#[test]
fn a_rotation_spreads_one_coordinate_over_all() {
    for dim in [64usize, 100, 384, 768] {
        for at in [0, dim / 2, dim - 1] {
            let mut row = vec![0.0; dim];
            row[at] = 1.0;
            Rotation::new(dim, 9).apply(&mut row);
            let largest = row.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            assert!(largest < 7.0 / (dim as f32).sqrt(), "{dim} {at}: {largest}");
        }
    }
}

/// `offset` is added to every value: far from the origin the codes of [`Metric::L2`] are as good as near it.
fn check(dim: usize, metric: Metric, offset: f32) {
    let n = 200;
    let shifted = |values: Vec<f32>| values.into_iter().map(|value| value + offset).collect::<Vec<f32>>();
    let base = shifted(values(n, dim, 3, metric == Metric::Cosine));
    let rows = DenseRows::new(&base, dim);
    let codes = Codes::encode(&rows, Codec::fit(&rows, metric, 11));
    let view = codes.view();
    let mut prepared = PreparedQuery::default();
    let (mut products, mut estimates) = (Vec::new(), Vec::new());
    let slots: Vec<u32> = (0..n as u32).collect();
    let (mut error8, mut error1, mut scale) = (0.0f32, 0.0f32, 0.0f32);
    for query in shifted(values(20, dim, 4, metric == Metric::Cosine)).chunks(dim) {
        codes.codec.prepare(query, &mut prepared);
        view.estimate(&prepared, &slots, 0.0, &mut products, &mut estimates);
        for slot in &slots {
            let row = rows.row(*slot);
            let exact = metric.score(query, row);
            error8 = error8.max((view.score(&prepared, *slot) - exact).abs());
            error1 += (estimates[*slot as usize] - exact).powi(2);
            let length = |values: &[f32]| values.iter().map(|x| (x - offset).powi(2)).sum::<f32>().sqrt();
            scale += length(row) * length(query);
        }
    }
    let (count, mean) = ((20 * n) as f32, scale / (20 * n) as f32);
    assert!(error8 < 0.02 * mean, "{dim}: int8 {error8} of {mean}");
    // RaBitQ: about 0.76 / sqrt(d) for the residuals, which are no longer than the vectors.
    let (error1, bound) = ((error1 / count).sqrt(), 1.3 * mean / (dim as f32).sqrt());
    assert!(error1 < bound, "{dim}: sketch {error1}, bound {bound}");
}

#[test]
fn codes_score_what_vectors_score() {
    for dim in [3, 64, 96, 128, 384, 500, 768, 1024] {
        check(dim, Metric::Cosine, 0.0);
        check(dim, Metric::L2, 0.0);
        check(dim, Metric::L2, 1000.0);
    }
}

/// Blocks give the same bits as rows one by one: for slots in any order, some of which are not there, and for a
/// question that is none.
#[test]
fn blocks_are_estimated_as_rows_are() {
    for dim in [3, 64, 100, 384, 1024] {
        let (n, base) = (300, values(300, dim, 5, true));
        let rows = DenseRows::new(&base, dim);
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 7));
        let view = codes.view();
        let (mut products, mut expected, mut lookup) = (Vec::new(), Vec::new(), Lookup::default());
        let mut blocks = SketchBlocks::default();
        for (count, missing) in [(0, false), (1, false), (64, false), (130, true), (257, false)] {
            let mut slots: Vec<u32> = (0..count).map(|at| at * 7 % n).collect();
            if missing {
                slots[100] = n;
            }
            view.lay_out(&slots, &mut blocks);
            assert_eq!(blocks.is_damaged(), missing);
            let mut questions = vec![PreparedQuery::none()];
            for query in values(4, dim, 6, true).chunks(dim) {
                let mut prepared = PreparedQuery::default();
                codes.codec.prepare(query, &mut prepared);
                questions.push(prepared);
            }
            for (prepared, optimism) in questions.iter().zip([0.2, 0.0, 2.0, 0.7, 5.0]) {
                prepared.look_up(optimism, &mut lookup);
                view.estimate(prepared, &slots, optimism, &mut products, &mut expected);
                for (at, expected) in expected.chunks(BLOCK_ROWS).enumerate() {
                    let mut estimates = [0.0; BLOCK_ROWS];
                    view.estimate_block(&lookup, &blocks, at, &mut estimates);
                    for (row, estimate) in estimates.iter().enumerate() {
                        let expected = expected.get(row).copied().unwrap_or(f32::NAN);
                        let same = estimate.to_bits() == expected.to_bits() || estimate.is_nan() && expected.is_nan();
                        assert!(same, "{dim}, {count}: {estimate} {expected}");
                    }
                }
            }
            let mut none = [0.0; BLOCK_ROWS];
            view.estimate_block(&lookup, &blocks, slots.len().div_ceil(BLOCK_ROWS), &mut none);
            assert!(none.iter().all(|estimate| estimate.is_nan()));
        }
    }
}

#[test]
fn rows_compare_with_each_other_through_codes() {
    let base = values(50, 96, 8, true);
    let rows = DenseRows::new(&base, 96);
    let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 1));
    let view = codes.view();
    let (mut prepared, mut exact) = (PreparedQuery::default(), PreparedQuery::default());
    for (a, b) in [(0, 1), (7, 7), (3, 49)] {
        view.prepare(a, &mut prepared);
        view.prepare_exact(a, &mut exact);
        let expected = Metric::Cosine.score(rows.row(a), rows.row(b));
        assert!((view.score(&prepared, b) - expected).abs() < 5e-3);
        assert!((view.score(&exact, b) - expected).abs() < 5e-3);
    }
    assert!(view.score(&prepared, 50).is_nan());
    // A row that does not exist, in the place of a question: nothing of the one before is left.
    view.prepare(50, &mut prepared);
    view.prepare_exact(51, &mut exact);
    let (mut products, mut estimates) = (Vec::new(), Vec::new());
    view.estimate(&prepared, &[0, 1], 0.2, &mut products, &mut estimates);
    assert!(estimates.iter().all(|score| score.is_nan()), "{estimates:?}");
    assert!(view.score(&prepared, 1).is_nan() && view.score(&exact, 1).is_nan());
}

#[test]
fn rows_at_the_centre_and_equal_rows_are_no_special_case() {
    let base = [1.0f32, 0.0].repeat(4);
    let rows = DenseRows::new(&base, 2);
    let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 1));
    let mut prepared = PreparedQuery::default();
    codes.codec.prepare(&[0.6, 0.8], &mut prepared);
    for slot in 0..4 {
        assert!((codes.view().score(&prepared, slot) - 0.6).abs() < 1e-6);
    }
}

proptest! {
    #[test]
    fn reordering_moves_whole_rows(order in Just((0..12u32).collect::<Vec<_>>()).prop_shuffle()) {
        let base = values(12, 70, 2, true);
        let rows = DenseRows::new(&base, 70);
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 3));
        let moved = codes.reordered(&order);
        let mut prepared = PreparedQuery::default();
        codes.codec.prepare(rows.row(5), &mut prepared);
        for (slot, node) in order.iter().enumerate() {
            let (there, here) = (moved.view().score(&prepared, slot as u32), codes.view().score(&prepared, *node));
            prop_assert_eq!(there.to_bits(), here.to_bits());
        }
    }
}

/// Values so small that a step's inverse is infinite: they count as 0, and no sum overflows.
#[test]
fn values_too_small_for_steps_become_zero() {
    for tiny in [f32::from_bits(1), 1e-40, 1e-38] {
        let base: Vec<f32> = (0..4 * 70).map(|at| if at % 2 == 0 { tiny } else { 0.0 }).collect();
        let rows = DenseRows::new(&base, 70);
        for codec in [
            Codec::fit(&rows, Metric::L2, 3),
            Codec::new(vec![0.0; 70], Metric::L2, 3),
        ] {
            let codes = Codes::encode(&rows, codec);
            let (view, mut prepared) = (codes.view(), PreparedQuery::default());
            view.codec().prepare(rows.row(0), &mut prepared);
            assert!(view.score(&prepared, 1).abs() < 1e-30);
            view.prepare(2, &mut prepared);
            let (mut products, mut estimates) = (Vec::new(), Vec::new());
            view.estimate(&prepared, &[0, 3], 0.2, &mut products, &mut estimates);
            assert!(estimates.iter().all(|score| score.abs() < 1e-30), "{estimates:?}");
        }
    }
}
