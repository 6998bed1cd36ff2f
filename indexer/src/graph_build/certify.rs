//! Measures a finished graph: recall and cost for a sweep of beam widths, against the exact scan.
//!
//! The questions are those that the build was given, or else documents of the shard, sampled by seed. A document finds
//! itself at once, so it is left out of the graph that is searched, of the hits and of the exact ones: recall is over
//! its *other* nearest documents. Documents have the distribution of the vectors, real questions often do not: a
//! certificate by documents compares graphs and shows decay, one by questions says what recall will be served. Searches
//! score vectors as the shard stores them; the exact hits are those of the vectors that were given, and so are the
//! scores that hits are judged by. A hit as near as the last exact one counts, so that duplicates cost nothing. Hits
//! are documents, as they are served: a vector that several have counts as often. Questions and margins are of distinct
//! vectors. `certify_filtered.rs` measures the same through filters.

use dyad_index::format::graph::LinksView;
use dyad_index::ground_truth::{CertificateQuestions, GroundTruth};
use dyad_index::quant::CodeRows;
use dyad_index::search::{
    ExactRows as _, PlannedQuestion, PlannedSearch, SearchHits, SearchParams, SearchScratch, ShardView, VectorRows,
    exact_scan,
};
use dyad_index::{
    Arranged, Certificate, ExpansionPoint, FilteredRecall, QuerySource, RecallPoint, Scored, VectorGroups,
};
use rayon::prelude::*;

use super::calibration::{DEEPEST_RANK, SAMPLE_SEED, calibrate_ranks, invert_order};
use super::certify_filtered::{FilteredQuestion, SearchedShard, certify_filtered};
use super::certify_questions::{AnsweredQuestions, GraphQuestion, QUERIES, ShardVectors, ask};
use super::copies::RowsOf;
use super::far_questions::{FAR_QUESTIONS, far_questions};
use super::order;
use super::questions::HELD_OUT;
use super::recall::{average_recall, recall_share, summarize_expansions};
use super::recall_gate::RecallGate;
use super::repair::Repaired;
use super::served::ServedRows;
use crate::control::JobControl;
use crate::error::Error;

/// What [`certify`] measured, and what by.
#[derive(Debug, Clone, PartialEq)]
pub struct Certified {
    /// Recall and margins.
    pub certificate: Certificate,
    /// The questions and their exact nearest nodes.
    pub ground_truth: GroundTruth,
}

