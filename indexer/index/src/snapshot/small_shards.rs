//! Shards that are small next to the largest one of their generation: they are searched after the others, and no
//! further than those make worth while. What is decided here is decided by the whole generation, wherever its shards
//! are open.

use super::shard::{DenseParams, SearchMode};
use crate::certificate::Certificate;
use crate::error::{Error, Result};
use crate::search::MinCompetitive;

/// A shard is small next to one of this many times as many documents.
const SMALL: usize = 4;
/// Small shards are searched as far below the k-th hit of the others as the largest shard's hits fall from rank `k` to
/// rank `16 k`, or to `2 ef` where that is more. Of 45,000 and 5,000 MiniLM sentences at k 10 and ef 64, recall@10 is
/// .987 with the fall to rank 64, .991 with 1.25 times that fall, .993 with 1.5 times (about rank 160), and .9945 in
/// one shard of all. `dyad-bench churn --workload benches/workloads/minilm-100k.toml --engines dyad-index --cycles 2`
const SMALL_RANKS: (usize, usize) = (16, 2);

/// The small shards of a generation, for searches with the parameters that they were found by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SmallShards {
    /// A shard with at most that many documents that are not deleted is small.
    pub most_documents: usize,
    /// It is searched no further below the k-th hit of the others than by this difference of scores, above 0; where
    /// scores are inner products, it is that of a question of length 1.
    pub margin: f32,
}

impl SmallShards {
    /// Those of a generation: `documents` are the numbers of documents that are not deleted of *all* its shards, in the
    /// manifest's order, and `certificate` returns [`Shard::certificate`](super::Shard::certificate) of the shard at a
    /// position, of which [`Certificate::calibration`] is read alone. None where no shard is small, where nothing was
    /// measured of the largest one, and where each shard is to be searched as its certificate was measured: in all
    /// modes but [`SearchMode::Adaptive`].
    pub fn new<'c>(
        params: &DenseParams,
        documents: impl Iterator<Item = usize> + Clone,
        certificate: impl FnOnce(usize) -> Option<&'c Certificate>,
    ) -> Option<Self> {
        let SearchMode::Adaptive { ef } = params.mode else {
            return None;
        };
        let (largest, most) = documents.clone().enumerate().max_by_key(|(_, documents)| *documents)?;
        let most_documents = most / SMALL;
        let (by_k, by_ef) = SMALL_RANKS;
        let rank = params.k.saturating_mul(by_k).max(ef.saturating_mul(by_ef));
        let small = Self {
            most_documents,
            margin: certificate(largest)?.margin(params.k, rank)?,
        };
        let has_small = documents.min().is_some_and(|fewest| fewest <= most_documents);
        (has_small && small.margin > 0.0).then_some(small)
    }
}

/// The shards that one round of a dense search is of.
///
/// Where a generation has [`SmallShards`], a search without a filter has two rounds: that of the large shards, and,
/// once all of these have been searched, that of the small ones. Otherwise it has one, of all shards. Whoever has parts
/// of a generation open in several places and merges their hits gets what one place with all shards gets, if it has the
/// same rounds.
#[derive(Debug, Clone, Copy)]
pub enum ShardRound<'a> {
    /// All that are open.
    All,
    /// Those that are not small.
    Large(SmallShards),
    /// Those that are.
    Small {
        /// As in the first round.
        small: SmallShards,
        /// [`kth_score`] of each question over the large shards of the whole generation.
        kth_scores: &'a [f32],
    },
}

impl<'a> ShardRound<'a> {
    /// Whether a shard of that many documents, without deleted ones, is searched in this round.
    pub(super) fn has(self, documents: usize) -> bool {
        match self {
            Self::All => true,
            Self::Large(small) => documents > small.most_documents,
            Self::Small { small, .. } => documents <= small.most_documents,
        }
    }

    /// What other shards have found for so many questions; an error where it is no outcome of a search.
    pub(super) fn min_competitive(self, questions: usize) -> Result<Option<MinCompetitive<'a>>> {
        let Self::Small { small, kth_scores } = self else {
            return Ok(None);
        };
        if kth_scores.len() != questions || kth_scores.iter().any(|score| score.is_nan()) {
            return Err(Error::Mismatch {
                what: "scores of the k-th hits of large shards",
                expected: format!("{questions} numbers, one for each question"),
                got: format!("{kth_scores:?}"),
            });
        }
        if !(small.margin > 0.0 && small.margin.is_finite()) {
            return Err(Error::Mismatch {
                what: "margin of small shards",
                expected: "a finite number above 0".to_owned(),
                got: small.margin.to_string(),
            });
        }
        Ok(Some(MinCompetitive {
            scores: kth_scores,
            margin: small.margin,
            own_margin: None,
        }))
    }
}

/// The score of a question's k-th hit among these `scores` of its hits, in any order, as [`ShardRound::Small`] needs it
/// of all large shards together; those below the k best of a part may be left out. Negative infinity where there are
/// fewer than `k`, and where the question was out of distribution in any of these shards (its
/// [`Cost::out_of_distribution`](crate::search::Cost::out_of_distribution) is not 0): margins say nothing of it then.
pub fn kth_score(scores: impl IntoIterator<Item = f32>, k: usize, any_out_of_distribution: bool) -> f32 {
    if any_out_of_distribution {
        return f32::NEG_INFINITY;
    }
    let mut scores: Vec<f32> = scores.into_iter().collect();
    scores.sort_unstable_by(|a, b| b.total_cmp(a));
    k.checked_sub(1)
        .and_then(|last| scores.get(last).copied())
        .unwrap_or(f32::NEG_INFINITY)
}
