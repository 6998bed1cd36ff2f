//! The parameters of a search, and the rule that stops it.

use super::NodeSet;
use crate::certificate::Certificate;
use dyad_files::{Cancel, Never};

/// Parameters of the search of one shard.
#[derive(Clone, Copy)]
pub struct SearchParams<'a> {
    /// Hits wanted, at least 1.
    pub k: usize,
    /// Width of the beam; at least `k` is used. With a margin it is the *mean* width over questions.
    pub ef: usize,
    /// Whether a shard is searched with margin, bound and fallback of its certificate, where it has them. Otherwise its
    /// beam is `ef` wide for every question.
    pub adaptive: bool,
    /// A search ends when its best candidate scores less than the k-th hit by more than this, times the length of the
    /// question where scores are inner products. Without one, the beam is `ef` wide for every question.
    pub margin: Option<f32>,
    /// Which questions the margin is not meant for, and how they are searched.
    pub out_of_distribution: Option<OutOfDistribution>,
    /// Width of their beam in an adaptive search; `ef` where absent.
    pub out_of_distribution_ef: Option<usize>,
    /// Expansions after which a search with a margin ends in any case, so that no question takes very long; by `ef`
    /// where absent.
    pub expansion_bound: Option<usize>,
    /// Most candidates to expand; a search that this ends is [`Limited`](super::Completeness::Limited).
    pub max_expansions: Option<usize>,
    /// Nodes that may be hits, all of them live; all live ones where absent.
    pub allowed: Option<&'a NodeSet>,
    /// Whether only allowed nodes are candidates: in place of one that is not, its own links are followed. Otherwise
    /// all nodes are, and the beam has to be as much wider as fewer are allowed.
    pub two_hop: bool,
    /// What becomes of a search near whose question few nodes are allowed; nothing special where absent.
    pub far: Option<Far>,
    /// The nodes that are not deleted, at least one; all where absent.
    pub live: Option<&'a NodeSet>,
    /// What was measured of the shard among these nodes; what it was built with where absent.
    pub certificate: Option<&'a Certificate>,
    /// What other shards have found for the same questions; nothing where absent.
    pub min_competitive: Option<MinCompetitive<'a>>,
    /// For each question a slot that is no hit, and that is followed only where too few others are found without it:
    /// that of the document which serves as the question.
    pub left_out: Option<&'a [u32]>,
    /// Whether the best candidates are scored again from the vectors; without, scores are those of int8 codes.
    pub rescore: bool,
    /// Cancels the search, which then returns what it has found so far.
    pub cancel: &'a dyn Cancel,
}

/// The search for a question near which the filter allows fewer nodes than elsewhere, so that its hits are far away.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Far {
    /// Share of all nodes that are allowed. A question is far from them where the share among the nodes near it is much
    /// smaller.
    pub share: f64,
    /// Width of its beam, which is among allowed nodes alone and has neither a margin nor `max_expansions`. Where
    /// absent the search is given up, and [`Limited`](super::Completeness::Limited).
    pub ef: Option<usize>,
}

/// Questions that are farther from the documents than those that the margin was calibrated with: it may end their
/// searches too early. Their k-th hit tells. Those that have expanded fewer candidates than a beam would are searched
/// again, by a beam.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutOfDistribution {
    /// The k-th hit of such a question scores less than this, times the length of the question where scores are inner
    /// products.
    pub below: f32,
    /// Width of the beam.
    pub ef: usize,
}

/// For each question the score from which a hit is among the `k` best of all shards that have been searched ("minimum
/// competitive similarity" in Lucene's search of several segments).
#[derive(Debug, Clone, Copy)]
pub struct MinCompetitive<'a> {
    /// The least competitive score of each question; negative infinity where there are fewer than `k` hits so far.
    pub scores: &'a [f32],
    /// Candidates that score less by more than this are taken to lead to no such hit.
    pub margin: f32,
    /// The same of the shard that is searched, for its nearest document: those that score less than the nearest so far
    /// by more lead to none that is nearer. Where absent it is the margin that ends the search, or what the certificate
    /// has in its place.
    pub own_margin: Option<f32>,
}

