//! The certificate: what a build has measured of its graph.
//!
//! | file | contents |
//! |---|---|
//! | `target.rs` | choice of the beam width for a target recall |

mod target;

use serde::{Deserialize, Serialize};

pub use target::{ChosenBeam, DEFAULT_EF, TIE_SLACK, beam_for_recall};

/// Reachability and recall of one shard, measured when it was built and stored in its file; or measured again without
/// its deleted documents, and stored with these.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Certificate {
    /// Vectors among which recall was measured: those of the shard, without the documents that were deleted then.
    pub vectors: u64,
    /// Nodes that the builder left unreachable from the entry point on layer 0.
    pub unreachable_before_repair: u64,
    /// Links that the repair added.
    pub links_added: u64,
    /// Nodes unreachable now. A published shard has none.
    pub unreachable: u64,
    /// Number of questions by which recall was measured.
    pub queries: u64,
    /// Where the questions came from.
    #[serde(default)]
    pub source: QuerySource,
    /// Exact scores of the questions by rank, ranks ascending: what adaptive searches go by, see [`Self::margin`] and
    /// [`Self::lowest_score`]. None in shards of earlier releases, whose margins were not made for every question:
    /// their searches are beams.
    #[serde(default)]
    pub calibration: Vec<RankScore>,
    /// Expansions of searches that nothing but their margin ends, for the same beam widths: bounds the few that would
    /// go on for long, see [`Self::expansion_bound`].
    #[serde(default)]
    pub expansions: Vec<ExpansionPoint>,
    /// Recall and cost of beams, for a sweep of widths, ascending. In shards of earlier releases, of searches with a
    /// margin.
    pub recall: Vec<RecallPoint>,
    /// The same of adaptive searches, whose beams are as wide as that in the mean.
    #[serde(default)]
    pub adaptive: Vec<RecallPoint>,
    /// The same of adaptive searches for questions that are out of distribution, which become beams; see
    /// [`crate::search::OutOfDistribution`].
    #[serde(default)]
    pub out_of_distribution: Vec<RecallPoint>,
    /// Recall of adaptive searches through filters, the least selective first; none where the shard is so small that it
    /// would be scanned. Absent in shards of earlier releases, which have measured nothing through filters.
    #[serde(default)]
    pub filtered: Option<Vec<FilteredRecall>>,
    /// The most by which recall can be lower than it was measured, because of documents that were deleted since: the
    /// share of them among the documents nearest to the questions, see [`crate::ground_truth::NearestNodes`]. 0 where
    /// nothing was.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_since: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Candidates that searches expand at one beam width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpansionPoint {
    /// Beam width.
    pub ef: usize,
    /// Half of the questions take at most this many expansions.
    pub p50: u64,
    /// 90 % of the questions take at most this many; searches for at most ten hits end there. 0 in shards of earlier
    /// releases, whose searches are beams.
    #[serde(default)]
    pub p90: u64,
    /// 95 % of the questions would take at most this many, if searches did not end before.
    pub p95: u64,
    /// 99 % of the questions would take at most this many.
    pub p99: u64,
}

/// Recall and cost through a filter that allows documents by chance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilteredRecall {
    /// Share of the documents that it allows.
    pub share: f64,
    /// For beam widths, ascending. From the width on at which all allowed documents are scanned, which is the last
    /// then, recall does not depend on the width.
    pub recall: Vec<RecallPoint>,
}

/// What an adaptive search may find less than a beam of the same width.
const AS_GOOD: f64 = 0.002;
/// Narrower searches find less than beams in less time: of 100,000 MiniLM sentences .836 and .874 at ef 16, as much as
/// these where they take as long.
const NARROW: usize = 64;
/// Hits for which expansions are measured.
const BOUNDED_HITS: usize = 10;

/// Where the questions of a certificate came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuerySource {
    /// Documents of the shard, each searched for among the others.
    #[default]
    Documents,
    /// Questions that the build was given.
    HeldOut,
}

/// Exact scores at one rank; where they are inner products, of questions of length 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RankScore {
    /// The rank in the exact ranking, from 1.
    pub rank: usize,
    /// Mean over questions.
    pub score: f64,
    /// The score that all but [`RARE`] of the questions reach.
    pub low: f64,
}

