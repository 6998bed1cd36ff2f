//! The methods of `Index` that change it.

use std::sync::Arc;

use dyad_corpus::Document;
use dyad_files::space::free_space;
use dyad_indexer::change::{
    ChangeOutcome, MergeCandidates, MergeConfig, Operation, Passages, UpsertConfig, delete, merge, upsert,
};
use dyad_indexer::graph_build::CertificateSample;
use dyad_indexer::source::Corpus;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{json_of, texts_of, threads_of};
use crate::documents::GivenDocuments;
use crate::index::NativeIndex;
use crate::interrupt::interruptible;
use crate::vectors::{PythonVectors, row_source};

impl NativeIndex {
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
        vectors.check("vectors", &model)?;
        let config = UpsertConfig {
            index: self.opened.whole_index()?.to_owned(),
            operation,
            sample: CertificateSample::Full,
            threads: threads_of(threads),
            queries: None,
            passages: Passages::None,
            dry_run: false,
            free_space,
        };
        let (dim, values) = (vectors.dim, vectors.values()?);
        let outcome = interruptible(py, None, |control| {
            let mut batch = Corpus::Given(documents).open(false)?;
            upsert(&config, &mut *batch, &mut row_source(model, dim, values), control)
        })?;
        self.changed(py, &outcome)
    }
}

#[pymethods]
impl NativeIndex {
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
        let index = self.opened.whole_index()?;
        let outcome = interruptible(py, None, |control| delete(index, &keys, false, control))?;
        self.changed(py, &outcome)
    }

    /// Merges all shards into one.
    fn merge<'py>(&self, py: Python<'py>, threads: usize) -> PyResult<Bound<'py, PyDict>> {
        let config = MergeConfig {
            index: self.opened.whole_index()?.to_owned(),
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
}
