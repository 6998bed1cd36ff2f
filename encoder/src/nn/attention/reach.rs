//! Blocks of queries with the keys that they reach, so that no text's scores are held as a whole.

use tch::{Device, Kind, TchError, Tensor};

use crate::config::AttentionReach;

/// Queries of a block at least, unless a text has fewer.
const FEWEST_QUERIES: i64 = 16;

/// Neighbouring queries of a text, and the keys that one of them attends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AttentionBlock {
    pub(super) first_query: i64,
    pub(super) queries: i64,
    pub(super) first_key: i64,
    pub(super) keys: i64,
}

impl AttentionBlock {
    /// All queries and keys of a text.
    pub(super) fn whole(tokens: i64) -> Self {
        Self {
            first_query: 0,
            queries: tokens,
            first_key: 0,
            keys: tokens,
        }
    }

    /// Some queries of a text of this many tokens.
    fn of(reach: AttentionReach, tokens: i64, first_query: i64, queries: i64) -> Self {
        let [before, after] = limits(reach, tokens);
        let first_key = (first_query - before).max(0);
        let end = (first_query + queries + after).min(tokens);
        Self {
            first_query,
            queries,
            first_key,
            keys: end - first_key,
        }
    }

    /// Scores of a head.
    pub(super) fn scores(&self) -> i64 {
        self.queries * self.keys
    }

    /// What is added to the scores of the block: `bias` of all keys, or of all queries and keys, and minus infinity
    /// where a key is out of reach.
    pub(super) fn bias(
        &self,
        reach: AttentionReach,
        bias: Option<&Tensor>,
        device: Device,
    ) -> Result<Option<Tensor>, TchError> {
        let bias = bias
            .map(|bias| bias.f_narrow(-1, self.first_key, self.keys))
            .transpose()?;
        let mask = self.mask(reach, device)?;
        match (bias, mask) {
            (Some(bias), Some(mask)) => bias.f_add(&mask).map(Some),
            (bias, mask) => Ok(bias.or(mask)),
        }
    }

    /// `[queries, keys]`: 0, and minus infinity where a key is out of reach; nothing where none is.
    fn mask(&self, reach: AttentionReach, device: Device) -> Result<Option<Tensor>, TchError> {
        let [before, after] = limits(reach, i64::MAX);
        let (last_query, last_key) = (self.first_query + self.queries - 1, self.first_key + self.keys - 1);
        if last_query - self.first_key <= before && last_key - self.first_query <= after {
            return Ok(None);
        }
        let whole = (Kind::Int64, device);
        let queries = Tensor::f_arange_start(self.first_query, last_query + 1, whole)?.f_unsqueeze(1)?;
        let keys = Tensor::f_arange_start(self.first_key, last_key + 1, whole)?.f_unsqueeze(0)?;
        let distance = keys.f_sub(&queries)?;
        let out = distance.f_gt(after)?.f_logical_or(&distance.f_lt(-before)?)?;
        let zeros = Tensor::f_zeros([self.queries, self.keys], (Kind::Float, device))?;
        zeros.f_masked_fill(&out, f64::NEG_INFINITY).map(Some)
    }
}

/// Keys before and after a query, at most `most`.
fn limits(reach: AttentionReach, most: i64) -> [i64; 2] {
    [reach.before, reach.after].map(|keys| i64::try_from(keys).map_or(most, |keys| keys.min(most)))
}

/// A text of this many tokens in blocks of at most `scores` scores of a head, unless the fewest queries have more.
pub(super) fn blocks(reach: AttentionReach, tokens: i64, scores: i64) -> Vec<AttentionBlock> {
    let mut queries = tokens.max(1);
    let largest = |queries: i64| {
        let [before, after] = limits(reach, tokens);
        queries * (before + queries + after).min(tokens)
    };
    while queries > FEWEST_QUERIES && largest(queries) > scores {
        queries = (queries + 1) / 2;
    }
    let firsts = (0..tokens).step_by(queries as usize);
    firsts
        .map(|first| AttentionBlock::of(reach, tokens, first, queries.min(tokens - first)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys that a query attends to, one by one.
    fn slow(reach: AttentionReach, tokens: i64, query: i64) -> Vec<i64> {
        let reached = |key: &i64| {
            let (before, after) = ((query - key).max(0) as usize, (key - query).max(0) as usize);
            before <= reach.before && after <= reach.after
        };
        (0..tokens).filter(reached).collect()
    }

    #[test]
    fn blocks_hold_each_query_once_with_the_keys_that_it_reaches() {
        let reaches = [
            AttentionReach::ALL,
            AttentionReach::causal(usize::MAX),
            AttentionReach::causal(3),
            AttentionReach::around(5),
            AttentionReach::around(0),
        ];
        for reach in reaches {
            for tokens in [1, 15, 16, 17, 100, 257] {
                for scores in [1, 600, 1 << 20] {
                    let mut next = 0;
                    for block in blocks(reach, tokens, scores) {
                        assert!(block.queries <= FEWEST_QUERIES || block.scores() <= scores, "{block:?}");
                        let mask = block.mask(reach, Device::Cpu).unwrap();
                        for query in block.first_query..block.first_query + block.queries {
                            assert_eq!(query, next);
                            next += 1;
                            let is_reached = |key: &i64| {
                                let at = [query - block.first_query, key - block.first_key];
                                mask.as_ref().is_none_or(|mask| mask.double_value(&at) == 0.0)
                            };
                            let keys = block.first_key..block.first_key + block.keys;
                            let reached: Vec<i64> = keys.filter(is_reached).collect();
                            assert_eq!(reached, slow(reach, tokens, query), "{reach:?} {tokens} {query}");
                        }
                    }
                    assert_eq!(next, tokens);
                }
            }
        }
    }
}
