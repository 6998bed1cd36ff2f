//! The class `Index`: one generation of an index at a time, which a change replaces.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use dyad_corpus::Document;
use dyad_files::space::free_space;
use dyad_index::format::RowType;
use dyad_index::snapshot::{DenseParams, SearchMode, Shard};
use dyad_index::{Metric, ModelRecord, Snapshot};
use dyad_indexer::change::{
    ChangeOutcome, MergeCandidates, MergeConfig, Operation, Passages, UpsertConfig, delete, merge, upsert,
};
use dyad_indexer::graph_build::{BuildParams, BuilderKind, CertificateSample};
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::Corpus;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tempfile::TempDir;

use crate::arguments::{json_of, metric_of, texts_of, threads_of};
use crate::documents::GivenDocuments;
use crate::filters::{GivenFilter, key_of};
use crate::hits::{HitArrays, KeyKind, arrays};
use crate::interrupt::interruptible;
use crate::problem::{of_files, of_index, refused};
use crate::search::{AskedSearch, search_all, unit_rows};
use crate::vectors::{PythonVectors, row_source};

/// An index in a directory.
#[pyclass(module = "dyad_search._native", frozen)]
pub(crate) struct NativeIndex {
    path: PathBuf,
    /// What is served at present. Readers keep what they have while a change replaces it.
    current: RwLock<Arc<OpenGeneration>>,
    /// Of an index that was built without a path: it goes with the object.
    _temporary: Option<TempDir>,
}

/// A generation, and what its keys are.
struct OpenGeneration {
    snapshot: Snapshot,
    keys: KeyKind,
}

impl OpenGeneration {
    fn open(path: &Path, before: Option<&Self>) -> PyResult<Self> {
        let snapshot = Snapshot::open_after(path, before.map(|before| &before.snapshot)).map_err(of_index)?;
        let keys = KeyKind::of(&snapshot);
        Ok(Self { snapshot, keys })
    }
}

impl NativeIndex {
    fn at(path: PathBuf, temporary: Option<TempDir>) -> PyResult<Self> {
        Ok(Self {
            current: RwLock::new(Arc::new(OpenGeneration::open(&path, None)?)),
            path,
            _temporary: temporary,
        })
    }

    fn current(&self) -> Arc<OpenGeneration> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves the generation that is current on the disk.
    fn follow(&self, py: Python<'_>) -> PyResult<()> {
        let before = self.current();
        let next = Arc::new(py.detach(|| OpenGeneration::open(&self.path, Some(&before)))?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// What a change came to, once it is served.
    fn changed<'py>(&self, py: Python<'py>, outcome: &ChangeOutcome) -> PyResult<Bound<'py, PyDict>> {
        self.follow(py)?;
        let told = PyDict::new(py);
        let generation = outcome.manifest.as_ref().map_or(0, |manifest| manifest.generation);
        told.set_item("generation", generation)?;
        told.set_item("documents", outcome.documents_after)?;
        told.set_item("indexed", outcome.change.indexed)?;
        told.set_item("unchanged", outcome.change.unchanged)?;
        told.set_item("rejected", outcome.change.rejected)?;
        Ok(told)
    }

    fn change_documents<'py>(
        &self,
        py: Python<'py>,
        operation: Operation,
        vectors: &PythonVectors<'py>,
        documents: Arc<[Document]>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let current = self.current();
        let model = current.snapshot.manifest().model.clone();
        vectors.check("vectors", model.dim)?;
        let config = UpsertConfig {
            index: self.path.clone(),
            operation,
            sample: CertificateSample::Full,
            threads: threads_of(threads),
            queries: None,
            passages: Passages::None,
            dry_run: false,
            free_space,
        };
        let values = vectors.values()?;
        let outcome = interruptible(py, None, |control| {
            let mut batch = Corpus::Given(documents).open(false)?;
            upsert(&config, &mut *batch, &mut row_source(model, values), control)
        })?;
        self.changed(py, &outcome)
    }
}