/// Share of the questions that calibrated a shard whose nearest documents are farther than is taken for usual.
pub const RARE: f64 = 0.01;

impl Certificate {
    /// The distance in score between the `k`-th and the `ef`-th nearest of a typical question: a search that ends when
    /// its best candidate is worse than the k-th hit by this much has evaluated about `ef` candidates, more for hard
    /// questions, fewer for easy ones. None where a rank is beyond those measured: in a small shard, or for a very wide
    /// beam. Inner products grow with the question, and so does their margin: this is that of a question of length 1.
    pub fn margin(&self, k: usize, ef: usize) -> Option<f32> {
        let score = |rank| self.at_rank(rank, |point| point.score);
        Some((score(k)? - score(ef)?).max(0.0) as f32)
    }

    /// The score that the `k`-th nearest of nearly all questions reaches, again for a length of 1: the margin says
    /// nothing of questions farther away. None where the rank is beyond those measured.
    pub fn lowest_score(&self, k: usize) -> Option<f32> {
        Some(self.at_rank(k, |point| point.low)? as f32)
    }

    /// The width at which an adaptive search for `k` hits finds as much as a beam of width `ef`: by recall@10, or
    /// recall@100 for more than ten hits, at the next width that was measured, from 64 on, or the last. Where it finds
    /// less at that width, it is a wider one, for at most ten hits, and if that costs no more than the beam; it never
    /// falls as `ef` grows. None where a beam is better. Beams refine more candidates: for questions of trained towers
    /// they took 1.2 to 1.5 times as long at equal recall.
    pub fn adaptive_width(&self, k: usize, ef: usize) -> Option<usize> {
        let next = self
            .recall
            .iter()
            .find(|point| point.ef >= ef.max(NARROW))
            .or(self.recall.last());
        let Some(beam) = next.filter(|_| !self.adaptive.is_empty()) else {
            return (k <= BOUNDED_HITS || self.adaptive.is_empty()).then_some(ef);
        };
        let width = self.as_wide_as(beam, k)?;
        let scaled = if width > beam.ef {
            ef.saturating_mul(width).div_ceil(beam.ef.max(1))
        } else {
            ef
        };
        let before = self.recall.iter().rfind(|point| (NARROW..ef).contains(&point.ef));
        Some(scaled.max(before.and_then(|beam| self.as_wide_as(beam, k)).unwrap_or(0)))
    }

    /// The same for a beam that was measured.
    fn as_wide_as(&self, beam: &RecallPoint, k: usize) -> Option<usize> {
        let recall = |point: &RecallPoint| {
            if k > BOUNDED_HITS {
                point.recall_at_100
            } else {
                Some(point.recall_at_10)
            }
        };
        let enough = recall(beam)? - AS_GOOD;
        let is_enough =
            |point: &&RecallPoint| point.ef >= beam.ef && recall(point).is_some_and(|found| found >= enough);
        let adaptive = self.adaptive.iter().find(is_enough)?;
        let is_cheaper = k <= BOUNDED_HITS && adaptive.time() <= beam.time();
        (adaptive.ef == beam.ef || is_cheaper).then_some(adaptive.ef)
    }

    /// The expansions after which an adaptive search for `k` hits ends: as many as 90 % of the questions need at most.
    /// For the others the beam is narrower then than their margin asks for; what that costs is in the measured recall.
    /// None where more hits are wanted than it was measured for, or a wider beam.
    ///
    /// Measured at equal recall@10 from .95 to .995, over the expansions of beams, on 100,000 MiniLM sentences and as
    /// many synthetic vectors:
    ///
    /// | bound | mean, MiniLM | 99th percentile | mean, synthetic | 99th percentile |
    /// |---|---|---|---|---|
    /// | 90 % | .96 to .70 | 1.04 to 1.32 | 1.02 to .62 | 1.05 to .93 |
    /// | 95 % | .95 to .69 | 1.15 to 1.58 | 1.02 to .62 | 1.05 to .93 |
    /// | none | .95 to .65 | 1.46 to 2.19 | .94 to .58 | 1.53 to 1.22 |
    pub fn expansion_bound(&self, k: usize, ef: usize) -> Option<usize> {
        let above = self
            .expansions
            .iter()
            .position(|point| point.ef >= ef)
            .filter(|_| k <= BOUNDED_HITS)?;
        let high = self.expansions.get(above)?;
        let Some(low) = above.checked_sub(1).and_then(|at| self.expansions.get(at)) else {
            return Some(high.p90 as usize);
        };
        // A power of the width between two of them.
        let share = (ef as f64 / low.ef as f64).ln() / (high.ef as f64 / low.ef as f64).ln();
        let (from, to) = ((low.p90.max(1) as f64).ln(), (high.p90.max(1) as f64).ln());
        Some((from + (to - from) * share).exp().ceil() as usize)
    }

