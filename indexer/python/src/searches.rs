//! The methods of `Index` that search.

use dyad_index::hybrid::Fusion;
use dyad_index::snapshot::DenseParams;
use dyad_index::{Metric, Snapshot};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::arguments::{texts_of, threads_of};
use crate::beam::{AskedBeam, beam_of};
use crate::documents::PythonDocument;
use crate::filters::GivenFilter;
use crate::hits::{FoundHits, HitArrays, arrays};
use crate::hybrid::{AskedText, fusion_of};
use crate::index::NativeIndex;
use crate::problem::{of_index, refused};
use crate::search::{AskedSearch, search_all, search_texts, unit_rows};
use crate::vectors::PythonVectors;

fn check_k(k: usize) -> PyResult<()> {
    if k == 0 {
        return Err(refused("k", "at least 1", k));
    }
    Ok(())
}

/// The rows as the index compares them, where they have to be cut or scaled for it.
fn compared_rows(snapshot: &Snapshot, given: &PythonVectors<'_>) -> PyResult<Option<Vec<f32>>> {
    let model = &snapshot.manifest().model;
    let mut cut = None;
    if given.dim != model.dim {
        let mut rows = Vec::with_capacity(given.count * model.dim);
        for row in given.values()?.chunks_exact(given.dim.max(1)) {
            let mut row = row.to_vec();
            model.cut(&mut row).map_err(of_index)?;
            rows.extend(row);
        }
        cut = Some(rows);
    }
    if model.metric != Metric::Cosine {
        return Ok(cut);
    }
    let rows = cut.as_deref().map_or_else(|| given.values(), Ok)?;
    Ok(Some(unit_rows(rows, model.dim)))
}

/// A fusion with another weight of the dense ranking, where one is given.
fn weighted(fusion: Fusion, dense_weight: Option<f64>) -> PyResult<Fusion> {
    match dense_weight {
        Some(weight) if !(0.0..=1.0).contains(&weight) => Err(refused("dense_weight", "from 0 to 1", weight)),
        Some(dense_weight) => Ok(Fusion { dense_weight, ..fusion }),
        None => Ok(fusion),
    }
}

#[pymethods]
impl NativeIndex {
    /// Ids and scores of the nearest documents.
    #[pyo3(signature = (vectors, k, *, ef, recall, exact, filter, threads))]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are those of a method of Python, by their names"
    )]
    fn search<'py>(
        &self,
        py: Python<'py>,
        vectors: &Bound<'py, PyAny>,
        k: usize,
        ef: Option<usize>,
        recall: Option<f64>,
        exact: bool,
        filter: Option<&Bound<'py, PyAny>>,
        threads: usize,
    ) -> PyResult<FoundHits<'py>> {
        check_k(k)?;
        let current = self.current();
        let snapshot = &current.snapshot;
        let given = PythonVectors::new("vectors", vectors)?;
        given.check("vectors", &snapshot.manifest().model)?;
        let filter = filter.map(GivenFilter::new).transpose()?;
        let beam = AskedBeam { ef, recall, exact };
        let mode = beam.mode(snapshot, k, filter.is_some())?;
        let allowed = py.detach(|| filter.map(|filter| filter.allowed(snapshot)).transpose())?;
        let asked = AskedSearch {
            params: DenseParams { k, mode },
            allowed: allowed.as_deref(),
            threads: threads_of(threads),
        };
        let (dim, compared) = (snapshot.manifest().model.dim, compared_rows(snapshot, &given)?);
        let questions: Vec<&[f32]> = match &compared {
            Some(compared) => compared.chunks_exact(dim.max(1)).collect(),
            None => given.values()?.chunks_exact(dim.max(1)).collect(),
        };
        let found = py
            .detach(|| search_all(snapshot, &questions, &asked))
            .map_err(of_index)?;
        let form = HitArrays {
            k,
            is_one: given.is_one,
        };
        arrays(py, snapshot, current.keys, &found, form)
    }

    /// Ids and scores of the best documents by BM25, fused with those of the nearest where there are vectors.
    #[pyo3(signature = (texts, vectors, k, *, ef, recall, exact, filter, dense_weight, depth, threads))]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are those of a method of Python, by their names"
    )]
    fn hybrid<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
        vectors: Option<&Bound<'py, PyAny>>,
        k: usize,
        ef: Option<usize>,
        recall: Option<f64>,
        exact: bool,
        filter: Option<&Bound<'py, PyAny>>,
        dense_weight: Option<f64>,
        depth: usize,
        threads: usize,
    ) -> PyResult<FoundHits<'py>> {
        check_k(k)?;
        let current = self.current();
        let snapshot = &current.snapshot;
        let is_one = texts.is_instance_of::<PyString>();
        let texts = if is_one {
            vec![texts.extract()?]
        } else {
            texts_of("texts", Some(texts))?.unwrap_or_default()
        };
        let given = vectors
            .map(|vectors| PythonVectors::new("vectors", vectors))
            .transpose()?;
        if let Some(given) = &given {
            given.check("vectors", &snapshot.manifest().model)?;
            if given.count != texts.len() {
                let expected = format!("{}, one for each text", texts.len());
                return Err(refused("vectors", &expected, given.count));
            }
        }
        let filter = filter.map(GivenFilter::new).transpose()?;
        let fusion = weighted(fusion_of(snapshot), dense_weight)?;
        let depth = depth.max(k).max(fusion.least_depth());
        let dense = match &given {
            Some(_) => Some(DenseParams {
                k: depth,
                mode: AskedBeam { ef, recall, exact }.mode(snapshot, depth, filter.is_some())?,
            }),
            None => None,
        };
        let allowed = py.detach(|| filter.map(|filter| filter.allowed(snapshot)).transpose())?;
        let asked = AskedText {
            k,
            allowed: allowed.as_deref(),
            dense,
            fusion,
        };
        let rows = match &given {
            Some(given) => match compared_rows(snapshot, given)? {
                Some(compared) => compared,
                None => given.values()?.to_vec(),
            },
            None => Vec::new(),
        };
        let threads = threads_of(threads);
        let found = py
            .detach(|| search_texts(snapshot, &texts, &rows, &asked, threads))
            .map_err(of_index)?;
        arrays(py, snapshot, current.keys, &found, HitArrays { k, is_one })
    }

    /// Key, title, text and the JSON of the metadata of each of these documents; none where there is no such document.
    fn documents(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Vec<Option<PythonDocument>>> {
        let keys = texts_of("keys", Some(keys))?.unwrap_or_default();
        let current = self.current();
        let snapshot = &current.snapshot;
        let read = |key: &String| {
            let Some((shard, node)) = snapshot.find(key)? else {
                return Ok(None);
            };
            Ok(Some(snapshot.document(shard, node)?.into()))
        };
        py.detach(|| keys.iter().map(read).collect::<Result<_, dyad_index::Error>>())
            .map_err(of_index)
    }

    /// The beam width for a recall, and why that recall is not guaranteed.
    fn ef_for(&self, recall: f64, k: usize, filtered: bool) -> PyResult<(usize, Option<String>)> {
        let beam = beam_of(&self.current().snapshot, recall, k, filtered)?;
        Ok((beam.ef, beam.note))
    }
}
