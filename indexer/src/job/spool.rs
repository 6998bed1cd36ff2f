//! Spools documents and vectors of one shard to disk: the order of arrival is the order of nodes.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use dyad_corpus::Document;
use dyad_index::lexical::{TextDocument, TextWriter};
use dyad_index::shard::TEXT_DIR;
use dyad_index::storage::{Mapped, Scratch};
use dyad_proto::vector;

use crate::error::Error;

/// A shard that still takes documents.
#[derive(Debug)]
pub(super) struct Spool {
    dir: PathBuf,
    rows: Scratch,
    keys: Vec<String>,
    text: TextWriter,
}

/// A shard with all of its documents; its text index is complete.
#[derive(Debug)]
pub(super) struct Spooled {
    /// The future directory of the shard.
    pub(super) dir: PathBuf,
    /// Rows of f32, in an unlinked file.
    pub(super) rows: Mapped,
    /// Key of each node.
    pub(super) keys: Vec<String>,
}

impl Spool {
    pub(super) fn create(workspace: &Path, number: usize) -> Result<Self, Error> {
        let dir = workspace.join(format!("shard-{number:04}"));
        fs_err::create_dir(&dir)?;
        Ok(Self {
            rows: Scratch::create(&workspace.join(format!("shard-{number:04}.rows")))?,
            text: TextWriter::create(&dir.join(TEXT_DIR))?,
            keys: Vec::new(),
            dir,
        })
    }

    pub(super) fn add(&mut self, document: Document, row: &[f32]) -> Result<(), Error> {
        let metadata = match &document.metadata {
            Some(metadata) => serde_json::to_string(metadata).map_err(std::io::Error::from)?,
            None => String::new(),
        };
        self.text.add(TextDocument {
            key: &document.key,
            title: &document.title,
            text: &document.text,
            metadata_json: &metadata,
        })?;
        self.rows.write_all(&vector::pack(row))?;
        self.keys.push(document.key);
        Ok(())
    }

    pub(super) fn close(self) -> Result<Spooled, Error> {
        self.text.finish()?;
        Ok(Spooled { dir: self.dir, rows: self.rows.finish()?, keys: self.keys })
    }
}
