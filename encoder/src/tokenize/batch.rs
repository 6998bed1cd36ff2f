//! Length-sorted batches under a token budget.
//!
//! Tokens are packed, on the CPU without padding; attention still works on rows of one length at a time, so texts of
//! like length belong together. The budget counts rows times the longest: what a batch has at most.

use std::ops::Range;

use super::tokenizer::Tokens;
use crate::device::{Device, Dtype};

/// Tokens from which a batch is not made smaller for the sake of other workers.
const SMALLEST_SHARE: usize = 256;

/// How large a batch may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Rows times the longest row; of short texts that a service gathers, tokens. One text always fits, however long.
    pub tokens: usize,
    /// Rows.
    pub rows: usize,
}

impl Budget {
    /// On one core, budgets from 256 to 4096 tokens cost the same user time within 6 % (all-MiniLM-L6-v2, SciFact;
    /// `embed --threads 1 --batch-tokens N`): small enough, then, that a question after bulk work waits a fraction of a
    /// second.
    pub const CPU: Self = Self {
        tokens: 2048,
        rows: 256,
    };
    /// int8 reads and writes more for each product, and is a tenth faster while that stays in the cache.
    pub const CPU_INT8: Self = Self {
        tokens: 1024,
        rows: 256,
    };
    /// Large enough to fill a GPU.
    pub const GPU: Self = Self {
        tokens: 65_536,
        rows: 4096,
    };

    /// The default for a device and a number type.
    pub fn of(device: Device, dtype: Dtype) -> Self {
        match (device, dtype) {
            (Device::Cpu, Dtype::Int8) => Self::CPU_INT8,
            (Device::Cpu, _) => Self::CPU,
            (Device::Cuda(_), _) => Self::GPU,
        }
    }

    /// The budget of the next batch where `left` tokens are left for this number of workers.
    fn share(self, left: usize, workers: usize) -> Self {
        if workers <= 1 {
            return self;
        }
        Self {
            tokens: self.tokens.min((left / (2 * workers)).max(SMALLEST_SHARE)),
            rows: self.rows,
        }
    }

    /// Whether a batch of `rows` rows, the longest of `longest` tokens, fits.
    pub(crate) fn fits(&self, rows: usize, longest: usize) -> bool {
        rows <= 1 || (rows <= self.rows && rows.saturating_mul(longest) <= self.tokens)
    }

    /// The same where texts are short and of any lengths, so that none is padded to the longest: by the sum of their
    /// tokens.
    pub(crate) fn fits_short(&self, rows: usize, tokens: usize) -> bool {
        rows <= 1 || (rows <= self.rows && tokens <= self.tokens)
    }
}

/// Token ids of some texts, one text after another and longest first, ready for the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBatch {
    ids: Vec<i64>,
    lengths: Vec<i64>,
    /// Where the tokens of the second text begin, in each row of a pair.
    seconds: Vec<Option<usize>>,
    /// The text that stands at each place.
    order: Vec<usize>,
    /// In each row, the tokens that get a vector of their own; nothing where each row has one vector.
    spans: Vec<Vec<Range<usize>>>,
    prompt_tokens: usize,
}

impl TokenBatch {
    /// Sorts `rows` by length; `prompt_tokens` of each belong to the prompt. Rows without a token are left out of
    /// `ids`.
    pub(crate) fn new(rows: &[&Tokens], prompt_tokens: usize) -> Self {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let length = |row: usize| rows.get(row).map_or(0, |row| row.ids.len());
        order.sort_by_key(|&row| std::cmp::Reverse(length(row)));
        let has_spans = rows.iter().any(|row| !row.spans.is_empty());
        let sorted = || order.iter().filter_map(|&row| rows.get(row));
        Self {
            ids: sorted()
                .flat_map(|row| row.ids.iter().map(|&id| i64::from(id)))
                .collect(),
            lengths: sorted().map(|row| row.ids.len() as i64).collect(),
            seconds: sorted().map(|row| row.second).collect(),
            spans: if has_spans {
                sorted().map(|row| row.spans.clone()).collect()
            } else {
                Vec::new()
            },
            order,
            prompt_tokens,
        }
    }

    /// Texts.
    pub fn rows(&self) -> usize {
        self.lengths.len()
    }

    /// Vectors that are made of them.
    pub(crate) fn vectors(&self) -> usize {
        if self.spans.is_empty() {
            self.rows()
        } else {
            self.spans.iter().map(Vec::len).sum()
        }
    }

    /// In each row, the tokens that get a vector of their own; nothing where each row has one vector.
    pub(crate) fn spans(&self) -> &[Vec<Range<usize>>] {
        &self.spans
    }

    pub(crate) fn ids(&self) -> &[i64] {
        &self.ids
    }

    /// Tokens of each text, most first.
    pub(crate) fn lengths(&self) -> &[i64] {
        &self.lengths
    }

    /// The type of each token, as [`Self::ids`]: 1 in the second text of a pair; `None` where all are 0.
    pub(crate) fn types(&self) -> Option<Vec<i64>> {
        self.seconds.iter().any(Option::is_some).then(|| {
            let row = |(&length, second): (&i64, &Option<usize>)| {
                let second = second.map_or(length, |second| second as i64);
                (0..length).map(move |place| i64::from(place >= second))
            };
            self.lengths.iter().zip(&self.seconds).flat_map(row).collect()
        })
    }

