//! The certificate: what a build has measured of its graph.

use serde::{Deserialize, Serialize};

/// Reachability and recall of one shard, measured when it was built and stored in its file; or measured again without its deleted
/// documents, and stored with these.
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
    /// Where they came from.
    #[serde(default)]
    pub source: QuerySource,
    /// Mean exact score by rank, ranks ascending: converts a beam width to a margin, see [`Self::margin`].
    #[serde(default)]
    pub profile: Vec<RankScore>,
    /// Expansions of searches that nothing but their margin ends, for the same beam widths: bounds the few that would go on for long, see
    /// [`Self::expansion_bound`]. None in shards of earlier releases.
    #[serde(default)]
    pub expansions: Vec<ExpansionPoint>,
    /// Recall and cost for a sweep of beam widths, ascending.
    pub recall: Vec<RecallPoint>,
    /// The same through filters, the least selective first; none where the shard is so small that it would be scanned. Absent in
    /// shards of earlier releases, which have measured nothing through filters.
    #[serde(default)]
    pub filtered: Option<Vec<FilteredRecall>>,
    /// The most by which recall can be lower than it was measured, because of documents that were deleted since: the share of them among
    /// the documents nearest to the questions, see [`crate::ground_truth::NearestNodes`]. 0 where nothing was.
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
    /// Of half of the questions at most this many.
    pub p50: u64,
    /// Of 95 %.
    pub p95: u64,
    /// Of 99 %.
    pub p99: u64,
}

/// Recall and cost through a filter that allows documents by chance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilteredRecall {
    /// Share of the documents that it allows.
    pub share: f64,
    /// For beam widths, ascending. From the width on at which all allowed documents are scanned, which is the last then, recall does not
    /// depend on the width.
    pub recall: Vec<RecallPoint>,
}

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

/// Mean exact score at one rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RankScore {
    /// From 1.
    pub rank: usize,
    /// Mean over questions.
    pub score: f64,
}

impl Certificate {
    /// The distance in score between the `k`-th and the `ef`-th nearest of a typical question: a search that ends when its
    /// best candidate is worse than the k-th hit by this much has evaluated about `ef` candidates, more for hard
    /// questions, fewer for easy ones. None where a rank is beyond those measured: in a small shard, or for a very wide
    /// beam.
    pub fn margin(&self, k: usize, ef: usize) -> Option<f32> {
        let (near, far) = (self.score_at(k as f64)?, self.score_at(ef as f64)?);
        Some((near - far).max(0.0) as f32)
    }

    /// The expansions after which a search for `k` hits ends: as many as 95 % of the questions need at most. For the others the beam is narrower
    /// then than their margin asks for; what that costs is in the measured recall. None where more hits are wanted than it was measured for,
    /// or a wider beam.
    pub fn expansion_bound(&self, k: usize, ef: usize) -> Option<usize> {
        let above = self.expansions.iter().position(|point| point.ef >= ef).filter(|_| k <= BOUNDED_HITS)?;
        let high = self.expansions.get(above)?;
        let Some(low) = above.checked_sub(1).and_then(|at| self.expansions.get(at)) else {
            return Some(high.p95 as usize);
        };
        // A power of the width between two of them.
        let share = (ef as f64 / low.ef as f64).ln() / (high.ef as f64 / low.ef as f64).ln();
        let (from, to) = ((low.p95.max(1) as f64).ln(), (high.p95.max(1) as f64).ln());
        Some((from + (to - from) * share).exp().ceil() as usize)
    }

    /// Whether all numbers are finite: JSON knows no others.
    pub fn is_finite(&self) -> bool {
        let filtered = || self.filtered.iter().flatten();
        let points = self.recall.iter().chain(filtered().flat_map(|filtered| &filtered.recall)).flat_map(|point| {
            let at_100 = point.recall_at_100.unwrap_or(0.0);
            [point.recall_at_10, at_100, point.distance_computations, point.scored]
        });
        let shares = filtered().map(|filtered| filtered.share);
        let scores = self.profile.iter().map(|point| point.score);
        points.chain(scores).chain(shares).chain([self.lost_since]).all(f64::is_finite)
    }

    /// Recall@10 at a beam width for which it was measured, at least: without what may have been lost since.
    pub fn least_recall(&self, ef: usize) -> Option<f64> {
        let point = self.recall.iter().find(|point| point.ef == ef)?;
        Some((point.recall_at_10 - self.lost_since).max(0.0))
    }

    /// Mean score at a rank, by linear interpolation over the logarithm of the rank; none beyond what was measured.
    fn score_at(&self, rank: f64) -> Option<f64> {
        let above = self.profile.iter().position(|point| point.rank as f64 >= rank)?;
        let high = self.profile.get(above)?;
        let Some(low) = above.checked_sub(1).and_then(|at| self.profile.get(at)) else { return Some(high.score) };
        let (from, to) = ((low.rank as f64).ln(), (high.rank as f64).ln());
        let share = ((rank.ln() - from) / (to - from)).clamp(0.0, 1.0);
        Some(low.score + (high.score - low.score) * share)
    }
}

