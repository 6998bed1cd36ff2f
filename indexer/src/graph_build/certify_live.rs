//! Measures a shard again once documents are deleted: recall and margins among the documents that are left.
//!
//! The questions are those of the shard's certificate. Their exact nearest nodes are known from then, so that the
//! nearest live ones are the same lists without the deleted nodes; only where too few are left are all live vectors
//! compared. Searches are those of the searcher: through the shard's own files, with the margins measured here.

use std::path::Path;

use dyad_index::ground_truth::CertificateQuestions;
use dyad_index::search::{NodeSet, RowQuestion, SCAN_BATCH, SearchHits, SearchParams, SearchScratch};
use dyad_index::shard::DenseShard;
use dyad_index::{Certificate, ExpansionPoint, FilteredRecall, GroundTruth, QuerySource, RecallPoint, Scored};
use rayon::prelude::*;

use super::calibration::{DEEPEST_RANK, SAMPLE_SEED, calibrate_ranks, invert_order, score_length};
use super::certify_filtered::{FilteredQuestion, SearchedShard, certify_filtered};
use super::certify_questions::QUERIES;
use super::far_questions::far_questions;
use super::live_search::{
    LiveMeasurement, LiveQuestion, LiveSearch, UnboundedSearch, is_wide, search_unbounded, some_are_deleted,
};
use super::order;
use super::recall::{average_recall, recall_share};
use super::recall_gate::EF_SWEEP;
use crate::control::JobControl;
use crate::error::Error;

/// Nearest live nodes that must be known of a question at least: recall@100 is measured.
const NEEDED: usize = 100;

/// The certificate of a shard of which only `live` nodes, at least one, are left, by these questions. Runs on the
/// current rayon pool.
pub fn certify_live(
    shard: &DenseShard,
    truth: &GroundTruth,
    live: &NodeSet,
    control: JobControl<'_>,
) -> Result<Certificate, Error> {
    let slots = invert_order(shard.graph().order());
    let searched = LiveSearch {
        shard,
        live,
        slots: &slots,
    };
    let asked = queries(shard, &truth.questions);
    let lists = lists(&searched, truth, &asked, control)?;
    let source = match truth.questions {
        CertificateQuestions::Nodes(_) => QuerySource::Documents,
        CertificateQuestions::Vectors { .. } => QuerySource::HeldOut,
    };
    // A beam is as wide as there are vectors in it, and not documents.
    let distinct: Vec<Vec<Scored>> = lists.par_iter().map(|list| searched.distinct(list)).collect();
    let depth = distinct.iter().map(Vec::len).min().unwrap_or(0);
    let before = shard.certificate();
    let lengths: Vec<f32> = asked
        .iter()
        .map(|asked| score_length(&asked.row, shard.meta().model.metric))
        .collect();
    let mut certificate = Certificate {
        vectors: live.len() as u64,
        unreachable_before_repair: before.unreachable_before_repair,
        links_added: before.links_added,
        unreachable: before.unreachable,
        queries: asked.len() as u64,
        source,
        calibration: calibrate_ranks(&distinct, &lengths, depth),
        expansions: Vec::new(),
        recall: Vec::new(),
        adaptive: Vec::new(),
        out_of_distribution: before.out_of_distribution.clone(),
        filtered: None,
        lost_since: 0.0,
    };
    // Those of the shard's own certificate, as a small sample has fewer of them.
    let mut widths: Vec<usize> = before.recall.iter().map(|point| point.ef).collect();
    if widths.is_empty() {
        widths.extend(EF_SWEEP);
    }
    let (mut unbounded, mut points): (Vec<UnboundedSearch>, Vec<ExpansionPoint>) = (Vec::new(), Vec::new());
    for &ef in &widths {
        control.check()?;
        // From the width on at which all live nodes are scanned, wider beams change nothing.
        if !unbounded.last().is_some_and(|last| last.scans) {
            unbounded.push(search_unbounded(&searched, &asked, ef, &certificate));
        }
        points.extend(unbounded.last().map(|last| last.expansions(ef)));
    }
    certificate.expansions = points;
    // Adaptive searches become beams where a certificate says that those find more: it says nothing until all is
    // measured.
    let measurement = LiveMeasurement {
        searched: &searched,
        asked: &asked,
        lists: &lists,
    };
    let (mut recall, mut recall_adaptive): (Vec<RecallPoint>, Vec<RecallPoint>) = (Vec::new(), Vec::new());
    for ef in widths {
        control.check()?;
        let Some(found) = unbounded.iter().rfind(|found| found.ef <= ef) else {
            continue;
        };
        let is_same = |last: &&RecallPoint| last.ef >= found.ef && is_wide(last.ef, &lists) == is_wide(ef, &lists);
        let beam = match recall.last().filter(is_same) {
            Some(last) => RecallPoint { ef, ..last.clone() },
            None => measurement.measure(ef, &certificate),
        };
        let adaptive = match recall_adaptive.last().filter(is_same) {
            Some(last) => RecallPoint { ef, ..last.clone() },
            None => measurement.measure_adaptive(found, ef, &certificate),
        };
        recall.push(beam);
        recall_adaptive.push(adaptive);
    }
    if certificate.out_of_distribution.is_empty() {
        certificate.out_of_distribution = far(&searched, &asked, &certificate, &recall_adaptive);
    }
    certificate.recall = recall;
    certificate.adaptive = recall_adaptive;
    certificate.filtered = Some(filtered(&searched, &asked, &lists, &certificate, control)?);
    Ok(certificate)
}