    pub(crate) fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// The place of each vector among those of the batch, in the order of the texts.
    pub(crate) fn vector_places(&self) -> Vec<i64> {
        if self.spans.is_empty() {
            return self.places();
        }
        // Where the vectors of each row begin.
        let mut next = 0_i64;
        let begins: Vec<(i64, i64)> = self
            .spans
            .iter()
            .map(|spans| {
                let begin = next;
                next += spans.len() as i64;
                (begin, next)
            })
            .collect();
        let of_text = |place: i64| begins.get(place as usize).map_or(0..0, |(begin, end)| *begin..*end);
        self.places().into_iter().flat_map(of_text).collect()
    }

    /// The place of each text in the batch.
    pub(crate) fn places(&self) -> Vec<i64> {
        let mut places = vec![0; self.order.len()];
        for (place, &text) in (0i64..).zip(&self.order) {
            if let Some(slot) = places.get_mut(text) {
                *slot = place;
            }
        }
        places
    }
}

/// Cuts texts of these lengths into batches of positions: longest first, so that a device too small fails at once.
///
/// Where several `workers` take batches in parallel, each batch has a share of what is left at most (guided
/// self-scheduling, Polychronopoulos and Kuck 1987): the last ones are small, and no worker waits long for another.
pub(crate) fn plan(lengths: &[usize], budget: Budget, workers: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    let length = |position: usize| lengths.get(position).copied().unwrap_or(0);
    order.sort_by_key(|&position| (std::cmp::Reverse(length(position)), position));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut left: usize = lengths.iter().sum();
    let mut budget_of_batch = budget;
    for position in order {
        match batches.last_mut() {
            Some(batch)
                if batch
                    .first()
                    .is_some_and(|&longest| budget_of_batch.fits(batch.len() + 1, length(longest))) =>
            {
                batch.push(position);
            }
            _ => {
                budget_of_batch = budget.share(left, workers);
                batches.push(vec![position]);
            }
        }
        left -= length(position);
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(ids: &[u32]) -> Tokens {
        Tokens {
            ids: ids.to_vec(),
            ..Tokens::default()
        }
    }

    #[test]
    fn rows_are_packed_longest_first_and_know_their_places() {
        let batch = TokenBatch::new(&[&tokens(&[4]), &tokens(&[1, 2, 3]), &tokens(&[5])], 0);
        assert_eq!(
            (batch.rows(), batch.ids(), batch.lengths()),
            (3, &[1, 2, 3, 4, 5][..], &[3, 1, 1][..])
        );
        assert_eq!(batch.places(), [1, 0, 2]);
    }

    #[test]
    fn the_second_texts_of_pairs_have_a_type_of_their_own() {
        let pair = |ids: &[u32], second| Tokens { second, ..tokens(ids) };
        let batch = TokenBatch::new(
            &[
                &pair(&[1, 2], None),
                &pair(&[1, 2, 3, 4], Some(3)),
                &pair(&[1], Some(0)),
            ],
            0,
        );
        assert_eq!(batch.types(), Some(vec![0, 0, 0, 1, 0, 0, 1]));
        assert_eq!(TokenBatch::new(&[&pair(&[1, 2], None)], 0).types(), None);
    }

    #[test]
    fn like_lengths_go_together() {
        let budget = Budget { tokens: 20, rows: 3 };
        assert_eq!(
            plan(&[10, 2, 10, 2, 2, 2], budget, 1),
            [vec![0, 2], vec![1, 3, 4], vec![5]]
        );
        assert_eq!(plan(&[100, 1], budget, 1), [vec![0], vec![1]], "one text always fits");
        assert!(plan(&[], budget, 2).is_empty());
    }

    #[test]
    fn the_last_batches_of_several_workers_are_small() {
        let budget = Budget {
            tokens: 2048,
            rows: 256,
        };
        let sizes = |workers| -> Vec<usize> { plan(&[128; 96], budget, workers).iter().map(Vec::len).collect() };
        assert_eq!(sizes(1), [16; 6]);
        assert_eq!(sizes(2), [16, 16, 16, 12, 9, 6, 5, 4, 3, 2, 2, 2, 2, 1]);
    }

    proptest! {
        #[test]
        fn every_text_is_in_one_batch_within_the_budget(
            lengths in proptest::collection::vec(1usize..300, 0..200), tokens in 1usize..2000, rows in 1usize..40,
            workers in 1usize..4
        ) {
            let budget = Budget { tokens, rows };
            let batches = plan(&lengths, budget, workers);
            let mut seen: Vec<usize> = batches.iter().flatten().copied().collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..lengths.len()).collect::<Vec<_>>());
            for batch in &batches {
                let longest = batch.iter().map(|&position| lengths[position]).max().unwrap();
                prop_assert!(batch.len() == 1 || (batch.len() <= rows && batch.len() * longest <= tokens));
            }
            // The greedy cut leaves no two neighbours that would fit into one batch.
            for pair in batches.windows(2).filter(|_| workers == 1) {
                prop_assert!(!budget.fits(pair[0].len() + 1, lengths[pair[0][0]]));
            }
        }
    }
}