/// The smallest beam width of these points, ascending, whose recall is at least `target`: recall@10, or recall@100 where more
/// than 10 hits are wanted. None where no width reaches it.
pub fn ef_for(points: &[RecallPoint], target: f64, k: usize) -> Option<usize> {
    let recall = |point: &RecallPoint| if k > 10 { point.recall_at_100 } else { Some(point.recall_at_10) };
    points.iter().find(|point| recall(point).is_some_and(|recall| recall >= target)).map(|point| point.ef)
}

/// Recall against the exact scan at one beam width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecallPoint {
    /// Beam width.
    pub ef: usize,
    /// Mean share of the 10 nearest that the search finds.
    pub recall_at_10: f64,
    /// Mean share of the 100 nearest that the search finds; absent where a graph is searched with an `ef` that is not above 100, and where
    /// fewer than 100 nearest are known.
    pub recall_at_100: Option<f64>,
    /// Mean scores computed per search: estimates from sketches, int8 rows and vectors together.
    pub distance_computations: f64,
    /// Of these, mean scores computed from int8 rows and vectors.
    #[serde(default)]
    pub scored: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> Certificate {
        let point = |ef, recall_at_10, recall_at_100| RecallPoint {
            ef,
            recall_at_10,
            recall_at_100,
            distance_computations: 0.0,
            scored: 0.0,
        };
        let profile = [(1, 0.9), (10, 0.7), (100, 0.5), (1000, 0.4)];
        Certificate {
            recall: vec![point(16, 0.9, None), point(128, 0.97, Some(0.8)), point(256, 0.99, Some(0.96))],
            profile: profile.map(|(rank, score)| RankScore { rank, score }).into(),
            ..Certificate::default()
        }
    }

    #[test]
    fn a_margin_is_the_fall_of_the_mean_score_between_two_ranks() {
        let certificate = certificate();
        assert!((certificate.margin(10, 100).unwrap() - 0.2).abs() < 1e-6);
        // Half way between 10 and 1000 by logarithm is 100; between 10 and 100 it is 31.6.
        assert!((certificate.margin(10, 32).unwrap() - 0.1).abs() < 2e-3);
        assert!(certificate.margin(100, 10).unwrap().abs() < 1e-9);
        assert_eq!(certificate.margin(10, 1001), None);
        assert_eq!(Certificate::default().margin(1, 2), None);
    }

    #[test]
    fn a_bound_is_what_nearly_all_questions_need() {
        let point = |(ef, p95)| ExpansionPoint { ef, p50: p95 / 2, p95, p99: 2 * p95 };
        let expansions = [(16, 20), (64, 80), (128, 320)].map(point).into();
        let certificate = Certificate { expansions, ..certificate() };
        let bounds = [1, 16, 32, 64, 90, 128, 129].map(|ef| certificate.expansion_bound(10, ef));
        assert_eq!(bounds, [Some(20), Some(20), Some(40), Some(80), Some(159), Some(320), None]);
        assert_eq!((certificate.expansion_bound(1, 64), certificate.expansion_bound(11, 64)), (Some(80), None));
        assert_eq!(Certificate::default().expansion_bound(10, 64), None);
    }

    #[test]
    fn a_target_picks_the_smallest_width_that_reached_it() {
        let points = certificate().recall;
        assert_eq!(ef_for(&points, 0.95, 10), Some(128));
        assert_eq!(ef_for(&points, 0.95, 100), Some(256));
        assert_eq!(ef_for(&points, 0.9, 10), Some(16));
        assert_eq!(ef_for(&points, 0.995, 10), None);
    }

    #[test]
    fn certificates_of_earlier_releases_are_read_and_measured_nothing_through_filters() {
        let certificate = Certificate { filtered: Some(Vec::new()), ..certificate() };
        let written = serde_json::to_string(&certificate).unwrap();
        assert_eq!(serde_json::from_str::<Certificate>(&written).unwrap(), certificate);
        let earlier = written.replace(r#","filtered":[]"#, "");
        assert_ne!(earlier, written);
        let expected = Certificate { filtered: None, ..certificate };
        assert_eq!(serde_json::from_str::<Certificate>(&earlier).unwrap(), expected);
    }

    #[test]
    fn numbers_that_json_does_not_know_are_found_in_every_part() {
        let whole = certificate();
        let recall = whole.recall.clone();
        let filtered = |share, recall| Some(vec![FilteredRecall { share, recall }]);
        assert!(Certificate { filtered: filtered(0.5, recall.clone()), ..whole.clone() }.is_finite());
        assert!(!Certificate { filtered: filtered(f64::NAN, recall.clone()), ..whole.clone() }.is_finite());
        let infinite: Vec<_> = recall.into_iter().map(|point| RecallPoint { scored: f64::INFINITY, ..point }).collect();
        assert!(!Certificate { filtered: filtered(0.5, infinite.clone()), ..whole.clone() }.is_finite());
        assert!(!Certificate { recall: infinite, ..whole }.is_finite());
    }
}
