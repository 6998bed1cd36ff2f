//! How wide the beams of a search are: by a width, by a recall, or by comparing with every vector.

use dyad_index::certificate::{ChosenBeam, DEFAULT_EF, TIE_SLACK, beam_for_recall};
use dyad_index::snapshot::{SearchMode, Shard};
use dyad_index::{Certificate, Snapshot};
use pyo3::prelude::*;

use crate::problem::refused;

/// What a search says of its beams; at most one of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskedBeam {
    pub(crate) ef: Option<usize>,
    pub(crate) recall: Option<f64>,
    pub(crate) exact: bool,
}

impl AskedBeam {
    /// The mode of a search for `hits` of each question.
    pub(crate) fn mode(self, snapshot: &Snapshot, hits: usize, is_filtered: bool) -> PyResult<SearchMode> {
        match (self.ef, self.recall, self.exact) {
            (None, None, true) => Ok(SearchMode::Exact),
            (None, Some(recall), false) => {
                let chosen = beam_of(snapshot, recall, hits, is_filtered)?;
                Ok(SearchMode::Certified {
                    ef: chosen.ef,
                    out_of_distribution_ef: chosen.out_of_distribution_ef,
                })
            }
            (Some(0), None, false) => Err(refused("ef", "at least 1", 0)),
            (ef, None, false) => Ok(SearchMode::Adaptive {
                ef: ef.unwrap_or(DEFAULT_EF.max(hits + TIE_SLACK)),
            }),
            _ => Err(refused("ef", "one of `ef`, `recall` and `exact`", "several of them")),
        }
    }
}

/// The beam that the certificates of all shards have measured to reach a recall.
pub(crate) fn beam_of(snapshot: &Snapshot, recall: f64, hits: usize, is_filtered: bool) -> PyResult<ChosenBeam> {
    if !(recall > 0.0 && recall < 1.0) {
        return Err(refused("recall", "above 0 and below 1 (for 1: `exact=True`)", recall));
    }
    let certificates: Vec<&Certificate> = snapshot.shards().iter().map(Shard::certificate).collect();
    let chosen = beam_for_recall(recall, hits, is_filtered, &certificates);
    let least = hits + TIE_SLACK;
    Ok(ChosenBeam {
        ef: chosen.ef.max(least),
        out_of_distribution_ef: chosen.out_of_distribution_ef.max(least),
        ..chosen
    })
}
