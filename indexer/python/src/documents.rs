//! Keys, texts and metadata as documents.

use std::collections::HashMap;
use std::sync::Arc;

use dyad_corpus::{Document, Metadata, check_key};
use dyad_index::lexical::StoredDocument;
use pyo3::prelude::*;

use crate::problem::refused;

/// A stored document, as a dict.
#[derive(Debug, IntoPyObject)]
pub(crate) struct PythonDocument {
    key: String,
    title: String,
    text: String,
    /// An object, or nothing.
    metadata_json: String,
}

impl From<StoredDocument> for PythonDocument {
    fn from(document: StoredDocument) -> Self {
        let StoredDocument {
            key,
            title,
            text,
            metadata_json,
        } = document;
        Self {
            key,
            title,
            text,
            metadata_json,
        }
    }
}

/// What is given of documents, next to their vectors: a list for each, or nothing.
#[derive(Debug, Default)]
pub(crate) struct GivenDocuments {
    pub(crate) keys: Option<Vec<String>>,
    pub(crate) texts: Option<Vec<String>>,
    pub(crate) titles: Option<Vec<String>>,
    /// JSON of each.
    pub(crate) metadata: Option<Vec<Option<String>>>,
}

impl GivenDocuments {
    /// One document for each of `count` vectors. Without keys, each has the number of its row as its key.
    pub(crate) fn into_documents(self, count: usize) -> PyResult<Arc<[Document]>> {
        let lengths = [
            ("keys", self.keys.as_ref().map(Vec::len)),
            ("texts", self.texts.as_ref().map(Vec::len)),
            ("titles", self.titles.as_ref().map(Vec::len)),
            ("metadata", self.metadata.as_ref().map(Vec::len)),
        ];
        for (field, length) in lengths {
            if let Some(got) = length.filter(|length| *length != count) {
                return Err(refused(field, &format!("{count}, one for each vector"), got));
            }
        }
        let mut texts = self.texts.unwrap_or_default().into_iter();
        let mut titles = self.titles.unwrap_or_default().into_iter();
        let mut metadata = self.metadata.unwrap_or_default().into_iter();
        let mut keys = self.keys.map(Vec::into_iter);
        let mut documents = Vec::with_capacity(count);
        for number in 0..count {
            let key = match &mut keys {
                Some(keys) => keys.next().unwrap_or_default(),
                None => number.to_string(),
            };
            let json = metadata.next().flatten();
            documents.push(Document {
                key,
                title: titles.next().unwrap_or_default(),
                text: texts.next().unwrap_or_default(),
                metadata: json.map_or(Ok(None), |json| parsed(number, &json))?,
                place: None,
            });
        }
        check_keys(&documents)?;
        Ok(documents.into())
    }
}

fn parsed(number: usize, json: &str) -> PyResult<Option<Metadata>> {
    Metadata::parse(json).map_err(|error| refused(&format!("metadata[{number}]"), "an object of JSON", error))
}

/// Refuses keys that no document may have, and those that come twice.
fn check_keys(documents: &[Document]) -> PyResult<()> {
    let mut seen = HashMap::with_capacity(documents.len());
    for (number, document) in documents.iter().enumerate() {
        let field = || format!("keys[{number}]");
        check_key(&document.key).map_err(|problem| refused(&field(), "a key", problem))?;
        if let Some(before) = seen.insert(document.key.as_str(), number) {
            let got = format!("`{}`, which is that of document {before} too", document.key);
            return Err(refused(&field(), "a key that no other document has", got));
        }
    }
    Ok(())
}
