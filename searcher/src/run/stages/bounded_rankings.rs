//! Both scores of hits from 0 to 1.

use dyad_index::snapshot::DocumentHit;

/// Hits with both scores from 0 to 1, for [`dyad_index::FusionMethod::MinMax`].
#[derive(Debug, Default)]
pub(in crate::run) struct BoundedRankings {
    /// None without a question vector.
    pub(in crate::run) dense: Vec<DocumentHit>,
    pub(in crate::run) text: Vec<DocumentHit>,
    /// Of each hit of `text`.
    pub(in crate::run) exactness: Vec<f32>,
}
