//! The result of every search: hits, what they cost, and whether the search was complete.

use std::cmp::Ordering;
use std::ops::AddAssign;

/// A node and its score. *Greater* means better: higher score, then lower node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scored {
    /// The node.
    pub node: u32,
    /// Inner product, minus half a squared distance, or BM25.
    pub score: f32,
}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scored {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scored {}

/// Number of scores that a search has computed, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Estimated from sketches.
    pub estimated: u64,
    /// Computed from int8 rows and from vectors.
    pub scored: u64,
    /// Candidates whose links were followed.
    pub expanded: u64,
    /// Shards of which every allowed vector was compared: by its code, and the best exactly, or all exactly.
    pub scans: u32,
    /// Shards whose documents are so far from the question that their adaptive stop was not meant for it: a beam was
    /// used.
    pub out_of_distribution: u32,
}

impl Cost {
    /// All scores.
    pub fn total(self) -> u64 {
        self.estimated + self.scored
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.estimated += other.estimated;
        self.scored += other.scored;
        self.expanded += other.expanded;
        self.scans += other.scans;
        self.out_of_distribution += other.out_of_distribution;
    }
}

/// Whether a search ran to completion. *Greater* is worse; a search is as incomplete as the worst of its parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Completeness {
    /// It did: nothing is missing.
    #[default]
    Complete,
    /// [`SearchParams::max_expansions`](super::SearchParams::max_expansions) or [`Far`](super::Far) ended the search:
    /// there may be better hits.
    Limited,
    /// Codes, links or vectors of the shard are damaged: hits may be missing.
    Damaged,
    /// It was cancelled: there may be better hits.
    Cancelled,
}

/// Hits, best first, what they cost, and whether the search was complete.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHits<H> {
    /// Best first.
    pub hits: Vec<H>,
    /// Scores computed.
    pub cost: Cost,
    /// Whether the search ran to completion.
    pub completeness: Completeness,
}

impl<H> Default for SearchHits<H> {
    fn default() -> Self {
        Self {
            hits: Vec::new(),
            cost: Cost::default(),
            completeness: Completeness::default(),
        }
    }
}

impl<H> SearchHits<H> {
    /// The empty result of a search that was cancelled before it began.
    pub fn cancelled() -> Self {
        Self {
            completeness: Completeness::Cancelled,
            ..Self::default()
        }
    }

    /// Whether the search was cancelled before it was complete.
    pub fn is_cancelled(&self) -> bool {
        self.completeness == Completeness::Cancelled
    }

    /// Lowers the completeness to `completeness`, unless it is lower already.
    pub fn worsen(&mut self, completeness: Completeness) {
        self.completeness = self.completeness.max(completeness);
    }

    /// Appends the hits of another part of the search, each passed through `convert`. Costs add up, and the worse
    /// completeness wins.
    pub fn append<P>(&mut self, part: SearchHits<P>, convert: impl FnMut(P) -> H) {
        self.hits.extend(part.hits.into_iter().map(convert));
        self.cost += part.cost;
        self.worsen(part.completeness);
    }

    /// Keeps the best `k`: score descending, then key ascending. Keys are looked up only where scores tie.
    pub fn keep_top_k<'k>(&mut self, k: usize, score: impl Fn(&H) -> f32, key: impl Fn(&H) -> &'k str) {
        self.hits.sort_unstable_by(|a, b| score(b).total_cmp(&score(a)));
        let mut placed = 0;
        for tied in self.hits.chunk_by_mut(|a, b| score(a).total_cmp(&score(b)).is_eq()) {
            if placed >= k {
                break;
            }
            placed += tied.len();
            tied.sort_by_cached_key(&key);
        }
        self.hits.truncate(k);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_top_k_are_those_of_a_full_sort_by_score_and_key(
            scores in prop::collection::vec(-2i8..3, 0..60), k in 0usize..70, seed: u32,
        ) {
            // Keys in another order than nodes.
            let key = |node: u32| format!("{:010}", node.wrapping_mul(0x9e37_79b9) ^ seed);
            let keys: Vec<String> = (0..scores.len() as u32).map(key).collect();
            let scores = scores.iter().map(|score| f32::from(*score));
            let hits: Vec<Scored> = (0..).zip(scores).map(|(node, score)| Scored { node, score }).collect();
            let mut sorted = hits.clone();
            sorted.sort_by(|a, b| b.score.total_cmp(&a.score).then(keys[a.node as usize].cmp(&keys[b.node as usize])));
            sorted.truncate(k);
            let mut kept = SearchHits { hits, ..SearchHits::default() };
            kept.keep_top_k(k, |hit| hit.score, |hit| keys[hit.node as usize].as_str());
            prop_assert_eq!(kept.hits, sorted);
        }
    }

    #[test]
    fn keys_are_looked_up_only_for_ties_within_the_top_k() {
        let looked = Cell::new(0);
        let lookups = |scores: &[f32], k| {
            looked.set(0);
            let hits = (0..)
                .zip(scores)
                .map(|(node, score)| Scored { node, score: *score })
                .collect();
            let mut kept = SearchHits {
                hits,
                ..SearchHits::default()
            };
            kept.keep_top_k(
                k,
                |hit| hit.score,
                |_| {
                    looked.set(looked.get() + 1);
                    ""
                },
            );
            looked.get()
        };
        assert_eq!(lookups(&[0.1, 0.3, 0.2], 2), 0);
        assert_eq!(lookups(&[0.1, 0.3, 0.2, 0.3, 0.1], 2), 2);
        assert_eq!(lookups(&[0.1, 0.3, 0.2, 0.3, 0.1], 4), 4);
    }

    #[test]
    fn the_worst_part_is_the_completeness_of_the_whole() {
        use Completeness::{Cancelled, Complete, Damaged, Limited};
        let worst = |parts: &[Completeness]| {
            let mut whole = SearchHits::<Scored>::default();
            for completeness in parts {
                let cost = Cost {
                    estimated: 2,
                    scored: 1,
                    scans: 3,
                    expanded: 4,
                    out_of_distribution: 5,
                };
                whole.append(
                    SearchHits {
                        hits: vec![Scored::default()],
                        cost,
                        completeness: *completeness,
                    },
                    |hit| hit,
                );
            }
            let parts = parts.len() as u64;
            assert_eq!((whole.hits.len() as u64, whole.cost.total()), (parts, 3 * parts));
            assert_eq!(u64::from(whole.cost.scans), 3 * parts);
            whole.completeness
        };
        assert_eq!(worst(&[]), Complete);
        assert_eq!(worst(&[Complete, Limited, Complete]), Limited);
        assert_eq!(worst(&[Damaged, Limited]), Damaged);
        assert_eq!(worst(&[Complete, Cancelled, Damaged]), Cancelled);
    }
}
