//! Exact search against a sort of everything.

use crate::random::Random;
use proptest::prelude::*;
use tch::Device;

use super::*;

#[test]
fn blocks_come_to_what_one_sort_gives() {
    // More answers than one block, and few enough different values that many scores are equal.
    let (dim, answers, questions) = (3, 70_000, 3);
    let mut random = Random::new(5);
    let mut values = |count: usize| {
        (0..count * dim)
            .map(|_| random.below(5) as f32 - 2.0)
            .collect::<Vec<f32>>()
    };
    let (answers, questions) = (values(answers), values(questions));
    check(&questions, &answers, dim, 300);
}

fn check(questions: &[f32], answers: &[f32], dim: usize, k: usize) {
    let found = best_answers(questions, answers, dim, k, Device::Cpu).unwrap();
    assert_eq!(found.len(), questions.len() / dim);
    for (question, found) in questions.chunks_exact(dim).zip(found) {
        let dot = |answer: &[f32]| question.iter().zip(answer).map(|(x, y)| x * y).sum::<f32>() + 0.0;
        let mut all: Vec<(u32, f32)> = (0u32..).zip(answers.chunks_exact(dim).map(dot)).collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        all.truncate(k);
        let found: Vec<(u32, f32)> = found.iter().map(|ranked| (ranked.answer, ranked.score)).collect();
        assert_eq!(found, all);
    }
}

/// As many whole rows of two values as there are.
fn rows_of_two(values: &[i8]) -> Vec<f32> {
    let whole = values.len() / 2 * 2;
    values[..whole].iter().map(|&value| f32::from(value) + 0.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whole numbers, so that sums are exact in any order.
    #[test]
    fn small_searches_come_to_a_sort(
        questions in prop::collection::vec(-3i8..4, 0..12),
        answers in prop::collection::vec(-3i8..4, 0..90),
        k in 0usize..12,
    ) {
        check(&rows_of_two(&questions), &rows_of_two(&answers), 2, k);
    }
}

#[test]
fn vectors_of_another_dimension_are_refused() {
    let refusal = best_answers(&[1.0; 6], &[1.0; 7], 3, 1, Device::Cpu)
        .unwrap_err()
        .to_string();
    assert_eq!(refusal, "vectors of answers: expected 9 values, got 7");
}
