//! What a certificate is measured by: the vectors, the questions, and the exact nearest of these.
//!
//! Documents with one vector are one node of the graph, and all of them hits. Questions are sampled from the distinct
//! vectors, and compared with these.

use dyad_index::format::RowType;
use dyad_index::search::{RowRange, SCAN_BATCH, VectorRows, exact_scan};
use dyad_index::{Metric, QuerySource, Scored, VectorGroups};
use rayon::prelude::*;

use super::calibration::{SAMPLE_SEED, score_length};
use super::order;
use super::questions::HELD_OUT;
use super::recall::drop_own_hit;
use super::recall_gate::RecallGate;
use crate::control::JobControl;
use crate::error::Error;

/// Documents that serve as questions; all of a smaller shard.
pub const QUERIES: usize = 500;
/// Rows that all questions are compared with before the next rows: 200 MB of 384 values.
const SCANNED_ROWS: usize = 1 << 17;

/// The vectors of a shard.
#[derive(Clone, Copy)]
pub struct ShardVectors<'a> {
    /// As they were given: exact hits are found among these.
    pub given: &'a dyn VectorRows,
    /// The type in which the shard stores them, and in which searches score them.
    pub served_as: RowType,
    /// The documents of each distinct vector; none where all vectors differ.
    pub groups: Option<&'a VectorGroups>,
}

impl<'a> ShardVectors<'a> {
    /// The document of a distinct vector that stands for it in the graph.
    fn first_with(&self, number: u32) -> u32 {
        let first = self.groups.and_then(|groups| groups.nodes(number).first().copied());
        first.unwrap_or(number)
    }

    /// The documents that have the vector of a question, where it is one of them.
    pub(super) fn documents_with<'q>(&self, asked: &'q GraphQuestion<'_>) -> &'q [u32]
    where
        'a: 'q,
    {
        match (self.groups, asked.vector) {
            (Some(groups), Some(number)) => groups.nodes(number),
            _ => asked.node.as_slice(),
        }
    }

    /// Hits among the distinct vectors as hits among the documents, of which each has the score of its vector; at most
    /// `depth`.
    fn documents_of(&self, vectors: &[Scored], depth: usize) -> Vec<Scored> {
        let Some(groups) = self.groups else {
            return vectors.get(..depth).unwrap_or(vectors).to_vec();
        };
        let documents = |hit: &Scored| {
            let score = hit.score;
            groups
                .nodes(hit.node)
                .iter()
                .map(move |node| Scored { node: *node, score })
        };
        vectors.iter().flat_map(documents).take(depth).collect()
    }
}

impl std::fmt::Debug for ShardVectors<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardVectors")
            .field("given", &self.given.len())
            .field("served_as", &self.served_as)
            .finish()
    }
}

/// A question.
#[derive(Clone, Copy)]
pub(super) struct GraphQuestion<'a> {
    pub(super) row: &'a [f32],
    /// Where it is a document, the number of its vector among the distinct ones.
    vector: Option<u32>,
    /// Where it is a document, its node.
    pub(super) node: Option<u32>,
}

impl<'a> GraphQuestion<'a> {
    /// A question that is no document.
    pub(super) fn of_row(row: &'a [f32]) -> Self {
        Self {
            row,
            vector: None,
            node: None,
        }
    }
}

/// The questions that the build was given, or documents; a sample of them by seed. `distinct` are the vectors of `rows`
/// that differ.
pub(super) fn ask<'a>(
    rows: ShardVectors<'_>,
    distinct: &'a dyn VectorRows,
    gate: &RecallGate<'a>,
    seed: u64,
) -> (Vec<GraphQuestion<'a>>, QuerySource) {
    let sample = |n: usize, limit: usize| order::sample_numbers(n, limit, seed ^ SAMPLE_SEED).into_iter();
    match gate.questions {
        Some(questions) if !questions.is_empty() => {
            let most = gate.sample.questions(distinct.len(), HELD_OUT);
            let asked = sample(questions.len(), most).map(|at| GraphQuestion::of_row(questions.row(at)));
            (asked.collect(), QuerySource::HeldOut)
        }
        _ => {
            let document = |number: u32| GraphQuestion {
                row: distinct.row(number),
                vector: Some(number),
                node: Some(rows.first_with(number)),
            };
            let most = gate.sample.questions(distinct.len(), QUERIES);
            (
                sample(distinct.len(), most).map(document).collect(),
                QuerySource::Documents,
            )
        }
    }
}

/// Questions, and what an exact scan finds for each.
pub(super) struct AnsweredQuestions<'a> {
    pub(super) asked: Vec<GraphQuestion<'a>>,
    /// The nearest distinct vectors, by their numbers.
    pub(super) vectors: Vec<Vec<Scored>>,
    /// The nearest documents, by their nodes: as many as vectors.
    pub(super) documents: Vec<Vec<Scored>>,
}

