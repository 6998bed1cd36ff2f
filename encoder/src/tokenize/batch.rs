//! Length-sorted batches under a token budget.
//!
//! Rows of one batch are padded to its longest row, so texts of like length belong together: sorting by length keeps the
//! padding at a few per cent. The budget counts padded tokens, which is what memory and time go by.

use super::tokenizer::Tokens;
use crate::device::Device;

/// How large a batch may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Rows times the longest row. One text always fits, however long.
    pub tokens: usize,
    /// Rows.
    pub rows: usize,
}

impl Budget {
    /// On one core, budgets from 256 to 4096 tokens cost the same user time within 6 % (all-MiniLM-L6-v2, SciFact; `embed
    /// --threads 1 --batch-tokens N`): small enough, then, that a question behind bulk work waits a fraction of a second.
    pub const CPU: Self = Self { tokens: 2048, rows: 256 };
    /// Large enough to fill a GPU.
    pub const GPU: Self = Self { tokens: 65_536, rows: 1024 };

    /// The default for a device.
    pub fn of(device: Device) -> Self {
        match device {
            Device::Cpu => Self::CPU,
            Device::Cuda(_) => Self::GPU,
        }
    }

    /// Whether a batch of `rows` rows, the longest of `longest` tokens, fits.
    pub(crate) fn fits(&self, rows: usize, longest: usize) -> bool {
        rows <= 1 || (rows <= self.rows && rows.saturating_mul(longest) <= self.tokens)
    }
}

/// Padded token ids of some texts, ready for the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    ids: Vec<i64>,
    lengths: Vec<i64>,
    width: usize,
    prompt_tokens: usize,
}

impl Batch {
    /// Pads `rows` to their longest; `prompt_tokens` of each belong to the prompt.
    pub(crate) fn new(rows: &[&Tokens], padding: u32, prompt_tokens: usize) -> Self {
        let width = rows.iter().map(|row| row.ids.len()).max().unwrap_or(0);
        let mut ids = Vec::with_capacity(rows.len() * width);
        for row in rows {
            ids.extend(row.ids.iter().map(|&id| i64::from(id)));
            ids.resize(ids.len() + width - row.ids.len(), i64::from(padding));
        }
        let lengths = rows.iter().map(|row| row.ids.len() as i64).collect();
        Self { ids, lengths, width, prompt_tokens }
    }

    /// Texts.
    pub fn rows(&self) -> usize {
        self.lengths.len()
    }

    /// Tokens of the longest text.
    pub fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn ids(&self) -> &[i64] {
        &self.ids
    }

    pub(crate) fn lengths(&self) -> &[i64] {
        &self.lengths
    }

    pub(crate) fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// Whether no row is padded.
    pub(crate) fn is_full(&self) -> bool {
        self.lengths.iter().all(|&length| length == self.width as i64)
    }
}

/// Cuts texts of these lengths into batches of positions: longest first, so that a device too small fails at once.
pub(crate) fn plan(lengths: &[usize], budget: Budget) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    let length = |position: usize| lengths.get(position).copied().unwrap_or(0);
    order.sort_by_key(|&position| (std::cmp::Reverse(length(position)), position));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for position in order {
        match batches.last_mut() {
            Some(batch) if batch.first().is_some_and(|&longest| budget.fits(batch.len() + 1, length(longest))) => {
                batch.push(position);
            }
            _ => batches.push(vec![position]),
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(ids: &[u32]) -> Tokens {
        Tokens { ids: ids.to_vec(), truncated: false }
    }

    #[test]
    fn rows_are_padded_to_the_longest() {
        let batch = Batch::new(&[&tokens(&[1, 2, 3]), &tokens(&[4])], 9, 0);
        assert_eq!((batch.rows(), batch.width()), (2, 3));
        assert_eq!(batch.ids(), [1, 2, 3, 4, 9, 9]);
        assert_eq!(batch.lengths(), [3, 1]);
        assert!(!batch.is_full());
        assert!(Batch::new(&[&tokens(&[1]), &tokens(&[2])], 0, 0).is_full());
    }

    #[test]
    fn like_lengths_go_together() {
        let budget = Budget { tokens: 20, rows: 3 };
        assert_eq!(plan(&[10, 2, 10, 2, 2, 2], budget), [vec![0, 2], vec![1, 3, 4], vec![5]]);
        assert_eq!(plan(&[100, 1], budget), [vec![0], vec![1]], "one text always fits");
        assert!(plan(&[], budget).is_empty());
    }

    proptest! {
        #[test]
        fn every_text_is_in_one_batch_within_the_budget(
            lengths in proptest::collection::vec(1usize..300, 0..200), tokens in 1usize..2000, rows in 1usize..40
        ) {
            let budget = Budget { tokens, rows };
            let batches = plan(&lengths, budget);
            let mut seen: Vec<usize> = batches.iter().flatten().copied().collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..lengths.len()).collect::<Vec<_>>());
            for batch in &batches {
                let longest = batch.iter().map(|&position| lengths[position]).max().unwrap();
                prop_assert!(batch.len() == 1 || (batch.len() <= rows && batch.len() * longest <= tokens));
            }
            // The greedy cut leaves no two neighbours that would fit into one batch.
            for pair in batches.windows(2) {
                prop_assert!(!budget.fits(pair[0].len() + 1, lengths[pair[0][0]]));
            }
        }
    }
}
