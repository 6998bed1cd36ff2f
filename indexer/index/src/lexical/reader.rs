//! An opened text index: stored fields, and access for BM25.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use tantivy::schema::{FieldType, Schema, Value as _};
use tantivy::{DocAddress, Index, IndexReader, ReloadPolicy, Searcher, TantivyDocument};

use super::analyzer::Analyzer;
use super::column::KeptColumns;
use super::lengths::DocumentLengths;
use super::read_only::ReadOnlyDirectory;
use super::schema::{Fields, schema, schema_by};
use super::text_error;
use crate::error::{Error, Result};
use crate::language::TextLanguage;

/// Blocks of stored fields that a shard keeps uncompressed. A block is 16 KiB, or one document where that is larger: 1
/// MiB at most. tantivy's 100 would be 100 MiB for each shard of large documents.
const STORE_CACHE_BLOCKS: usize = 4;
/// The same of an index of whole documents, of which each may be as long as a file.
const DOCUMENT_CACHE_BLOCKS: usize = 1;

/// A document as the corpus gave it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredDocument {
    /// Unique key.
    pub key: String,
    /// Title.
    pub title: String,
    /// Text.
    pub text: String,
    /// One JSON object, or empty.
    pub metadata_json: String,
}

/// The text index of one shard.
pub struct TextShard {
    pub(super) searcher: Searcher,
    pub(super) fields: Fields,
    /// The analyzer by which its terms were made.
    pub(super) analyzer: Analyzer,
    /// Where documents have more terms than the index tells exactly; none of earlier releases.
    pub(super) lengths: Option<DocumentLengths>,
    path: PathBuf,
    pub(super) columns: KeptColumns,
}

impl std::fmt::Debug for TextShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextShard")
            .field("path", &self.path)
            .field("documents", &self.len())
            .finish_non_exhaustive()
    }
}

/// The analyzer that an index names, where its fields are those of this release.
fn analyzer_of(schema: &Schema) -> Option<Analyzer> {
    let body = schema.get_field("body").ok()?;
    let FieldType::Str(options) = schema.get_field_entry(body).field_type() else {
        return None;
    };
    let analyzer = Analyzer::named(options.get_indexing_options()?.tokenizer())?;
    (*schema == schema_by(analyzer).0).then_some(analyzer)
}

impl TextShard {
    /// Maps an index that [`TextWriter`](super::TextWriter) has written.
    pub fn open(dir: &Path) -> Result<Self> {
        Self::open_with(dir, STORE_CACHE_BLOCKS)
    }

    /// Opens an index of whole documents, which are stored and not searched.
    pub(super) fn open_stored(dir: &Path) -> Result<Self> {
        Self::open_with(dir, DOCUMENT_CACHE_BLOCKS)
    }

    fn open_with(dir: &Path, cached_blocks: usize) -> Result<Self> {
        let failed = text_error(dir);
        let damaged = |part: &str, expected: String, got: String| Error::Format {
            path: dir.to_owned(),
            part: part.to_owned(),
            expected,
            got,
            hint: "`dyad-indexer verify` says which file. Write an intact copy of it under another name and `mv` it there, or build \
                   the index again",
        };
        let (_, fields) = schema();
        // tantivy trusts the lengths in its files, and panics where a damaged one is out of range.
        let opened = std::panic::catch_unwind(AssertUnwindSafe(|| -> tantivy::Result<(Option<Analyzer>, Searcher)> {
            let index = Index::open(ReadOnlyDirectory::open(dir)?)?;
            let analyzer = analyzer_of(&index.schema());
            if let Some(analyzer) = analyzer {
                index.tokenizers().register(analyzer.name(), analyzer.build());
            }
            let reader: IndexReader = index
                .reader_builder()
                .reload_policy(ReloadPolicy::Manual)
                .doc_store_cache_num_blocks(cached_blocks)
                .try_into()?;
            Ok((analyzer, reader.searcher()))
        }));
        let Ok(opened) = opened else {
            return Err(damaged(
                "files",
                "those that the build has written".to_owned(),
                "damaged ones".to_owned(),
            ));
        };
        let (analyzer, searcher) = opened.map_err(&failed)?;
        let Some(analyzer) = analyzer else {
            return Err(damaged(
                "schema",
                "the fields and an analyzer of this release".to_owned(),
                "others".to_owned(),
            ));
        };
        let segments = searcher.segment_readers();
        if segments.len() > 1 || segments.iter().any(tantivy::SegmentReader::has_deletes) {
            return Err(damaged(
                "segments",
                "one without deletions".to_owned(),
                segments.len().to_string(),
            ));
        }
        let lengths = DocumentLengths::open(dir, searcher.num_docs() as usize)?;
        Ok(Self {
            searcher,
            fields,
            analyzer,
            lengths,
            path: dir.to_owned(),
            columns: KeptColumns::default(),
        })
    }

    /// Name of the analyzer that made its terms: that of its language, or of an earlier release.
    pub fn analyzer(&self) -> &'static str {
        self.analyzer.name()
    }

    /// The language of its texts.
    pub fn language(&self) -> TextLanguage {
        self.analyzer.language()
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Documents.
    pub fn len(&self) -> usize {
        self.searcher.num_docs() as usize
    }

    /// No documents at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stored fields of a node.
    pub fn document(&self, node: u32) -> Result<StoredDocument> {
        if node as usize >= self.len() {
            let (expected, got) = (format!("below {}", self.len()), node.to_string());
            return Err(Error::Mismatch {
                what: "node of a stored document",
                expected,
                got,
            });
        }
        let fields: TantivyDocument = self
            .searcher
            .doc(DocAddress::new(0, node))
            .map_err(text_error(&self.path))?;
        let text = |field| {
            fields
                .get_first(field)
                .and_then(|value| value.as_str())
                .unwrap_or_default()
                .to_owned()
        };
        Ok(StoredDocument {
            key: text(self.fields.key),
            title: text(self.fields.title),
            text: text(self.fields.text),
            metadata_json: text(self.fields.metadata),
        })
    }
}
