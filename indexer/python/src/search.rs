//! Searches for one question or many.

use dyad_index::search::{NodeSet, SearchHits};
use dyad_index::snapshot::{DenseParams, DocumentHit};
use dyad_index::{Never, Snapshot};
use rayon::prelude::*;

use crate::hybrid::{AskedText, search_text};

/// Questions of one task of a batch that several threads answer.
const QUESTIONS: usize = 16;

/// What a search is.
pub(crate) struct AskedSearch<'a> {
    pub(crate) params: DenseParams,
    /// The nodes of each shard that can be hits; all where there is nothing.
    pub(crate) allowed: Option<&'a [NodeSet]>,
    /// How many share the questions of a batch.
    pub(crate) threads: usize,
}

/// Searches for many questions, by several threads where that is asked for.
pub(crate) fn search_all(
    snapshot: &Snapshot,
    questions: &[&[f32]],
    asked: &AskedSearch<'_>,
) -> Result<Vec<SearchHits<DocumentHit>>, dyad_index::Error> {
    let search = |some: &[&[f32]]| snapshot.search_dense(some, &asked.params, asked.allowed, &Never);
    if asked.threads == 1 || questions.len() <= 1 {
        return search(questions);
    }
    let parts: Vec<_> = questions.par_chunks(QUESTIONS).map(search).collect::<Result<_, _>>()?;
    Ok(parts.into_iter().flatten().collect())
}

/// Searches by the texts of many questions, and by their vectors, one row of `rows` for each, where there are any.
pub(crate) fn search_texts(
    snapshot: &Snapshot,
    texts: &[String],
    rows: &[f32],
    asked: &AskedText<'_>,
    threads: usize,
) -> Result<Vec<SearchHits<DocumentHit>>, dyad_index::Error> {
    let dim = snapshot.manifest().model.dim.max(1);
    let one = |(number, text): (usize, &String)| {
        let vector = rows.chunks_exact(dim).nth(number);
        search_text(snapshot, text, vector, asked)
    };
    if threads == 1 || texts.len() <= 1 {
        return texts.iter().enumerate().map(one).collect();
    }
    texts.par_iter().enumerate().map(one).collect()
}

/// The rows, scaled to length 1 where they have a direction.
pub(crate) fn unit_rows(values: &[f32], dim: usize) -> Vec<f32> {
    let mut rows = values.to_vec();
    for row in rows.chunks_exact_mut(dim.max(1)) {
        let length = row
            .iter()
            .map(|value| f64::from(*value) * f64::from(*value))
            .sum::<f64>()
            .sqrt();
        if length >= f64::from(f32::MIN_POSITIVE) {
            for value in row {
                *value = (f64::from(*value) / length) as f32;
            }
        }
    }
    rows
}