/// As it is stored with the shard; shards of earlier releases have the questions, but not the answers.
pub fn stored_ground_truth(shard: &DenseShard, path: &Path) -> Result<GroundTruth, Error> {
    let n = shard.len();
    if path.exists() {
        return Ok(GroundTruth::open(path, shard.meta().model.dim, n)?);
    }
    let nodes = order::sample_numbers(n, QUERIES, shard.meta().build.seed ^ SAMPLE_SEED);
    Ok(GroundTruth {
        questions: CertificateQuestions::Nodes(nodes),
        neighbours: Vec::new(),
        nodes: n,
    })
}

/// The exact nearest nodes of these questions among all of a shard, deleted or not, as deep as a certificate needs
/// them. Runs on the current rayon pool.
pub fn nearest_of(
    shard: &DenseShard,
    questions: CertificateQuestions,
    control: JobControl<'_>,
) -> Result<GroundTruth, Error> {
    let nodes = shard.len();
    let asked = queries(shard, &questions);
    let unknown = GroundTruth {
        questions,
        neighbours: Vec::new(),
        nodes,
    };
    let (live, slots) = (NodeSet::all(nodes), invert_order(shard.graph().order()));
    let searched = LiveSearch {
        shard,
        live: &live,
        slots: &slots,
    };
    let lists = lists(&searched, &unknown, &asked, control)?;
    let depth = lists.iter().map(Vec::len).min().unwrap_or(0);
    let neighbours = lists
        .iter()
        .flat_map(|list| list.iter().take(depth).map(|hit| hit.node))
        .collect();
    Ok(GroundTruth { neighbours, ..unknown })
}

/// What becomes of questions that are out of distribution, for a shard that an earlier release has built.
fn far(
    searched: &LiveSearch<'_>,
    asked: &[LiveQuestion],
    certificate: &Certificate,
    widths: &[RecallPoint],
) -> Vec<RecallPoint> {
    let (shard, live) = (searched.shard, searched.live);
    let (metric, seed) = (shard.meta().model.metric, shard.meta().build.seed);
    let nodes = order::sample_numbers(shard.len(), QUERIES, seed ^ SAMPLE_SEED);
    let sample = queries(shard, &CertificateQuestions::Nodes(nodes));
    let sample: Vec<&[f32]> = sample.iter().map(|document| document.row.as_slice()).collect();
    let far = far_questions(asked.iter().map(|asked| asked.row.as_slice()), &sample, metric, seed);
    let rows = far.chunks_exact(shard.meta().model.dim.max(1));
    let far: Vec<LiveQuestion> = rows
        .map(|row| LiveQuestion {
            row: row.to_vec(),
            node: None,
        })
        .collect();
    let exact: Vec<Vec<Scored>> = far
        .par_iter()
        .map(|question| shard.search_exact(&question.row, 10, Some(live)).hits)
        .collect();
    let at = |point: &RecallPoint| {
        let params = SearchParams {
            adaptive: true,
            ..SearchParams::new(10, point.ef)
        };
        let one = |(asked, exact): (&LiveQuestion, &Vec<Scored>)| {
            let found = searched.search(asked, certificate, &params);
            (
                recall_share(&found.hits, exact, 10),
                0.0,
                found.cost.total(),
                found.cost.scored,
            )
        };
        let measured: Vec<(f64, f64, u64, u64)> = far.par_iter().zip(&exact).map(one).collect();
        average_recall(point.ef, false, &measured)
    };
    widths.iter().map(at).collect()
}

fn queries(shard: &DenseShard, questions: &CertificateQuestions) -> Vec<LiveQuestion> {
    match questions {
        CertificateQuestions::Nodes(nodes) => {
            let rows = shard.rows();
            let row = |node: u32| {
                let mut row = Vec::new();
                rows.decode(node, &mut row);
                row
            };
            nodes
                .iter()
                .map(|&node| LiveQuestion {
                    row: row(node),
                    node: Some(node),
                })
                .collect()
        }
        CertificateQuestions::Vectors { dim, values } => values
            .chunks_exact((*dim).max(1))
            .map(|row| LiveQuestion {
                row: row.to_vec(),
                node: None,
            })
            .collect(),
    }
}