    /// Whether all numbers are finite: JSON knows no others.
    pub fn is_finite(&self) -> bool {
        let filtered = || self.filtered.iter().flatten();
        let unfiltered = self
            .recall
            .iter()
            .chain(&self.adaptive)
            .chain(&self.out_of_distribution);
        let points = unfiltered
            .chain(filtered().flat_map(|filtered| &filtered.recall))
            .flat_map(|point| {
                let at_100 = point.recall_at_100.unwrap_or(0.0);
                [point.recall_at_10, at_100, point.distance_computations, point.scored]
            });
        let shares = filtered().map(|filtered| filtered.share);
        let scores = self.calibration.iter().flat_map(|point| [point.score, point.low]);
        points
            .chain(scores)
            .chain(shares)
            .chain([self.lost_since])
            .all(f64::is_finite)
    }

    /// Recall@10 at a beam width for which it was measured, at least: without what may have been lost since.
    pub fn least_recall(&self, ef: usize) -> Option<f64> {
        let point = self.recall.iter().find(|point| point.ef == ef)?;
        Some((point.recall_at_10 - self.lost_since).max(0.0))
    }

    /// A score at a rank, by linear interpolation over the logarithm of the rank; none beyond what was measured.
    fn at_rank(&self, rank: usize, score: impl Fn(&RankScore) -> f64) -> Option<f64> {
        let above = self.calibration.iter().position(|point| point.rank >= rank)?;
        let high = self.calibration.get(above)?;
        let Some(low) = above.checked_sub(1).and_then(|at| self.calibration.get(at)) else {
            return Some(score(high));
        };
        let (from, to) = ((low.rank as f64).ln(), (high.rank as f64).ln());
        let share = (((rank as f64).ln() - from) / (to - from)).clamp(0.0, 1.0);
        Some(score(low) + (score(high) - score(low)) * share)
    }
}

/// The smallest beam width of these points, ascending, whose recall is at least `target`: recall@10, or recall@100
/// where more than 10 hits are wanted. None where no width reaches it.
pub fn ef_for(points: &[RecallPoint], target: f64, k: usize) -> Option<usize> {
    let recall = |point: &RecallPoint| {
        if k > 10 {
            point.recall_at_100
        } else {
            Some(point.recall_at_10)
        }
    };
    points
        .iter()
        .find(|point| recall(point).is_some_and(|recall| recall >= target))
        .map(|point| point.ef)
}

/// Recall against the exact scan at one beam width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecallPoint {
    /// Beam width.
    pub ef: usize,
    /// Mean share of the 10 nearest that the search finds.
    pub recall_at_10: f64,
    /// Mean share of the 100 nearest that the search finds; absent where a graph is searched with an `ef` that is not
    /// above 100, and where fewer than 100 nearest are known.
    pub recall_at_100: Option<f64>,
    /// Mean scores computed per search: estimates from sketches, int8 rows and vectors together.
    pub distance_computations: f64,
    /// Of these, mean scores computed from int8 rows and vectors.
    #[serde(default)]
    pub scored: f64,
}

impl RecallPoint {
    /// The time of a search in that of an estimate, about: an int8 row is taken for three. Fitted by hand to two pairs
    /// of searches over vectors of 384 values on a Zen 5, which gave 1.4 (MiniLM) and 3.5 (an ADE tower).
    fn time(&self) -> f64 {
        self.distance_computations + 2.0 * self.scored
    }
}

#[cfg(test)]
mod tests;