impl<'a> AnsweredQuestions<'a> {
    /// Finds the `depth` nearest of each.
    pub(super) fn scan(
        asked: Vec<GraphQuestion<'a>>,
        rows: ShardVectors<'_>,
        distinct: &dyn VectorRows,
        depth: usize,
        metric: Metric,
        control: JobControl<'_>,
    ) -> Result<Self, Error> {
        let vectors = exact(&asked, distinct, SCANNED_ROWS, depth, metric, control)?;
        let documents = vectors.iter().map(|list| rows.documents_of(list, depth)).collect();
        Ok(Self {
            asked,
            vectors,
            documents,
        })
    }

    /// The length of each as margins are divided by it.
    pub(super) fn lengths(&self, metric: Metric) -> Vec<f32> {
        self.asked.iter().map(|asked| score_length(asked.row, metric)).collect()
    }
}

/// The `depth` nearest of each question, itself left out, by comparing with every vector: all questions with `at_once`
/// rows, then with the next, so that rows that do not fit into memory are read from the disk once.
fn exact(
    asked: &[GraphQuestion<'_>],
    rows: &dyn VectorRows,
    at_once: usize,
    depth: usize,
    metric: Metric,
    control: JobControl<'_>,
) -> Result<Vec<Vec<Scored>>, Error> {
    let n = rows.len();
    let mut nearest: Vec<Vec<Scored>> = vec![Vec::new(); asked.len()];
    let mut searched = 0;
    for first in (0..n).step_by(at_once) {
        rows.read_ahead(first..first + 2 * at_once);
        let block = RowRange::new(rows, first, at_once);
        let batches = asked.par_chunks(SCAN_BATCH).zip(nearest.par_chunks_mut(SCAN_BATCH));
        batches.try_for_each(|(asked, nearest)| {
            let queries: Vec<&[f32]> = asked.iter().map(|asked| asked.row).collect();
            // A document finds itself too.
            let scanned = exact_scan(&block, &queries, depth + 1, metric, None, |_| {
                !control.cancel.is_cancelled()
            });
            for ((asked, nearest), found) in asked.iter().zip(nearest).zip(scanned) {
                if found.is_cancelled() {
                    return Err(Error::Cancelled);
                }
                let found = found.hits.into_iter().map(|hit| Scored {
                    node: first as u32 + hit.node,
                    ..hit
                });
                nearest.extend(drop_own_hit(found.collect(), asked.vector, depth));
                nearest.sort_unstable_by(|a, b| b.cmp(a));
                nearest.truncate(depth);
            }
            Ok(())
        })?;
        let scanned = asked.len() * (first + block.len()) / n;
        control.progress.advance((scanned - searched) as u64);
        searched = scanned;
    }
    Ok(nearest)
}

#[cfg(test)]
mod tests {
    use dyad_index::search::flat;

    use super::*;
    use crate::graph_build::tests::{cancelled, synthetic};

    #[test]
    fn the_exact_hits_are_those_of_the_flat_scan() {
        let rows = synthetic::Rows::clustered(700, 8, 9, 0.5, 2);
        for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
            let asked: Vec<GraphQuestion<'_>> = (0..40)
                .map(|node| GraphQuestion {
                    row: rows.row(node),
                    vector: (node % 2 == 0).then_some(node),
                    node: None,
                })
                .collect();
            for at_once in [15, 100, 350, 700, 1_000] {
                let exact = exact(&asked, &rows, at_once, 20, metric, JobControl::silent()).unwrap();
                for (asked, exact) in asked.iter().zip(exact) {
                    assert_eq!(
                        exact,
                        drop_own_hit(flat(&rows, asked.row, 21, metric, None), asked.vector, 20),
                        "{at_once}"
                    );
                }
            }
        }
        let stop = cancelled();
        assert!(matches!(
            super::exact(
                &[GraphQuestion::of_row(&[])],
                &rows,
                100,
                2,
                Metric::L2,
                JobControl {
                    cancel: &stop,
                    ..JobControl::silent()
                }
            ),
            Err(Error::Cancelled)
        ));
    }

    #[test]
    fn a_vector_counts_as_often_as_documents_have_it() {
        let rows = synthetic::Rows::clustered(5, 4, 2, 0.5, 2);
        let groups = VectorGroups::new(&[0, 0, 2, 0, 4]).unwrap();
        let hits = |nodes: &[u32]| -> Vec<Scored> {
            let best_first = nodes.iter().zip([0.9, 0.8, 0.7, 0.6]);
            best_first.map(|(&node, score)| Scored { node, score }).collect()
        };
        let of = |groups, depth| {
            let rows = ShardVectors {
                given: &rows,
                served_as: RowType::F32,
                groups,
            };
            rows.documents_of(&hits(&[2, 0, 1]), depth)
                .iter()
                .map(|hit| (hit.node, hit.score))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(Some(&groups), 10),
            [(4, 0.9), (0, 0.8), (1, 0.8), (3, 0.8), (2, 0.7)]
        );
        assert_eq!(of(Some(&groups), 3), [(4, 0.9), (0, 0.8), (1, 0.8)]);
        assert_eq!(of(None, 2), [(2, 0.9), (0, 0.8)]);
    }
}
