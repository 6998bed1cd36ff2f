//! Measures recall through filters that allow documents by chance, searched as they are served.
//!
//! The exact nearest that a filter allows are those of a question's exact nearest that it allows, so that no vectors
//! are compared for them. A question of which too few are known is left out, which favours neither easy nor hard ones.
//! Documents that serve as questions are not allowed themselves, nor are others with their vectors.

use dyad_index::search::{NodeSet, SCAN_BATCH, SearchParams, SearchScratch, filter_scans};
use dyad_index::{Certificate, FilteredRecall, RecallPoint, Scored, SearchHits};
use rayon::prelude::*;

use super::order;
use super::recall::{average_recall, recall_share};
use crate::control::JobControl;
use crate::error::Error;

/// Shares of the documents that the filters allow. Of `DEEPEST_RANK` nearest, the third allows 128, enough
/// for recall@100, and the last 32.
pub(super) const SHARES: [f64; 4] = [1.0 / 2.0, 1.0 / 4.0, 1.0 / 16.0, 1.0 / 64.0];
/// Beam widths measured, up to the first at which the allowed documents are scanned: fewer than without filters, which
/// keeps a delete short.
const EF_SWEEP: [usize; 6] = [16, 32, 64, 128, 256, 512];
/// Questions asked, evenly of those that the certificate has. With this number a mean recall of .95 is off by about
/// .007, less than what the next width makes.
pub(super) const QUESTIONS: usize = 125;
/// Of these, one in this many is asked where all allowed documents are scanned: scans cost the most, and find nearly
/// all.
pub(super) const SCAN_STEP: usize = 5;
/// Makes the filters differ from the samples of documents.
pub(super) const FILTER_SEED: u64 = 0xF117_E25E;

/// A question, and its exact nearest documents, without those that have its vector.
#[derive(Clone, Copy)]
pub(super) struct FilteredQuestion<'a> {
    pub(super) row: &'a [f32],
    /// The documents with its vector, where it is one of them.
    pub(super) same: &'a [u32],
    pub(super) nearest: &'a [Scored],
}

/// What is searched.
pub(super) struct SearchedShard<'a> {
    pub(super) nodes: usize,
    pub(super) live: Option<&'a NodeSet>,
    /// What was measured without filters.
    pub(super) certificate: &'a Certificate,
    pub(super) seed: u64,
}

/// The recall for each share at which the graph is searched at all; `search` gives the hits of several questions, in
/// their order. Runs on the current rayon pool.
pub(super) fn certify_filtered(
    asked: &[FilteredQuestion<'_>],
    searched: &SearchedShard<'_>,
    search: impl Fn(&[&[f32]], &SearchParams<'_>, &mut SearchScratch) -> Vec<SearchHits<Scored>> + Sync,
    control: JobControl<'_>,
) -> Result<Vec<FilteredRecall>, Error> {
    let asked: Vec<FilteredQuestion<'_>> = asked
        .iter()
        .step_by(asked.len().div_ceil(QUESTIONS).max(1))
        .copied()
        .collect();
    let mut filtered = Vec::new();
    for share in SHARES {
        let allowed = filter(share, &asked, searched);
        let recall = sweep(&asked, &allowed, searched, &search, control)?;
        if recall.is_empty() {
            break;
        }
        filtered.push(FilteredRecall { share, recall });
    }
    Ok(filtered)
}

/// The live nodes that a filter allows, the same on every machine.
fn filter(share: f64, asked: &[FilteredQuestion<'_>], searched: &SearchedShard<'_>) -> NodeSet {
    let mut allowed = NodeSet::new(searched.nodes);
    allowed.extend(order::choose_numbers(
        searched.nodes,
        share,
        searched.seed ^ FILTER_SEED,
    ));
    if let Some(live) = searched.live {
        allowed.intersect_with(live);
    }
    for node in asked.iter().flat_map(|asked| asked.same) {
        allowed.remove(*node);
    }
    allowed
}

/// One filter; nothing where a graph is searched at no width, or too little is known.
fn sweep(
    asked: &[FilteredQuestion<'_>],
    allowed: &NodeSet,
    searched: &SearchedShard<'_>,
    search: &(impl Fn(&[&[f32]], &SearchParams<'_>, &mut SearchScratch) -> Vec<SearchHits<Scored>> + Sync),
    control: JobControl<'_>,
) -> Result<Vec<RecallPoint>, Error> {
    let scans = |ef| filter_scans(ef, allowed.len(), searched.nodes);
    let nearest = |asked: &FilteredQuestion<'_>| -> Vec<Scored> {
        asked
            .nearest
            .iter()
            .filter(|hit| allowed.contains(hit.node))
            .take(100)
            .copied()
            .collect()
    };
    let nearest: Vec<Vec<Scored>> = asked.iter().map(nearest).collect();
    // Share of the `k` nearest found, and cost, by question; none where `k` are known of too few questions.
    let measure = |k: usize, ef: usize| {
        let step = if scans(ef) { SCAN_STEP } else { 1 };
        let pairs = asked.iter().zip(&nearest).step_by(step);
        let known: Vec<(&[f32], &[Scored])> = pairs
            .filter_map(|(asked, nearest)| Some((asked.row, nearest.get(..k)?)))
            .collect();
        let params = SearchParams {
            allowed: Some(allowed),
            live: searched.live,
            certificate: Some(searched.certificate),
            adaptive: true,
            ..SearchParams::new(k, ef)
        };
        let batch = |scratch: &mut SearchScratch, batch: &[(&[f32], &[Scored])]| {
            let rows: Vec<&[f32]> = batch.iter().map(|(row, _)| *row).collect();
            let found = search(&rows, &params, scratch).into_iter().zip(batch);
            let one = |(found, (_, nearest)): (SearchHits<Scored>, &(&[f32], &[Scored]))| {
                (
                    recall_share(&found.hits, nearest, k),
                    0.0,
                    found.cost.total(),
                    found.cost.scored,
                )
            };
            found.map(one).collect::<Vec<_>>()
        };
        let measured: Vec<Vec<_>> = known
            .par_chunks(SCAN_BATCH)
            .map_init(SearchScratch::default, |scratch, part| batch(scratch, part))
            .collect();
        let enough = !known.is_empty() && 2 * known.len() * step >= asked.len();
        enough.then(|| average_recall(ef, false, &measured.concat()))
    };
    let mut recall = Vec::new();
    if EF_SWEEP.first().is_none_or(|narrowest| scans(*narrowest)) {
        return Ok(recall);
    }
    for ef in EF_SWEEP {
        control.check()?;
        let Some(point) = measure(10, ef) else { break };
        let wide = if ef > 100 || scans(ef) { measure(100, ef) } else { None };
        recall.push(RecallPoint {
            recall_at_100: wide.map(|wide| wide.recall_at_10),
            ..point
        });
        if scans(ef) {
            break;
        }
    }
    Ok(recall)
}
