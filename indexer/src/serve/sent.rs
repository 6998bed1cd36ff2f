//! Documents as clients have sent them: kept as messages until their change is made, since parsed metadata take many
//! times the memory.

use std::iter::Enumerate;
use std::path::PathBuf;
use std::vec::IntoIter;

use dyad_corpus::{CorpusProblem, Document, Located, MAX_METADATA_BYTES, Metadata, compact_bytes};
use dyad_index::lexical::StoredDocument;
use dyad_proto::v1;

use crate::source::DocumentBatch;

/// Bytes of a document's texts.
pub(super) fn bytes_of(document: &v1::Document) -> usize {
    let v1::Document {
        key,
        title,
        text,
        metadata_json,
        etag,
    } = document;
    key.len() + title.len() + text.len() + metadata_json.len() + etag.as_ref().map_or(0, String::len)
}

/// The metadata of a document; none where there are no fields. The error says what was expected and what came.
pub(super) fn parse_metadata(document: &v1::Document) -> Result<Option<Metadata>, String> {
    if document.metadata_json.is_empty() {
        return Ok(None);
    }
    // Before they are parsed, since that takes many times the memory.
    let bytes = compact_bytes(&document.metadata_json);
    if bytes > MAX_METADATA_BYTES {
        return Err(format!(
            "expected at most {MAX_METADATA_BYTES} bytes without white space, got {bytes}"
        ));
    }
    Metadata::parse(&document.metadata_json).map_err(|error| format!("expected one JSON object: {error}"))
}

/// A document as an index would store it, without its text, which no filter looks at.
pub(super) fn stored_form(document: &v1::Document) -> Result<StoredDocument, String> {
    let metadata = parse_metadata(document).map_err(|problem| format!("`metadata_json`: {problem}"))?;
    Ok(StoredDocument {
        key: document.key.clone(),
        title: document.title.clone(),
        text: String::new(),
        metadata_json: metadata.map_or_else(String::new, |metadata| metadata.as_json().to_owned()),
    })
}

/// The documents of one call, each parsed when it is read.
pub(super) struct SentDocuments(Enumerate<IntoIter<v1::Document>>);

impl SentDocuments {
    pub(super) fn new(documents: Vec<v1::Document>) -> Self {
        Self(documents.into_iter().enumerate())
    }
}

impl Iterator for SentDocuments {
    type Item = Result<Located<Document>, dyad_corpus::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (number, message) = self.0.next()?;
        let line = number as u64 + 1;
        let metadata = match parse_metadata(&message) {
            Ok(metadata) => metadata,
            Err(message) => {
                let problem = CorpusProblem::Json { message };
                return Some(Err(dyad_corpus::Error::Line {
                    path: PathBuf::from("metadata_json"),
                    line,
                    problem,
                }));
            }
        };
        let v1::Document { key, title, text, .. } = message;
        Some(Ok(Located {
            value: Document {
                key,
                title,
                text,
                metadata,
                place: None,
            },
            line,
        }))
    }
}

impl DocumentBatch for SentDocuments {
    fn text_bytes(&self) -> Option<u64> {
        None
    }

    fn file_bytes(&self) -> Option<u64> {
        None
    }
}
