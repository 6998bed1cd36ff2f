//! The parameters of a search, and the rule that stops it.

use super::NodeSet;
use crate::cancel::{Cancel, Never};
use crate::certificate::Certificate;

/// Parameters of the search of one shard.
#[derive(Clone, Copy)]
pub struct SearchParams<'a> {
    /// Hits wanted, at least 1.
    pub k: usize,
    /// Width of the beam; at least `k` is used. With a margin it is the *mean* width over questions.
    pub ef: usize,
    /// A search ends when its best candidate scores less than the k-th hit by more than this. Without one, the beam is
    /// `ef` wide for every question.
    pub margin: Option<f32>,
    /// Expansions after which a search with a margin ends in any case, so that no question takes very long; by `ef` where absent.
    pub expansion_bound: Option<usize>,
    /// Most candidates to expand; a search that this ends is [`Limited`](super::Completeness::Limited).
    pub max_expansions: Option<usize>,
    /// Nodes that may be hits, all of them live; all live ones where absent.
    pub allowed: Option<&'a NodeSet>,
    /// Whether only allowed nodes are candidates: in place of one that is not, its own links are followed. Otherwise all nodes are, and the
    /// beam has to be as much wider as fewer are allowed.
    pub two_hop: bool,
    /// What becomes of a search near whose question few nodes are allowed; nothing special where absent.
    pub far: Option<Far>,
    /// The nodes that are not deleted; all where absent.
    pub live: Option<Live<'a>>,
    /// What other shards have found for the same questions; nothing where absent.
    pub min_competitive: Option<MinCompetitive<'a>>,
    /// Whether the best candidates are scored again from the vectors; without, scores are those of int8 codes.
    pub rescore: bool,
    /// Cancels the search, which then returns what it has found so far.
    pub cancel: &'a dyn Cancel,
}

/// The search for a question near which the filter allows fewer nodes than elsewhere, so that its hits are far away.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Far {
    /// Share of all nodes that are allowed. A question is far from them where the share among the nodes near it is much smaller.
    pub share: f64,
    /// Width of its beam, which is among allowed nodes alone and has neither a margin nor `max_expansions`. Where absent the search is given up, and
    /// [`Limited`](super::Completeness::Limited).
    pub ef: Option<usize>,
}

/// The nodes of a shard that are not deleted.
#[derive(Debug, Clone, Copy)]
pub struct Live<'a> {
    /// At least one.
    pub nodes: &'a NodeSet,
    /// Measured among them.
    pub certificate: &'a Certificate,
}

/// For each question the score from which a hit is among the `k` best of all shards that have been searched ("minimum competitive
/// similarity" in Lucene's search of several segments).
#[derive(Debug, Clone, Copy)]
pub struct MinCompetitive<'a> {
    /// By question; negative infinity where there are fewer than `k` hits so far.
    pub scores: &'a [f32],
    /// Candidates that score less by more than this are taken to lead to no such hit.
    pub margin: f32,
}

impl SearchParams<'_> {
    /// A fixed beam over all nodes, rescored.
    pub fn new(k: usize, ef: usize) -> Self {
        Self {
            k,
            ef,
            margin: None,
            expansion_bound: None,
            max_expansions: None,
            allowed: None,
            two_hop: false,
            far: None,
            live: None,
            min_competitive: None,
            rescore: true,
            cancel: &Never,
        }
    }
}

impl std::fmt::Debug for SearchParams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SearchParams")
            .field("k", &self.k)
            .field("ef", &self.ef)
            .field("margin", &self.margin)
            .field("expansion_bound", &self.expansion_bound)
            .field("max_expansions", &self.max_expansions)
            .field("allowed", &self.allowed.map(NodeSet::len))
            .field("two_hop", &self.two_hop)
            .field("far", &self.far)
            .field("live", &self.live.map(|live| live.nodes.len()))
            .field("min_competitive", &self.min_competitive)
            .field("rescore", &self.rescore)
            .finish_non_exhaustive()
    }
}

/// When a search ends: its best candidate is worse than the `rank`-th best so far by more than `margin`, or it has expanded
/// `max_expansions`.
///
/// The margin makes the beam as wide as the question needs ("distance adaptive beam search": Al-Jazzazi et al. 2025,
/// arXiv:2505.15636), where a fixed width is too wide for easy questions and too narrow for hard ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct StopRule {
    /// Hits wanted.
    pub(super) k: usize,
    pub(super) rank: usize,
    pub(super) margin: f32,
    pub(super) max_expansions: usize,
    /// Whether a search that `max_expansions` ends is [`Limited`](super::Completeness::Limited): the caller set that bound.
    pub(super) limited: bool,
}

impl StopRule {
    /// For a graph of `slots`: no beam is wider than that.
    pub(super) fn new(params: &SearchParams<'_>, slots: usize) -> Self {
        let slots = slots.max(1);
        let k = params.k.clamp(1, slots);
        let ef = params.ef.clamp(k, slots);
        let (rank, margin, max_expansions) = match params.margin {
            // The width follows the question; the bound keeps a hard one from running away.
            Some(margin) => {
                let most = 4 * ef + 16;
                (k, margin.max(0.0), params.expansion_bound.map_or(most, |bound| bound.clamp(k, most)))
            }
            None => (ef, 0.0, usize::MAX),
        };
        let (limited, max_expansions) = match params.max_expansions {
            Some(bound) if bound < max_expansions => (true, bound),
            _ => (false, max_expansions),
        };
        Self { k, rank, margin, max_expansions, limited }
    }
}