/// The nearest live nodes of each question, itself left out, with their exact scores.
fn lists(
    searched: &LiveSearch<'_>,
    truth: &GroundTruth,
    asked: &[LiveQuestion],
    control: JobControl<'_>,
) -> Result<Vec<Vec<Scored>>, Error> {
    let LiveSearch { shard, live, .. } = *searched;
    let (rows, metric, depth) = (shard.rows(), shard.meta().model.metric, truth.depth());
    let own = usize::from(matches!(truth.questions, CertificateQuestions::Nodes(_)));
    // The lists of a small shard hold all of its nodes.
    let is_whole = depth + own >= shard.len();
    let known = |(at, asked): (usize, &LiveQuestion)| {
        let question = RowQuestion::new(&rows, &asked.row, metric);
        let nodes = truth.neighbours.get(at * depth..(at + 1) * depth).unwrap_or_default();
        let left = nodes.iter().filter(|node| live.contains(**node));
        let mut left: Vec<Scored> = left
            .map(|&node| Scored {
                node,
                score: question.score(node),
            })
            .collect();
        // Vectors that are stored in f16 may rank in another order than those that were given.
        left.sort_unstable_by(|a, b| b.cmp(a));
        left
    };
    let mut lists: Vec<Vec<Scored>> = asked.par_iter().enumerate().map(known).collect();
    // The margins of all questions reach as far as the shortest list, and filters leave the least of it: where the
    // documents near a question are deleted, it must not be the one that decides.
    let mut lengths: Vec<usize> = lists.iter().map(Vec::len).collect();
    lengths.sort_unstable();
    let typical = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let needed = NEEDED.max(typical / 4);
    let short = |(list, asked): (&Vec<Scored>, &LiveQuestion)| {
        let others = live.len() - usize::from(asked.node.is_some_and(|node| live.contains(node)));
        !is_whole && list.len() < needed.min(others)
    };
    let missing: Vec<usize> = lists
        .iter()
        .zip(asked)
        .enumerate()
        .filter(|(_, pair)| short(*pair))
        .map(|(at, _)| at)
        .collect();
    let depth = DEEPEST_RANK.min(live.len());
    let scan = |numbers: &[usize]| -> Result<Vec<Vec<Scored>>, Error> {
        control.check()?;
        let chosen: Vec<&LiveQuestion> = numbers.iter().filter_map(|at| asked.get(*at)).collect();
        let rows: Vec<&[f32]> = chosen.iter().map(|asked| asked.row.as_slice()).collect();
        let mut found = vec![Vec::new(); chosen.len()];
        let mut cancelled = false;
        let own: Vec<Vec<u32>> = chosen.iter().map(|asked| searched.same_vector(asked)).collect();
        let most = own.iter().map(Vec::len).max().unwrap_or(0);
        shard.search_exact_batch(&rows, depth + most, Some(live), control.cancel, |number, mut hits| {
            cancelled |= hits.is_cancelled();
            if let (Some(place), Some(own)) = (found.get_mut(number), own.get(number)) {
                hits.hits.retain(|hit| !own.contains(&hit.node));
                hits.hits.truncate(depth);
                *place = hits.hits;
            }
        });
        if cancelled { Err(Error::Cancelled) } else { Ok(found) }
    };
    let scanned: Vec<Vec<Vec<Scored>>> = missing.par_chunks(SCAN_BATCH).map(scan).collect::<Result<_, Error>>()?;
    for (at, list) in missing.into_iter().zip(scanned.into_iter().flatten()) {
        if let Some(place) = lists.get_mut(at) {
            *place = list;
        }
    }
    Ok(lists)
}

/// Measures recall through filters.
fn filtered(
    of: &LiveSearch<'_>,
    asked: &[LiveQuestion],
    lists: &[Vec<Scored>],
    certificate: &Certificate,
    control: JobControl<'_>,
) -> Result<Vec<FilteredRecall>, Error> {
    let (shard, live) = (of.shard, of.live);
    let same: Vec<Vec<u32>> = asked.iter().map(|asked| of.same_vector(asked)).collect();
    let pairs = asked.iter().zip(lists).zip(&same);
    let asked: Vec<_> = pairs
        .map(|((asked, nearest), same)| FilteredQuestion {
            row: &asked.row,
            same,
            nearest,
        })
        .collect();
    let search = |queries: &[&[f32]], params: &SearchParams<'_>, _: &mut SearchScratch| {
        let mut all = vec![SearchHits::default(); queries.len()];
        shard.search_batch(queries, params, |number, hits| {
            if let Some(place) = all.get_mut(number) {
                *place = hits;
            }
        });
        all
    };
    let (nodes, seed) = (shard.len(), shard.meta().build.seed);
    let searched = SearchedShard {
        nodes,
        live: some_are_deleted(shard, live),
        certificate,
        seed,
    };
    certify_filtered(&asked, &searched, search, control)
}
