//! A certificate by documents says what other questions like them find.

use dyad_index::search::VectorRows as _;
use dyad_index::{Metric, SearchParams};
use rayon::prelude::*;

use super::filtered::served_by;
use super::synthetic::{Normal, Rows};
use crate::graph_build::BuildParams;

const DOCUMENTS: usize = 5_000;
const QUESTIONS: usize = 1_000;
const DIM: usize = 32;
/// What a certificate may be off by, from ef 64 on.
const NEAR: f64 = 0.01;
/// The same of narrower beams.
const NEAR_OF_NARROW: f64 = 0.035;
/// Recall from which on nothing is left to be off.
const ALL: f64 = 0.995;

/// Each document is searched for as if the graph had been built without it: not with the links that lead from its
/// neighbours to it and on to each other, nor with those neighbours' links missing.
#[test]
fn documents_find_what_other_questions_like_them_find() {
    let mut random = Normal::new(11);
    let values: Vec<f32> = (0..(DOCUMENTS + QUESTIONS) * DIM).map(|_| random.draw()).collect();
    let (documents, questions) = values.split_at(DOCUMENTS * DIM);
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        let of_length = |values: &[f32]| match metric {
            Metric::Cosine => Rows::new(values.to_vec(), DIM),
            _ => Rows::of(values.to_vec(), DIM),
        };
        let (rows, asked) = (of_length(documents), of_length(questions));
        let params = BuildParams {
            m: 12,
            ef_construction: 60,
            seed: 3,
            threads: 2,
        };
        let (_dir, shard) = served_by(&rows, metric, &params);
        let mut widths = 0;
        for point in shard
            .certificate()
            .recall
            .iter()
            .filter(|point| point.recall_at_10 < ALL)
        {
            let recall_of = |number: u32| {
                let question = asked.row(number);
                let last = shard.search_exact(question, 10, None).hits[9].score;
                let found = shard.search(question, &SearchParams::new(10, point.ef));
                found.hits.iter().filter(|hit| hit.score >= last).count() as f64 / 10.0
            };
            let all: Vec<f64> = (0..QUESTIONS as u32).into_par_iter().map(recall_of).collect();
            let truth = all.iter().sum::<f64>() / all.len() as f64;
            let said = point.recall_at_10;
            let near = if point.ef < 64 { NEAR_OF_NARROW } else { NEAR };
            assert!(
                (said - truth).abs() < near,
                "{metric:?}, ef {}: {said} said, {truth} found",
                point.ef
            );
            widths += usize::from(point.ef >= 64);
        }
        assert!(widths > 0, "{metric:?}: nearly all is found at ef 64");
    }
}
