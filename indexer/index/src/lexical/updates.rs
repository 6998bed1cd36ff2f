//! Metadata of documents that were given others after their shard was built: a small text index of its own, so that
//! neither the shard nor its vectors are written again.
//!
//! `metadata/GGGGGG-<shard id>/` holds all such documents of the shard up to generation G: `nodes`, their nodes as
//! little-endian u32, ascending, and `text/`, a tantivy index in which document `i` is the `i`-th of these: key, title
//! and metadata, without the text, which BM25 goes on reading from the shard.

use std::path::Path;

use zerocopy::IntoBytes as _;

use super::{DocumentFilter, StoredDocument, TextDocument, TextShard, TextWriter};
use crate::error::{Error, Result};
use crate::language::TextLanguage;
use crate::search::NodeSet;
use dyad_files::Cancel;

/// The file of the nodes.
pub const NODES_FILE: &str = "nodes";
/// The directory of the tantivy index, as in a shard.
const TEXT_DIR: &str = "text";

/// The metadata of some documents of a shard.
#[derive(Debug)]
pub struct MetadataUpdates {
    text: TextShard,
    /// Ascending.
    nodes: Vec<u32>,
}

/// Writes updates into a new directory: nodes ascending, each with its document, whose text is left out.
pub fn write_updates<'a>(dir: &Path, documents: impl IntoIterator<Item = (u32, &'a StoredDocument)>) -> Result<()> {
    // It has no text to analyse.
    let mut text = TextWriter::create(&dir.join(TEXT_DIR), TextLanguage::default())?;
    let mut nodes: Vec<u32> = Vec::new();
    for (
        node,
        StoredDocument {
            key,
            title,
            metadata_json,
            ..
        },
    ) in documents
    {
        if nodes.last().is_some_and(|last| *last >= node) {
            let (expected, got) = ("ascending".to_owned(), node.to_string());
            return Err(Error::Mismatch {
                what: "nodes of updated metadata",
                expected,
                got,
            });
        }
        nodes.push(node);
        text.add_without_text(TextDocument {
            key,
            title,
            text: "",
            metadata_json,
        })?;
    }
    text.finish()?;
    let path = dir.join(NODES_FILE);
    fs_err::write(&path, nodes.as_bytes())?;
    Ok(fs_err::File::open(path)?.sync_all()?)
}

impl MetadataUpdates {
    /// Opens the updates of a shard of `documents` documents.
    pub fn open(dir: &Path, documents: usize) -> Result<Self> {
        let text = TextShard::open(&dir.join(TEXT_DIR))?;
        let path = dir.join(NODES_FILE);
        let bytes = fs_err::read(&path)?;
        let (words, rest) = bytes.as_chunks();
        let nodes: Vec<u32> = words.iter().map(|node| u32::from_le_bytes(*node)).collect();
        let is_valid = rest.is_empty()
            && nodes.windows(2).all(|pair| pair[0] < pair[1])
            && nodes.last().is_none_or(|last| (*last as usize) < documents);
        if !is_valid || nodes.len() != text.len() {
            return Err(Error::Format {
                path,
                part: "nodes".to_owned(),
                expected: format!("{} ascending nodes below {documents}", text.len()),
                got: "others".to_owned(),
                hint: "`dyad-indexer verify` says which file is damaged. Write an intact copy under another name and `mv` it there",
            });
        }
        Ok(Self { text, nodes })
    }

    /// Whether these are the updates in the directory of that name.
    pub fn dir_is(&self, name: &str) -> bool {
        self.text
            .path()
            .parent()
            .and_then(Path::file_name)
            .is_some_and(|own| own == name)
    }

    /// Documents with other metadata than their shard has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// No document has.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Their nodes, ascending.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// The index of their keys, titles and metadata.
    pub fn text(&self) -> &TextShard {
        &self.text
    }

    /// Key, title and metadata of a node; none where they are those of the shard.
    pub fn document(&self, node: u32) -> Result<Option<StoredDocument>> {
        match self.nodes.binary_search(&node) {
            Ok(at) => self.text.document(at as u32).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Replaces what a filter says of the shard's own metadata by what it says of these. False where the work was
    /// cancelled.
    pub fn apply(&self, filter: &DocumentFilter, allowed: &mut NodeSet, cancel: &dyn Cancel) -> Result<bool> {
        let Some(matching) = filter.nodes(&self.text, cancel)? else {
            return Ok(false);
        };
        for (at, node) in (0..).zip(&self.nodes) {
            if matching.contains(at) {
                allowed.insert(*node);
            } else {
                allowed.remove(*node);
            }
        }
        Ok(true)
    }
}
