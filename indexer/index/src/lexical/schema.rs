//! Fields: what is stored and what is searched.

use tantivy::schema::{BytesOptions, Field, IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions};

use super::analyzer::Analyzer;
use crate::language::TextLanguage;

/// The fields of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    /// Exact, stored.
    pub(super) key: Field,
    /// Stored.
    pub(super) title: Field,
    /// Stored.
    pub(super) text: Field,
    /// Stored: one JSON object as text, empty when there is none.
    pub(super) metadata: Field,
    /// Title and text together, searched: BM25 as the field's tools compute it for BEIR.
    pub(super) body: Field,
    /// Title and metadata as terms for filters, see `facts.rs`; not stored.
    pub(super) facts: Field,
}

/// The schema of an English index and its fields, which are those of all.
pub(super) fn schema() -> (Schema, Fields) {
    schema_by(Analyzer::Of(TextLanguage::English))
}

/// The same of an index that was written by this analyzer; its fields are the same.
pub(super) fn schema_by(analyzer: Analyzer) -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(analyzer.name())
        .set_index_option(IndexRecordOption::WithFreqs)
        .set_fieldnorms(true);
    let fields = Fields {
        key: builder.add_text_field("key", STRING | STORED),
        title: builder.add_text_field("title", STORED),
        text: builder.add_text_field("text", STORED),
        metadata: builder.add_text_field("metadata", STORED),
        body: builder.add_text_field("body", TextOptions::default().set_indexing_options(indexing)),
        facts: builder.add_bytes_field("facts", BytesOptions::default().set_indexed()),
    };
    (builder.build(), fields)
}