/// Measures a graph over distinct vectors, `repaired`, as `arranged` serves it with all documents. Runs on the current
/// rayon pool.
///
/// Advances progress by one per search, of which there are [`count_searches()`]. Returns [`Error::Cancelled`] soon
/// after it is cancelled.
pub fn certify(
    repaired: &Repaired,
    arranged: &Arranged,
    rows: ShardVectors<'_>,
    gate: &RecallGate<'_>,
    seed: u64,
    control: JobControl<'_>,
) -> Result<Certified, Error> {
    let (graph, given) = (&repaired.graph, rows.given);
    let representatives = rows.groups.map(VectorGroups::representatives);
    let of_groups = representatives.as_ref().map(|nodes| RowsOf::new(given, nodes));
    let distinct: &dyn VectorRows = of_groups.as_ref().map_or(given, |rows| rows);
    let (asked, source) = ask(rows, distinct, gate, seed);
    let metric = arranged.codes.codec.metric();
    let others = distinct.len() - usize::from(source == QuerySource::Documents && !distinct.is_empty());
    let depth = others.min(DEEPEST_RANK);
    let answered = AnsweredQuestions::scan(asked, rows, distinct, depth, metric, control)?;
    let sampled = order::sample_numbers(distinct.len(), QUERIES, seed ^ SAMPLE_SEED);
    let sample: Vec<&[f32]> = sampled.into_iter().map(|number| distinct.row(number)).collect();
    let far = far_questions(answered.asked.iter().map(|asked| asked.row), &sample, metric, seed);
    let far = far
        .chunks_exact(given.dim().max(1))
        .map(GraphQuestion::of_row)
        .collect();
    let far = AnsweredQuestions::scan(far, rows, distinct, 10.min(distinct.len()), metric, control)?;
    let mut certificate = Certificate {
        vectors: given.len() as u64,
        unreachable_before_repair: repaired.unreachable_before,
        links_added: repaired.links_added,
        unreachable: graph.reachable().iter().filter(|reached| !**reached).count() as u64,
        queries: answered.asked.len() as u64,
        source,
        calibration: calibrate_ranks(&answered.vectors, &answered.lengths(metric), depth),
        ..Certificate::default()
    };
    let links = arranged.layout.view();
    let slots = invert_order(links.order());
    let codes = CodeRows::new(&slots, arranged.codes.view());
    let served = ServedRows::new(given, rows.served_as, codes);
    let view = ShardView {
        codes: arranged.codes.view(),
        links: &links,
        order: Some(links.order()),
        rows: &served,
        metric,
    };
    let asked_with = |kind| MeasuredQuestions {
        answered: &answered,
        slots: &slots,
        kind,
    };
    for ef in gate.widths() {
        control.check()?;
        certificate.expansions.push(measure_expansions(
            &FinishedGraph {
                view,
                certificate: &certificate,
            },
            &asked_with(BeamKind::Adaptive),
            ef,
        ));
        control.progress.advance(answered.asked.len() as u64);
    }
    // Adaptive searches become beams where a certificate says that those find more: it says nothing until all is
    // measured.
    let (mut recall, mut recall_adaptive, mut recall_far) = (Vec::new(), Vec::new(), Vec::new());
    for ef in gate.widths() {
        control.check()?;
        let planned = FinishedGraph {
            view,
            certificate: &certificate,
        };
        let (beam, adaptive) = (
            measure(&planned, &asked_with(BeamKind::Fixed), ef),
            measure(&planned, &asked_with(BeamKind::Adaptive), ef),
        );
        let far = MeasuredQuestions {
            answered: &far,
            slots: &slots,
            kind: BeamKind::Adaptive,
        };
        let far = measure(&planned, &far, ef);
        recall.push(beam);
        recall_adaptive.push(adaptive);
        recall_far.push(far);
        control.progress.advance(answered.asked.len() as u64);
    }
    certificate.recall = recall;
    certificate.adaptive = recall_adaptive;
    certificate.out_of_distribution = recall_far;
    let filtered = filtered(
        &FinishedGraph {
            view,
            certificate: &certificate,
        },
        &answered,
        rows,
        seed,
        control,
    )?;
    let certificate = Certificate {
        filtered: Some(filtered),
        ..certificate
    };
    Ok(Certified {
        certificate,
        ground_truth: ground_truth(&answered, source, given),
    })
}

fn ground_truth(answered: &AnsweredQuestions<'_>, source: QuerySource, rows: &dyn VectorRows) -> GroundTruth {
    let asked = answered.asked.iter();
    let questions = match source {
        QuerySource::Documents => CertificateQuestions::Nodes(asked.filter_map(|asked| asked.node).collect()),
        QuerySource::HeldOut => {
            let values = asked.flat_map(|asked| asked.row).copied().collect();
            CertificateQuestions::Vectors {
                dim: rows.dim(),
                values,
            }
        }
    };
    let neighbours = answered.documents.iter().flatten().map(|hit| hit.node).collect();
    GroundTruth {
        questions,
        neighbours,
        nodes: rows.len(),
    }
}

/// Searches that a certificate takes: for each question the exact one, and two for each beam width; and the exact ones
/// of far questions.
pub fn count_searches(n: usize, gate: &RecallGate<'_>) -> u64 {
    let asked = match gate.questions {
        Some(questions) if !questions.is_empty() => questions.len().min(gate.sample.questions(n, HELD_OUT)),
        _ => n.min(gate.sample.questions(n, QUERIES)),
    };
    let far = asked.min(FAR_QUESTIONS);
    asked as u64 * (1 + 2 * gate.widths().len() as u64) + far as u64
}

/// A finished graph, and its vectors as they will be served.
type FinishedGraph<'a> = PlannedSearch<'a, LinksView<'a>, ServedRows<'a>>;

/// How a beam width is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BeamKind {
    Fixed,
    Adaptive,
}

/// Questions, and how they are asked.
struct MeasuredQuestions<'a> {
    answered: &'a AnsweredQuestions<'a>,
    /// By node.
    slots: &'a [u32],
    kind: BeamKind,
}