#[pymethods]
impl NativeIndex {
    /// Builds an index of vectors, and opens it.
    #[staticmethod]
    #[pyo3(signature = (
        vectors, *, metric, m, ef_construction, keys, texts, titles, metadata, model, threads, path, seed, progress
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are those of a method of Python, by their names"
    )]
    fn build(
        py: Python<'_>,
        vectors: &Bound<'_, PyAny>,
        metric: &str,
        m: usize,
        ef_construction: usize,
        keys: Option<&Bound<'_, PyAny>>,
        texts: Option<&Bound<'_, PyAny>>,
        titles: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        model: &str,
        threads: usize,
        path: Option<PathBuf>,
        seed: u64,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let given = PythonVectors::new("vectors", vectors)?;
        if given.is_one || given.dim == 0 {
            return Err(refused(
                "vectors",
                "rows of at least one number",
                "one row, or rows of none",
            ));
        }
        given.check("vectors", given.dim)?;
        let described = GivenDocuments {
            keys: texts_of("keys", keys)?,
            texts: texts_of("texts", texts)?,
            titles: texts_of("titles", titles)?,
            metadata: json_of(metadata)?,
        };
        let documents = described.into_documents(given.count)?;
        let temporary = match &path {
            Some(_) => None,
            None => Some(tempfile::tempdir().map_err(of_files)?),
        };
        let path = path.unwrap_or_else(|| {
            temporary
                .as_ref()
                .map(|folder| folder.path().join("index"))
                .unwrap_or_default()
        });
        let model = ModelRecord {
            name: model.to_owned(),
            fingerprint: format!("declared:{model}"),
            dim: given.dim,
            metric: metric_of(metric)?,
            max_tokens: 0,
        };
        let config = BuildConfig {
            corpus: Corpus::Given(documents),
            index: path.clone(),
            shards: 1,
            builder: BuilderKind::Native,
            params: BuildParams {
                m,
                ef_construction,
                seed,
                threads: threads_of(threads),
            },
            row_type: RowType::F32,
            language: None,
            queries: None,
            target: None,
            new_model: false,
            allow_empty: true,
            memory: None,
            free_space,
        };
        let values = given.values()?;
        interruptible(py, progress, |control| {
            build_index(&config, &mut row_source(model, values), control).map(drop)
        })?;
        Self::at(path, temporary)
    }

    /// Opens an index.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| Self::at(path, None))
    }

    /// Ids and scores of the nearest documents.
    #[pyo3(signature = (vectors, k, *, ef, exact, filter, threads))]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are those of a method of Python, by their names"
    )]
    fn search<'py>(
        &self,
        py: Python<'py>,
        vectors: &Bound<'py, PyAny>,
        k: usize,
        ef: usize,
        exact: bool,
        filter: Option<&Bound<'py, PyAny>>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        if k == 0 {
            return Err(refused("k", "at least 1", k));
        }
        let current = self.current();
        let snapshot = &current.snapshot;
        let model = &snapshot.manifest().model;
        let given = PythonVectors::new("vectors", vectors)?;
        given.check("vectors", model.dim)?;
        let filter = filter.map(GivenFilter::new).transpose()?;
        let allowed = py.detach(|| filter.map(|filter| filter.allowed(snapshot)).transpose())?;
        let asked = AskedSearch {
            params: DenseParams {
                k,
                mode: if exact {
                    SearchMode::Exact
                } else {
                    SearchMode::Adaptive { ef }
                },
            },
            allowed: allowed.as_deref(),
            threads: threads_of(threads),
        };
        let values = given.values()?;
        let scaled = match model.metric {
            Metric::Cosine => Some(unit_rows(values, given.dim)),
            Metric::Dot | Metric::L2 => None,
        };
        let questions: Vec<&[f32]> = scaled.as_deref().unwrap_or(values).chunks_exact(given.dim).collect();
        let found = py
            .detach(|| search_all(snapshot, &questions, &asked))
            .map_err(of_index)?;
        let form = HitArrays {
            k,
            is_one: given.is_one,
        };
        arrays(py, snapshot, current.keys, &found, form)
    }

    /// Adds documents, and replaces those whose keys are there, or refuses them.
    #[pyo3(signature = (vectors, *, keys, texts, titles, metadata, threads, replace))]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are those of a method of Python, by their names"
    )]
    fn upsert<'py>(
        &self,
        py: Python<'py>,
        vectors: &Bound<'py, PyAny>,
        keys: &Bound<'py, PyAny>,
        texts: Option<&Bound<'py, PyAny>>,
        titles: Option<&Bound<'py, PyAny>>,
        metadata: Option<&Bound<'py, PyAny>>,
        threads: usize,
        replace: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let given = PythonVectors::new("vectors", vectors)?;
        let described = GivenDocuments {
            keys: texts_of("keys", Some(keys))?,
            texts: texts_of("texts", texts)?,
            titles: texts_of("titles", titles)?,
            metadata: json_of(metadata)?,
        };
        let documents = described.into_documents(given.count)?;
        let operation = if replace {
            Operation::Upsert
        } else {
            Operation::Append { skip_existing: false }
        };
        self.change_documents(py, operation, &given, documents, threads)
    }

    /// Deletes documents by key.
    fn delete<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let keys = texts_of("keys", Some(keys))?.unwrap_or_default();
        let outcome = interruptible(py, None, |control| delete(&self.path, &keys, false, control))?;
        self.changed(py, &outcome)
    }

    /// Merges all shards into one.
    fn merge<'py>(&self, py: Python<'py>, threads: usize) -> PyResult<Bound<'py, PyDict>> {
        let config = MergeConfig {
            index: self.path.clone(),
            all: true,
            candidates: MergeCandidates::default(),
            sample: CertificateSample::Full,
            rebuild: false,
            language: None,
            max_documents: u64::MAX,
            threads: threads_of(threads),
            memory: None,
            dry_run: false,
            free_space,
        };
        let outcome = interruptible(py, None, |control| merge(&config, control))?;
        self.changed(py, &outcome)
    }

    /// What each shard has measured, as JSON.
    fn certificate(&self) -> PyResult<String> {
        let current = self.current();
        let all: Vec<_> = current.snapshot.shards().iter().map(Shard::certificate).collect();
        serde_json::to_string(&all).map_err(|error| refused("certificate", "numbers", error))
    }

    /// Serves the generation that others have published.
    fn reload(&self, py: Python<'_>) -> PyResult<u64> {
        self.follow(py)?;
        Ok(self.generation())
    }

    /// The directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The generation that is served.
    #[getter]
    fn generation(&self) -> u64 {
        self.current().snapshot.manifest().generation
    }

    /// Values of each vector.
    #[getter]
    fn dim(&self) -> usize {
        self.current().snapshot.manifest().model.dim
    }

    /// How vectors are compared.
    #[getter]
    fn metric(&self) -> String {
        self.current().snapshot.manifest().model.metric.to_string()
    }

    fn __len__(&self) -> usize {
        self.current().snapshot.len()
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = key_of("key", key)?;
        Ok(self.current().snapshot.find(&key).map_err(of_index)?.is_some())
    }
}
