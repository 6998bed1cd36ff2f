//! The class `Index`: one generation of an index at a time, which a change replaces.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use dyad_files::space::free_space;
use dyad_index::ModelRecord;
use dyad_index::format::RowType;
use dyad_index::snapshot::{IndexMemory, Shard};
use dyad_indexer::graph_build::{BuildParams, BuilderKind};
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::Corpus;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tempfile::TempDir;

use crate::arguments::{json_of, metric_of, row_type_of, texts_of, threads_of};
use crate::documents::GivenDocuments;
use crate::filters::key_of;
use crate::generation::{OpenGeneration, OpenedPath};
use crate::interrupt::interruptible;
use crate::problem::{of_files, of_index, refused};
use crate::vectors::{PythonVectors, row_source};

/// An index in a directory.
#[pyclass(module = "dyad_search._native", frozen)]
pub(crate) struct NativeIndex {
    path: PathBuf,
    pub(crate) opened: OpenedPath,
    /// What is served at present. Readers keep what they have while a change replaces it.
    current: RwLock<Arc<OpenGeneration>>,
    /// Of an index that was built without a path: it goes with the object.
    _temporary: Option<TempDir>,
}

impl NativeIndex {
    fn at(path: PathBuf, temporary: Option<TempDir>) -> PyResult<Self> {
        let opened = OpenedPath::new(&path);
        Ok(Self {
            current: RwLock::new(Arc::new(OpenGeneration::open(&opened, None)?)),
            opened,
            path,
            _temporary: temporary,
        })
    }

    pub(crate) fn current(&self) -> Arc<OpenGeneration> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves the generation that is current on the disk.
    pub(crate) fn follow(&self, py: Python<'_>) -> PyResult<()> {
        let before = self.current();
        let next = Arc::new(py.detach(|| OpenGeneration::open(&self.opened, Some(&before)))?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }
}

#[pymethods]
impl NativeIndex {
    /// Builds an index of vectors, and opens it.
    #[staticmethod]
    #[pyo3(signature = (
        vectors, *, metric, dtype, dimensions, m, ef_construction, keys, texts, titles, metadata, model, threads,
        path, seed, progress
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are those of a method of Python, by their names"
    )]
    fn build(
        py: Python<'_>,
        vectors: &Bound<'_, PyAny>,
        metric: &str,
        dtype: &str,
        dimensions: Option<usize>,
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
        given.check_finite("vectors")?;
        let row_type = row_type_of(dtype)?;
        if given.count == 0 && row_type == RowType::Int8 {
            // The type of vectors is that of an index's shards, of which this one has none.
            return Err(refused(
                "dtype",
                "`float32` or `float16` without vectors, or at least one vector",
                "`int8` without vectors",
            ));
        }
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
            full_dim: None,
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
            row_type,
            dimensions,
            language: None,
            queries: None,
            target: None,
            new_model: false,
            allow_empty: true,
            memory: None,
            free_space,
        };
        let (given_dim, values) = (given.dim, given.values()?);
        interruptible(py, progress, |control| {
            build_index(&config, &mut row_source(model, given_dim, values), control).map(drop)
        })?;
        Self::at(path, temporary)
    }

    /// Opens an index.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| Self::at(path, None))
    }

    /// What each shard has measured, as JSON.
    fn certificate(&self) -> PyResult<String> {
        let current = self.current();
        let all: Vec<_> = current.snapshot.shards().iter().map(Shard::certificate).collect();
        serde_json::to_string(&all).map_err(|error| refused("certificate", "numbers", error))
    }

    /// Bytes of memory, by what for.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let needed = IndexMemory::from_snapshot(&self.current().snapshot);
        let told = PyDict::new(py);
        told.set_item("hot", needed.hot)?;
        told.set_item("cold", needed.cold)?;
        told.set_item("anonymous", needed.anonymous)?;
        Ok(told)
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
