//! Writes where passages stand in their documents: the files of `places.rs`.

use std::collections::HashMap;
use std::io::{BufWriter, Write as _};
use std::ops::Range;
use std::path::PathBuf;

use super::TextWriter;
use super::places::{NO_DOCUMENT, OWN_TEXT, PLACES, TEXTS};
use crate::error::{Error, Result};

/// A passage's place in its document, to be written.
#[derive(Debug, Clone)]
pub struct TextPlace<'a> {
    /// The text of the document.
    pub document: &'a str,
    /// 128 bits that no other text has.
    pub digest: u128,
    /// The bytes of the passage in it.
    pub bytes: Range<usize>,
}

/// Writes the places of a shard's nodes.
pub struct PlacesWriter {
    dir: PathBuf,
    /// Number, begin and end of each node.
    places: Vec<[u32; 3]>,
    /// Numbers of the documents by their digests.
    numbers: HashMap<u128, u32>,
    /// The writer of the documents' texts; none before the first document.
    texts: Option<TextWriter>,
}

impl std::fmt::Debug for PlacesWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlacesWriter")
            .field("dir", &self.dir)
            .field("nodes", &self.places.len())
            .finish_non_exhaustive()
    }
}

impl PlacesWriter {
    /// Of a shard in this directory, which is made where a node has a place.
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            places: Vec::new(),
            numbers: HashMap::new(),
            texts: None,
        }
    }

    /// Adds the next node, with its text and its place, where it has one.
    pub fn add(&mut self, text: &str, place: Option<&TextPlace<'_>>) -> Result<()> {
        let Some(TextPlace {
            document,
            digest,
            bytes,
        }) = place
        else {
            self.places.push([NO_DOCUMENT, 0, 0]);
            return Ok(());
        };
        let (Ok(begin), Ok(end)) = (u32::try_from(bytes.start), u32::try_from(bytes.end)) else {
            let expected = format!("at most {} bytes", u32::MAX);
            return Err(Error::Mismatch {
                what: "document of a passage",
                expected,
                got: document.len().to_string(),
            });
        };
        let number = if *document == text {
            OWN_TEXT
        } else {
            self.number_of(document, *digest)?
        };
        self.places.push([number, begin, end]);
        Ok(())
    }

    /// The number of a document, which is stored if it is new.
    fn number_of(&mut self, document: &str, digest: u128) -> Result<u32> {
        if let Some(number) = self.numbers.get(&digest) {
            return Ok(*number);
        }
        let texts = match &mut self.texts {
            Some(texts) => texts,
            None => self.texts.insert(TextWriter::create_stored(&self.dir.join(TEXTS))?),
        };
        texts.add_stored(document)?;
        let number = self.numbers.len() as u32;
        self.numbers.insert(digest, number);
        Ok(number)
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        let texts = self.texts.as_ref().map_or(0, TextWriter::memory_bytes);
        size_of_val(self.places.as_slice()) + self.numbers.len() * 2 * size_of::<(u128, u32)>() + texts
    }

    /// Writes the places and makes all durable; nothing where no node has one.
    pub fn finish(self) -> Result<()> {
        if self.places.iter().all(|[number, ..]| *number == NO_DOCUMENT) {
            return Ok(());
        }
        fs_err::create_dir_all(&self.dir)?;
        if let Some(texts) = self.texts {
            texts.finish()?;
        }
        let path = self.dir.join(PLACES);
        let mut file = BufWriter::new(fs_err::File::create(&path)?);
        for value in self.places.iter().flatten() {
            file.write_all(&value.to_le_bytes())?;
        }
        file.flush()?;
        drop(file);
        fs_err::File::open(path)?.sync_all()?;
        Ok(dyad_files::sync_dir(&self.dir)?)
    }
}
