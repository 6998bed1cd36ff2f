//! What is left to tell a question's answer from: answers of a batch that are equal, or known to answer the question
//! too, are masked, and where all are, the loss is 0 whatever the model does.

use crate::data::TrainBatch;

/// Batches after which a stage is judged; where an epoch, or the stage, has fewer, these.
const JUDGED_AFTER: u64 = 20;
/// The share of masked negatives that a user should know.
const NOTABLE: f64 = 0.1;

/// Negatives of a stage's batches so far.
#[derive(Debug, Default)]
pub(super) struct NegativesLeft {
    /// Pairs of a question and the answer of another one, or a negative.
    pairs: u64,
    masked: u64,
    batches: u64,
    /// Batches in which every pair is masked.
    empty: u64,
    is_judged: bool,
}

/// What the first batches of a stage show.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// No question of any batch has a negative.
    Nothing,
    /// The share of negatives that are masked.
    Masked(f64),
}

impl NegativesLeft {
    /// Adds the batches of a step; the share of their negatives that are masked.
    pub(super) fn add(&mut self, batches: &[TrainBatch]) -> f64 {
        let (mut pairs, mut masked) = (0, 0);
        for batch in batches {
            let all = batch.excluded.len().saturating_sub(batch.questions.len()) as u64;
            // A question's own positive never is.
            let of_batch = batch.excluded.iter().filter(|excluded| **excluded).count() as u64;
            self.empty += u64::from(of_batch == all);
            self.batches += 1;
            pairs += all;
            masked += of_batch;
        }
        self.pairs += pairs;
        self.masked += masked;
        masked as f64 / pairs.max(1) as f64
    }

    /// Batches so far.
    pub(super) fn batches(&self) -> u64 {
        self.batches
    }

    /// Once enough batches were seen, and once alone: what is wrong with them.
    pub(super) fn judge(&mut self, batches_in_all: u64) -> Option<Verdict> {
        if self.is_judged || self.batches < JUDGED_AFTER.min(batches_in_all.max(1)) {
            return None;
        }
        self.is_judged = true;
        if self.empty == self.batches {
            return Some(Verdict::Nothing);
        }
        let share = self.masked as f64 / self.pairs.max(1) as f64;
        (share >= NOTABLE).then_some(Verdict::Masked(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Cursor;
    use crate::tokenize::Tokens;

    /// Two questions, two answers, and one negative.
    fn batch(masked: &[usize]) -> TrainBatch {
        let mut excluded = vec![false; 6];
        for place in masked {
            excluded[*place] = true;
        }
        TrainBatch {
            questions: vec![Tokens::default(); 2],
            answers: vec![Tokens::default(); 3],
            contexts: Vec::new(),
            owners: vec![0],
            excluded,
            teacher: None,
            examples: vec![0, 1],
            cursor: Cursor::default(),
            next: Cursor::default(),
        }
    }

    #[test]
    fn a_stage_is_judged_once_by_what_is_masked() {
        let all = [1, 2, 3, 5];
        let mut left = NegativesLeft::default();
        assert!((left.add(&[batch(&all)]) - 1.0).abs() < 1e-9);
        assert_eq!((left.judge(1), left.judge(1)), (Some(Verdict::Nothing), None));

        let mut left = NegativesLeft::default();
        left.add(&[batch(&all), batch(&[])]);
        assert_eq!(left.judge(3), None, "an epoch has more");
        left.add(&[batch(&[])]);
        assert_eq!(left.judge(3), Some(Verdict::Masked(4.0 / 12.0)));

        let mut left = NegativesLeft::default();
        left.add(&vec![batch(&[]); 20]);
        assert_eq!(left.judge(1000), None);
    }
}
