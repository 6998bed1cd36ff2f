//! Spools documents and vectors of one shard to disk: the order of arrival is the order of nodes.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use dyad_corpus::{Document, Metadata, PassagePlace};
use dyad_index::TextLanguage;
use dyad_index::lexical::{PlacesWriter, TextDocument, TextPlace, TextWriter};
use dyad_index::shard::{DOCUMENTS_DIR, TEXT_DIR};
use dyad_index::storage::{MmapFile, ScratchFile};
use dyad_proto::vector;
use xxhash_rust::xxh3::Xxh3;

use crate::error::Error;

/// A shard that still takes documents.
pub(crate) struct Spool {
    dir: PathBuf,
    rows: ScratchFile,
    keys: Vec<String>,
    text: TextWriter,
    places: PlacesWriter,
    digest: Xxh3,
}

/// A shard with all of its documents; its text index is complete.
#[derive(Debug)]
pub(crate) struct Spooled {
    /// The future directory of the shard.
    pub(crate) dir: PathBuf,
    /// Rows of f32, in an unlinked file.
    pub(crate) rows: MmapFile,
    /// Key of each node.
    pub(crate) keys: Vec<String>,
    /// Digest of the documents and their vectors, in order.
    pub(crate) digest: u128,
    /// Words of the texts that are too long to be a term.
    pub(crate) long_words: u64,
}

/// The metadata of a document as an index stores them: one JSON object, or nothing.
pub(crate) fn metadata_json(document: &Document) -> &str {
    document.metadata.as_ref().map_or("", Metadata::as_json)
}

impl Spool {
    /// Starts shard `number` in a workspace. Its terms take at most about `text_bytes` of memory, where that is given.
    pub(crate) fn create(
        workspace: &Path,
        number: usize,
        language: TextLanguage,
        text_bytes: Option<u64>,
    ) -> Result<Self, Error> {
        let dir = workspace.join(format!("shard-{number:04}"));
        fs_err::create_dir(&dir)?;
        Ok(Self {
            rows: ScratchFile::create(&workspace.join(format!("shard-{number:04}.rows")))?,
            text: match text_bytes {
                None => TextWriter::create(&dir.join(TEXT_DIR), language)?,
                Some(bytes) => {
                    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                    TextWriter::create_within(&dir.join(TEXT_DIR), language, bytes)?
                }
            },
            places: PlacesWriter::new(dir.join(DOCUMENTS_DIR)),
            keys: Vec::new(),
            digest: Xxh3::new(),
            dir,
        })
    }

    pub(crate) fn add(&mut self, document: &Document, row: &[f32]) -> Result<(), Error> {
        let Document {
            key,
            title,
            text,
            place,
            ..
        } = document;
        let stored = TextDocument {
            key,
            title,
            text,
            metadata_json: metadata_json(document),
        };
        self.add_stored(stored, place.as_ref(), row)
    }

    /// The same with metadata as an index stores them.
    pub(crate) fn add_stored(
        &mut self,
        document: TextDocument<'_>,
        place: Option<&PassagePlace>,
        row: &[f32],
    ) -> Result<(), Error> {
        for field in [document.key, document.title, document.text, document.metadata_json] {
            self.digest.update(&(field.len() as u64).to_le_bytes());
            self.digest.update(field.as_bytes());
        }
        let place = place.map(|place| TextPlace {
            document: place.document(),
            digest: place.digest(),
            bytes: place.bytes(),
        });
        if let Some(TextPlace { digest, bytes, .. }) = &place {
            self.digest.update(&digest.to_le_bytes());
            for byte in [bytes.start, bytes.end] {
                self.digest.update(&(byte as u64).to_le_bytes());
            }
        }
        self.text.add(document)?;
        self.places.add(document.text, place.as_ref())?;
        let row_bytes = vector::pack(row);
        self.digest.update(&row_bytes);
        self.rows.write_all(&row_bytes)?;
        self.keys.push(document.key.to_owned());
        Ok(())
    }

    /// Keys so far, by node.
    pub(crate) fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Documents so far.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn close(self) -> Result<Spooled, Error> {
        let long_words = self.text.long_words();
        self.text.finish()?;
        self.places.finish()?;
        Ok(Spooled {
            dir: self.dir,
            rows: self.rows.finish()?,
            keys: self.keys,
            digest: self.digest.digest128(),
            long_words,
        })
    }
}
