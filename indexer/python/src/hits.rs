//! What was found, as arrays: numbers where the keys of the index are numbers, and texts otherwise.

use dyad_index::Snapshot;
use dyad_index::search::SearchHits;
use dyad_index::snapshot::DocumentHit;
use numpy::{IntoPyArray as _, PyArrayMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Keys that are looked at to tell whether they are numbers.
const LOOKED_AT: usize = 64;

/// What the keys of an index are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// Whole numbers, as they are given where a build names no keys.
    Numbers,
    /// Texts.
    Texts,
}

impl KeyKind {
    /// Of an index, by some of its keys.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        for (at, shard) in snapshot.shards().iter().enumerate() {
            let step = (shard.dense.len() / LOOKED_AT).max(1);
            let looked_at = (0..shard.dense.len()).step_by(step);
            let is_number = |node: usize| {
                snapshot
                    .key(at, node as u32)
                    .is_some_and(|key| number_of(key).is_some())
            };
            if !looked_at.into_iter().all(is_number) {
                return Self::Texts;
            }
        }
        Self::Numbers
    }
}

/// The number that a key is, written as numbers are.
fn number_of(key: &str) -> Option<i64> {
    let number: i64 = key.parse().ok()?;
    let is_plain = key == "0" || !key.starts_with(['0', '-', '+']);
    is_plain.then_some(number)
}

/// The arrays of ids and of scores.
pub(crate) type FoundHits<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The form of the arrays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HitArrays {
    /// Places for the hits of each question.
    pub(crate) k: usize,
    /// Whether one question was asked, whose arrays have one dimension.
    pub(crate) is_one: bool,
}

/// Ids and scores of the hits of each question, `k` of each: arrays of one row where one question was asked. Where
/// there are fewer, ids are -1 or None, and scores NaN. Ids are texts, too, where a hit's key is no number.
pub(crate) fn arrays<'py>(
    py: Python<'py>,
    snapshot: &Snapshot,
    kind: KeyKind,
    found: &[SearchHits<DocumentHit>],
    form: HitArrays,
) -> PyResult<FoundHits<'py>> {
    let HitArrays { k, is_one } = form;
    let count = found.len() * k;
    let mut scores = vec![f32::NAN; count];
    let mut keys: Vec<Option<&str>> = vec![None; count];
    for (number, hits) in found.iter().enumerate() {
        for (rank, hit) in hits.hits.iter().take(k).enumerate() {
            let place = number * k + rank;
            if let (Some(score), Some(key)) = (scores.get_mut(place), keys.get_mut(place)) {
                (*score, *key) = (hit.score, snapshot.key(hit.shard, hit.node));
            }
        }
    }
    let shape = (found.len(), k);
    let scores = scores.into_pyarray(py);
    let numbers = || -> Option<Vec<i64>> { keys.iter().map(|key| key.map_or(Some(-1), number_of)).collect() };
    // A key that was not looked at may be a text.
    let ids = if let Some(ids) = (kind == KeyKind::Numbers).then(numbers).flatten() {
        ids.into_pyarray(py).into_any()
    } else {
        let list = PyList::new(py, keys)?;
        py.import("numpy")?.call_method1("array", (list, "object"))?
    };
    if is_one {
        return Ok((ids, scores.into_any()));
    }
    let scores = scores
        .reshape([shape.0, shape.1])
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((ids.call_method1("reshape", (shape,))?, scores.into_any()))
}