impl SearchParams<'_> {
    /// A fixed beam over all nodes, rescored.
    pub fn new(k: usize, ef: usize) -> Self {
        Self {
            k,
            ef,
            adaptive: false,
            margin: None,
            out_of_distribution: None,
            out_of_distribution_ef: None,
            expansion_bound: None,
            max_expansions: None,
            allowed: None,
            two_hop: false,
            far: None,
            live: None,
            certificate: None,
            min_competitive: None,
            left_out: None,
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
            .field("adaptive", &self.adaptive)
            .field("margin", &self.margin)
            .field("out_of_distribution", &self.out_of_distribution)
            .field("out_of_distribution_ef", &self.out_of_distribution_ef)
            .field("expansion_bound", &self.expansion_bound)
            .field("max_expansions", &self.max_expansions)
            .field("allowed", &self.allowed.map(NodeSet::len))
            .field("two_hop", &self.two_hop)
            .field("far", &self.far)
            .field("live", &self.live.map(NodeSet::len))
            .field("certificate", &self.certificate.map(|certificate| certificate.vectors))
            .field("min_competitive", &self.min_competitive)
            .field("left_out", &self.left_out.map(<[u32]>::len))
            .field("rescore", &self.rescore)
            .finish_non_exhaustive()
    }
}

/// Estimates from sketches are raised by this many standard deviations before they compete, where the beam has one
/// width: what is as good as the beam is hardly lost to the noise, so that recall is that of a beam over the vectors.
/// Recall@10 of 5,000 Gaussian vectors of 32 values at ef 64, by inner product: at 0.2 standard deviations .956, at 1
/// .990, at 2 .9985, at 4 .999, and .9955 by hnswlib (M 16).
const OPTIMISM_OF_BEAM: f32 = 2.0;
/// The same where the beam is hardly wider than the hits wanted, so that all which it loses at its edge is a hit lost.
/// Recall@1000 of 5,000 Gaussian vectors of 64 values at ef 1,000, cosine: at 2 standard deviations .993, at 3 .9996,
/// and .9997 by hnswlib. It scores 50 % more rows, which wider beams need not pay.
const OPTIMISM_OF_NARROW_BEAM: f32 = 3.0;
/// The same with a margin, whose recall is measured as it is: below 0 good candidates are lost to the noise, far above
/// it too many bad ones are refined. Measured on MiniLM sentences, flat between 0 and 0.4.
const OPTIMISM_OF_MARGIN: f32 = 0.2;

/// When a search ends: its best candidate is worse than the `rank`-th best so far by more than `margin`, or it has
/// expanded `max_expansions`.
///
/// The margin makes the beam as wide as the question needs ("distance adaptive beam search": Al-Jazzazi et al. 2025,
/// arXiv:2505.15636), where a fixed width is too wide for easy questions and too narrow for hard ones.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StopRule {
    /// Hits wanted.
    pub(super) k: usize,
    pub(super) rank: usize,
    pub(super) margin: f32,
    pub(super) max_expansions: usize,
    /// Standard deviations by which estimates are raised.
    pub(super) optimism: f32,
    /// Whether a search that `max_expansions` ends is [`Limited`](super::Completeness::Limited): the caller set that
    /// bound.
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
                (
                    k,
                    margin.max(0.0),
                    params.expansion_bound.map_or(most, |bound| bound.clamp(k, most)),
                )
            }
            None => (ef, 0.0, usize::MAX),
        };
        let (limited, max_expansions) = match params.max_expansions {
            Some(bound) if bound < max_expansions => (true, bound),
            _ => (false, max_expansions),
        };
        // Searches without rescoring are those of builders, which lose little: links are found from both ends.
        let measures_itself = params.margin.is_some() || !params.rescore;
        let is_narrow = ef < k + k / 4;
        let optimism = match (measures_itself, is_narrow) {
            (true, _) => OPTIMISM_OF_MARGIN,
            (false, true) => OPTIMISM_OF_NARROW_BEAM,
            (false, false) => OPTIMISM_OF_BEAM,
        };
        Self {
            k,
            rank,
            margin,
            max_expansions,
            optimism,
            limited,
        }
    }
}