impl MeasuredQuestions<'_> {
    /// The hits of one of them, itself left out: as a new question finds them, in a graph without the document that
    /// asks.
    fn search(
        &self,
        planned: &FinishedGraph<'_>,
        asked: &GraphQuestion<'_>,
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
    ) -> SearchHits<Scored> {
        let left_out = asked
            .node
            .and_then(|node| self.slots.get(node as usize))
            .map(std::slice::from_ref);
        let params = SearchParams {
            left_out,
            adaptive: self.kind == BeamKind::Adaptive,
            ..*params
        };
        planned.search_graph_alone(asked.row, &params, scratch)
    }
}

/// Scores hits by the vectors that were given: rounded scores cannot be compared with those of the exact hits.
fn exactly(planned: &FinishedGraph<'_>, mut hits: Vec<Scored>, row: &[f32]) -> Vec<Scored> {
    for hit in &mut hits {
        hit.score = planned.view.metric.score(row, planned.view.rows.rows.row(hit.node));
    }
    hits
}

/// Expansions at one beam width, of searches that their margin alone ends.
fn measure_expansions(planned: &FinishedGraph<'_>, questions: &MeasuredQuestions<'_>, ef: usize) -> ExpansionPoint {
    let one = |scratch: &mut SearchScratch, asked: &GraphQuestion<'_>| {
        let params = SearchParams {
            expansion_bound: Some(usize::MAX),
            ..SearchParams::new(10, ef)
        };
        questions.search(planned, asked, &params, scratch).cost.expanded
    };
    summarize_expansions(
        ef,
        questions
            .answered
            .asked
            .par_iter()
            .map_init(SearchScratch::default, one)
            .collect(),
    )
}

/// Measures one beam width, searched as it is served: with the margins and bounds of the certificate.
fn measure(planned: &FinishedGraph<'_>, questions: &MeasuredQuestions<'_>, ef: usize) -> RecallPoint {
    let AnsweredQuestions {
        asked,
        documents: exact,
        ..
    } = questions.answered;
    let wide = ef > 100 && exact.first().is_some_and(|exact| exact.len() >= 100);
    let measured: Vec<(f64, f64, u64, u64)> = asked
        .par_iter()
        .zip(exact)
        .map_init(SearchScratch::default, |scratch, (asked, exact)| {
            let mut search = |k: usize| questions.search(planned, asked, &SearchParams::new(k, ef), scratch);
            let found = search(10);
            let cost = found.cost;
            let at_10 = recall_share(&exactly(planned, found.hits, asked.row), exact, 10);
            let at_100 = if wide {
                recall_share(&exactly(planned, search(100).hits, asked.row), exact, 100)
            } else {
                0.0
            };
            (at_10, at_100, cost.total(), cost.scored)
        })
        .collect();
    average_recall(ef, wide, &measured)
}

/// Measures recall through filters.
fn filtered(
    planned: &FinishedGraph<'_>,
    answered: &AnsweredQuestions<'_>,
    rows: ShardVectors<'_>,
    seed: u64,
    control: JobControl<'_>,
) -> Result<Vec<FilteredRecall>, Error> {
    let (view, nodes) = (&planned.view, planned.view.rows.count());
    let pairs = answered.asked.iter().zip(&answered.documents);
    let asked: Vec<_> = pairs
        .map(|(asked, nearest)| FilteredQuestion {
            row: asked.row,
            same: rows.documents_with(asked),
            nearest,
        })
        .collect();
    let search = |queries: &[&[f32]], params: &SearchParams<'_>, scratch: &mut SearchScratch| {
        let mut all = vec![SearchHits::default(); queries.len()];
        let mut found = |number: usize, mut hits: SearchHits<Scored>| {
            hits.hits.truncate(params.k);
            if let (Some(place), Some(row)) = (all.get_mut(number), queries.get(number)) {
                *place = SearchHits {
                    hits: exactly(planned, hits.hits, row),
                    ..hits
                };
            }
        };
        for left in planned.search(&PlannedQuestion::all(queries), params, scratch, &mut found) {
            let hits = exact_scan(view.rows, &[left.query], params.k, view.metric, params.allowed, |_| {
                true
            })
            .pop();
            found(left.number, left.finish(hits.unwrap_or_default()));
        }
        all
    };
    let searched = SearchedShard {
        nodes,
        live: None,
        certificate: planned.certificate,
        seed,
    };
    certify_filtered(&asked, &searched, search, control)
}
