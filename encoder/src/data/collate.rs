//! A batch as the trainer takes it: tokens, mask, teacher's scores.

use std::collections::HashMap;

use super::pairs::TokenizedPairs;
use super::sampler::{Cursor, Draw, Sampler};
use crate::tokenize::Tokens;

/// `b` questions against `n` answers: the positive of each question in its order, then all hard negatives.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainBatch {
    /// `b` questions.
    pub questions: Vec<Tokens>,
    /// `n` answers; answer `i < b` is the positive of question `i`.
    pub answers: Vec<Tokens>,
    /// The window of its document that each answer stands in, with the answer's tokens as the one span; none where
    /// answers are read by themselves.
    pub contexts: Vec<Tokens>,
    /// The question that answer `b + j` was sampled for as a negative.
    pub owners: Vec<usize>,
    /// `[b, n]` row-major: answers that must not count as negatives of a question, because they are known to answer it,
    /// or because an equal answer stands further left. Never a question's own positive.
    pub excluded: Vec<bool>,
    /// `[b, n]` row-major: the teacher's score of a question's own positive and negatives, not a number elsewhere and
    /// where there is none. `None` where the teacher has scored nothing in this batch.
    pub teacher: Option<Vec<f32>>,
    /// The number of each question's example, for reports.
    pub examples: Vec<u32>,
    /// The position of this batch.
    pub cursor: Cursor,
    /// The place of the next: which a checkpoint after this batch stores.
    pub next: Cursor,
}

impl TrainBatch {
    /// Whether the mask excludes anything.
    pub fn excludes(&self) -> bool {
        self.excluded.contains(&true)
    }
}

/// Draws the next batch of a sampler.
pub fn collate(sampler: &mut Sampler) -> TrainBatch {
    let cursor = sampler.cursor();
    let draws = sampler.draw();
    let (next, pairs) = (sampler.cursor(), sampler.pairs());
    let owned = draws
        .iter()
        .enumerate()
        .flat_map(|(owner, draw)| draw.negatives.iter().map(move |&place| (owner, place)));
    let (owners, negatives): (Vec<usize>, Vec<u32>) = owned.unzip();
    let members: Vec<u32> = draws.iter().map(|draw| draw.positive).chain(negatives).collect();
    TrainBatch {
        questions: draws
            .iter()
            .map(|draw| pairs.question_tokens(pairs.question(draw.example)))
            .collect(),
        answers: members
            .iter()
            .map(|&member| pairs.answer_tokens(pairs.answer(member)))
            .collect(),
        contexts: members
            .iter()
            .filter_map(|&member| pairs.context_tokens(pairs.answer(member)))
            .collect(),
        excluded: exclusion_mask(pairs, &draws, &members),
        teacher: teacher_scores(pairs, &members, &owners, draws.len()),
        owners,
        examples: draws.iter().map(|draw| draw.example).collect(),
        cursor,
        next,
    }
}

fn exclusion_mask(pairs: &TokenizedPairs, draws: &[Draw], members: &[u32]) -> Vec<bool> {
    let (rows, columns) = (draws.len(), members.len());
    let mut of_class: HashMap<u32, Vec<usize>> = HashMap::with_capacity(columns);
    let mut mask = vec![false; rows * columns];
    let mut exclude = |row: usize, column: usize| {
        if row != column
            && let Some(cell) = mask.get_mut(row * columns + column)
        {
            *cell = true;
        }
    };
    for (column, &member) in members.iter().enumerate() {
        let alike = of_class.entry(pairs.class(pairs.answer(member))).or_default();
        if !alike.is_empty() {
            (0..rows).for_each(|row| exclude(row, column));
        }
        alike.push(column);
    }
    for (row, draw) in draws.iter().enumerate() {
        for class in pairs.known(pairs.question(draw.example)) {
            of_class
                .get(class)
                .into_iter()
                .flatten()
                .for_each(|&column| exclude(row, column));
        }
    }
    mask
}

fn teacher_scores(pairs: &TokenizedPairs, members: &[u32], owners: &[usize], rows: usize) -> Option<Vec<f32>> {
    if !pairs.has_scores() {
        return None;
    }
    let columns = members.len();
    let mut scores = vec![f32::NAN; rows * columns];
    let mut any = false;
    for (column, (&member, row)) in members.iter().zip((0..rows).chain(owners.iter().copied())).enumerate() {
        if let (Some(score), Some(cell)) = (pairs.score(member), scores.get_mut(row * columns + column)) {
            *cell = score;
            any = true;
        }
    }
    any.then_some(scores)
}
