//! The dense searches of a request: their beam widths, for one page or for all.

use dyad_index::Certificate;
use dyad_index::certificate::{DEFAULT_EF, TIE_SLACK, beam_for_recall};
use dyad_index::snapshot::{DenseParams, SearchMode};
use dyad_proto::limits::MAX_K;
use dyad_proto::v1;
use dyad_proto::validate::ranking_depth;

/// A page that the first search is not deep enough for, or whose ranking has too few groups, is read from a search that
/// is as many times as deep, and so on.
pub(crate) const WIDER: usize = 4;

/// What decides on the beam width of a dense search.
pub(super) struct Beam<'a> {
    pub(super) request: &'a v1::SearchRequest,
    /// Whether the dense ranking is read through graphs.
    pub(super) uses_graph: bool,
    pub(super) certificates: &'a [&'a Certificate],
}

impl Beam<'_> {
    /// The search for that many hits, and why the target recall is not guaranteed.
    pub(super) fn search(&self, hits: usize) -> (SearchMode, Option<String>) {
        let Self {
            request, certificates, ..
        } = *self;
        if request.exact {
            return (SearchMode::Exact, None);
        }
        if let Some(target) = request.target_recall.filter(|_| self.uses_graph) {
            let chosen = beam_for_recall(target, hits, request.filter.is_some(), certificates);
            let least = hits + TIE_SLACK;
            let (ef, out_of_distribution_ef) = (chosen.ef.max(least), chosen.out_of_distribution_ef.max(least));
            return (
                SearchMode::Certified {
                    ef,
                    out_of_distribution_ef,
                },
                chosen.note,
            );
        }
        let mode = match request.ef as usize {
            0 => SearchMode::Adaptive {
                ef: DEFAULT_EF.max(hits + TIE_SLACK),
            },
            ef => SearchMode::Beam {
                ef: ef.max(hits + TIE_SLACK),
            },
        };
        (mode, None)
    }

    /// The searches of all pages: that of the first page, and others each [`WIDER`] times as deep as the one before.
    /// None for a first page that no deeper search can follow.
    pub(super) fn paged(&self) -> Vec<DenseParams> {
        let Self { request, .. } = *self;
        if request.offset == 0 && request.group_by.is_none() {
            return Vec::new();
        }
        let first = ranking_depth(&v1::SearchRequest {
            offset: 0,
            ..request.clone()
        }) as usize;
        let deepest = MAX_K as usize;
        let deeper = |depth: &usize| (*depth < deepest).then(|| (depth * WIDER).min(deepest));
        let depths = std::iter::successors(Some(first), deeper);
        depths
            .map(|hits| DenseParams {
                k: hits,
                mode: self.search(hits).0,
            })
            .collect()
    }
}
