//! The scores of a teacher in a batch, as distillation compares them.

use crate::data::TrainBatch;

/// The candidates that the teacher has scored, the positive first.
#[derive(Debug, PartialEq)]
pub(super) struct TeacherCandidates {
    /// Questions.
    pub(super) rows: Vec<i64>,
    /// Candidates of a question at most.
    pub(super) width: usize,
    /// Answers, `[rows, width]`; 0 where one is missing.
    pub(super) columns: Vec<i64>,
    pub(super) teacher: Vec<f32>,
    pub(super) missing: Vec<bool>,
}

impl TeacherCandidates {
    pub(super) fn from_batch(batch: &TrainBatch) -> Option<Self> {
        let (scores, b, n) = (batch.teacher.as_ref()?, batch.questions.len(), batch.answers.len());
        let score = |row: usize, column: usize| scores.get(row * n + column).copied().filter(|score| !score.is_nan());
        let mut of_question: Vec<Vec<(usize, f32)>> = vec![Vec::new(); b];
        let owned = (0..b).chain(batch.owners.iter().copied()).enumerate();
        for (column, row) in owned {
            let scored = of_question.get_mut(row).zip(score(row, column));
            // Without a score of the positive no margin is known.
            if let Some((candidates, score)) = scored
                && (column < b || !candidates.is_empty())
            {
                candidates.push((column, score));
            }
        }
        let width = of_question.iter().map(Vec::len).max().filter(|&width| width > 1)?;
        let (mut rows, mut columns, mut teacher, mut missing) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (row, candidates) in of_question
            .iter()
            .enumerate()
            .filter(|(_, candidates)| candidates.len() > 1)
        {
            rows.push(row as i64);
            for place in 0..width {
                let candidate = candidates.get(place);
                columns.push(candidate.map_or(0, |(column, _)| *column as i64));
                teacher.push(candidate.map_or(0.0, |(_, score)| *score));
                missing.push(candidate.is_none());
            }
        }
        Some(Self {
            rows,
            width,
            columns,
            teacher,
            missing,
        })
    }
}
