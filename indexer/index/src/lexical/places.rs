//! Where passages stand in their documents: the texts of the documents, each once for all of its passages in a shard.
//!
//! `documents/`, next to the text index of a shard whose documents are passages: `places`, for each node three little-endian u32, the number of its
//! document and the first byte of the passage in it and the byte after its last one; and `text/`, a tantivy index in which the text of document `i` is
//! stored, and nothing is searched. A node that is no passage of another document has the number [`NO_DOCUMENT`], and one that is a whole document itself, whose
//! text is in the shard already, [`OWN_TEXT`].

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{TextShard, TextWriter};
use crate::error::{Error, Result};
use crate::storage::SharedMap;

/// The file of the places.
const PLACES: &str = "places";
/// The directory of the texts.
const TEXTS: &str = "text";
/// In place of a document's number, of a node that is no passage of one.
const NO_DOCUMENT: u32 = u32::MAX;
/// The same of a node whose own text is all of its document.
const OWN_TEXT: u32 = u32::MAX - 1;
/// Bytes of a place.
const PLACE_BYTES: usize = 12;

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

/// A passage's place in its document, as an index has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPlace {
    /// The text of the document; none where it is the node's own text.
    pub document: Option<Arc<str>>,
    /// The bytes of the passage in it.
    pub bytes: Range<usize>,
}

/// A passage's place by the number of its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceInDocument {
    /// The number of the document in the shard; none where it is the node's own text.
    pub document: Option<u32>,
    /// The bytes of the passage in it.
    pub bytes: Range<usize>,
}

/// Bytes of documents that only deleted passages have.
#[derive(Debug, Default)]
pub struct GoneText {
    by_document: HashMap<u32, Vec<Range<usize>>>,
}

/// Writes the places of a shard's nodes.
pub struct PlacesWriter {
    dir: PathBuf,
    /// Number, begin and end of each node.
    places: Vec<[u32; 3]>,
    /// Numbers of the documents by their digests.
    numbers: HashMap<u128, u32>,
    /// None before the first document.
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
        Self { dir, places: Vec::new(), numbers: HashMap::new(), texts: None }
    }

    /// Adds the next node, with its text and its place, where it has one.
    pub fn add(&mut self, text: &str, place: Option<&TextPlace<'_>>) -> Result<()> {
        let Some(TextPlace { document, digest, bytes }) = place else {
            self.places.push([NO_DOCUMENT, 0, 0]);
            return Ok(());
        };
        let (Ok(begin), Ok(end)) = (u32::try_from(bytes.start), u32::try_from(bytes.end)) else {
            let expected = format!("at most {} bytes", u32::MAX);
            return Err(Error::Mismatch { what: "document of a passage", expected, got: document.len().to_string() });
        };
        let number = if *document == text { OWN_TEXT } else { self.number_of(document, *digest)? };
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
        let bytes: Vec<u8> = self.places.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
        fs_err::write(&path, bytes)?;
        fs_err::File::open(path)?.sync_all()?;
        Ok(dyad_files::sync_dir(&self.dir)?)
    }
}

/// The places of a shard's nodes.
#[derive(Debug)]
pub struct Places {
    path: PathBuf,
    bytes: SharedMap,
    /// None where all documents are passages of their own.
    texts: Option<TextShard>,
}

impl Places {
    /// Opens those of a shard with so many nodes; none where it has none.
    pub fn open(dir: &Path, nodes: usize) -> Result<Option<Self>> {
        let path = dir.join(PLACES);
        if !path.exists() {
            return Ok(None);
        }
        let map = SharedMap::open(&path)?;
        let bytes = map.as_ref().map_or(0, |map| map.len());
        let Some(places) = map.filter(|_| bytes == PLACE_BYTES * nodes) else {
            return Err(damaged(path, "size", format!("{} bytes", PLACE_BYTES * nodes), format!("{bytes} bytes")));
        };
        let texts = dir.join(TEXTS);
        let texts = if texts.exists() { Some(TextShard::open(&texts)?) } else { None };
        Ok(Some(Self { path, bytes: places, texts }))
    }

    /// Documents whose texts are stored here.
    pub fn documents(&self) -> usize {
        self.texts.as_ref().map_or(0, TextShard::len)
    }

    /// The text of a document.
    pub fn text(&self, document: u32) -> Result<String> {
        let Some(texts) = &self.texts else {
            return Err(damaged(self.path.clone(), "documents", format!("{document} and more"), "none".to_owned()));
        };
        Ok(texts.document(document)?.text)
    }

    /// Where a node stands in its document, which is not read; none where it is no passage of one.
    pub fn of(&self, node: u32) -> Option<PlaceInDocument> {
        let at = node as usize * PLACE_BYTES;
        let (values, _) = self.bytes.get(at..at + PLACE_BYTES)?.as_chunks::<4>();
        let [number, begin, end] = values else { return None };
        let [number, begin, end] = [number, begin, end].map(|value| u32::from_le_bytes(*value));
        let document = match number {
            NO_DOCUMENT => return None,
            OWN_TEXT => None,
            number => Some(number),
        };
        Some(PlaceInDocument { document, bytes: begin as usize..end as usize })
    }

    /// What of the documents is not to be read any more: the bytes of passages that are gone, and some more of documents by their numbers, which no other
    /// passage has.
    pub fn gone(&self, nodes: u32, is_gone: impl Fn(u32) -> bool, more: HashMap<u32, Vec<Range<usize>>>) -> GoneText {
        let mut by_document = more;
        for PlaceInDocument { document, bytes } in
            (0..nodes).filter(|node| is_gone(*node)).filter_map(|node| self.of(node))
        {
            if let Some(document) = document {
                by_document.entry(document).or_default().push(bytes);
            }
        }
        if !by_document.is_empty() {
            let left = (0..nodes).filter(|node| !is_gone(*node)).filter_map(|node| self.of(node));
            for PlaceInDocument { document, bytes: left } in left {
                if let Some(gone) = document.and_then(|document| by_document.get_mut(&document)) {
                    *gone = gone.iter().flat_map(|gone| without(gone, &left)).collect();
                }
            }
        }
        by_document.retain(|_, gone| !gone.is_empty());
        GoneText { by_document }
    }

    /// The same of all but the passages that are these nodes.
    pub fn all_but(&self, nodes: u32, is_kept: impl Fn(u32) -> bool) -> GoneText {
        let whole = (0..self.documents() as u32).map(|document| (document, vec![Range { start: 0, end: usize::MAX }]));
        self.gone(nodes, |node| !is_kept(node), whole.collect())
    }

    /// The text of a document, with spaces in place of what is gone.
    pub fn text_without(&self, document: u32, gone: &GoneText) -> Result<String> {
        let text = self.text(document)?;
        let Some(gone) = gone.by_document.get(&document) else { return Ok(text) };
        let mut left = text.clone();
        for Range { start, end } in gone {
            let bytes = *start..(*end).min(text.len());
            if left.get(bytes.clone()).is_some() {
                left.replace_range(bytes.clone(), &" ".repeat(bytes.len()));
            }
        }
        Ok(left)
    }

    /// Where a node stands in its document, of which some is gone; none where it is no passage of one.
    pub fn place(&self, node: u32, gone: &GoneText) -> Result<Option<StoredPlace>> {
        let Some(PlaceInDocument { document, bytes }) = self.of(node) else { return Ok(None) };
        let Some(number) = document else { return Ok(Some(StoredPlace { document: None, bytes })) };
        let text = self.text_without(number, gone)?;
        if text.get(bytes.clone()).is_none() {
            let got = format!("bytes {} to {}", bytes.start, bytes.end);
            let expected = format!("characters of the {} bytes of document {number}", text.len());
            return Err(damaged(self.path.clone(), &format!("node {node}"), expected, got));
        }
        Ok(Some(StoredPlace { document: Some(text.into()), bytes }))
    }
}

/// The parts of a range before and after another one.
fn without(range: &Range<usize>, other: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let before = range.start..range.end.min(other.start);
    let after = range.start.max(other.end)..range.end;
    [before, after].into_iter().filter(|part| !part.is_empty())
}

fn damaged(path: PathBuf, part: &str, expected: String, got: String) -> Error {
    Error::Format {
        path,
        part: part.to_owned(),
        expected,
        got,
        hint: "`dyad-indexer verify` says which file is damaged. Write an intact copy under another name and `mv` it there",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(document: &str, bytes: Range<usize>) -> TextPlace<'_> {
        let digest = document.bytes().fold(7, |digest: u128, byte| digest.wrapping_mul(31) + u128::from(byte));
        TextPlace { document, digest, bytes }
    }

    #[test]
    fn documents_are_stored_once_and_places_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("documents");
        let mut writer = PlacesWriter::new(out.clone());
        let (one, other) = ("Erste. Zweite ß.", "Ein anderes.");
        writer.add("Zweite ß.", Some(&place(one, 7..17))).unwrap();
        writer.add("alone", None).unwrap();
        writer.add("Ein anderes.", Some(&place(other, 0..12))).unwrap();
        writer.add("anderes", Some(&place(other, 4..11))).unwrap();
        writer.add("Erste.", Some(&place(one, 0..6))).unwrap();
        assert!(writer.memory_bytes() > 0);
        writer.finish().unwrap();
        let places = Places::open(&out, 5).unwrap().unwrap();
        assert_eq!(places.documents(), 2);
        let of = |document: &str, bytes| Some(StoredPlace { document: Some(document.into()), bytes });
        let expected =
            [of(one, 7..17), None, Some(StoredPlace { document: None, bytes: 0..12 }), of(other, 4..11), of(one, 0..6)];
        for (node, expected) in (0..).zip(expected) {
            assert_eq!(places.place(node, &GoneText::default()).unwrap(), expected, "{node}");
        }
        assert_eq!(places.place(5, &GoneText::default()).unwrap(), None);
        let error = Places::open(&out, 4).unwrap_err().to_string();
        assert!(error.contains("places") && error.contains("expected 48 bytes, got 60 bytes"), "{error}");
    }

    #[test]
    fn what_only_deleted_passages_have_is_left_out_of_the_document() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("documents");
        let mut writer = PlacesWriter::new(out.clone());
        let text = "Eins ß. Zwei. Drei.";
        for bytes in [0..8, 0..14, 9..14, 15..20, 4..17] {
            writer.add("", Some(&place(text, bytes))).unwrap();
        }
        writer.finish().unwrap();
        let places = Places::open(&out, 5).unwrap().unwrap();
        let shown = |gone: &[u32]| {
            let gone = places.gone(5, |node| gone.contains(&node), HashMap::new());
            places.text_without(0, &gone).unwrap()
        };
        for (gone, expected) in [
            (&[][..], text),
            (&[3, 4], "Eins ß. Zwei.      "),
            (&[1, 2, 4], "Eins ß.       Drei."),
            (&[0, 1, 2, 4], "               Drei."),
            (&[0, 1], "     ß. Zwei. Drei."),
        ] {
            let left = shown(gone);
            assert_eq!((left.as_str(), left.len()), (expected, text.len()), "{gone:?}");
        }
        let all_but_two = places.all_but(5, |node| node == 2);
        assert_eq!(places.text_without(0, &all_but_two).unwrap(), "         Zwei.      ");
        let first = vec![Range { start: 0, end: 5 }];
        let gone = places.gone(5, |node| node == 3, [(0, first)].into());
        assert_eq!(places.place(2, &gone).unwrap().unwrap().document.unwrap().as_ref(), "Eins ß. Zwei. Dr   ");
    }

    #[test]
    fn nothing_is_written_where_no_node_is_a_passage() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("documents");
        let mut writer = PlacesWriter::new(out.clone());
        writer.add("alone", None).unwrap();
        writer.finish().unwrap();
        assert!(!out.exists() && Places::open(&out, 1).unwrap().is_none());
    }

    #[test]
    fn a_place_that_is_not_in_its_document_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("documents");
        let mut writer = PlacesWriter::new(out.clone());
        writer.add("b", Some(&place("a b ß", 2..3))).unwrap();
        writer.finish().unwrap();
        for wrong in [[0_u32, 5, 6], [0, 2, 70], [0, 3, 2], [1, 0, 1]] {
            let bytes: Vec<u8> = wrong.iter().flat_map(|value| value.to_le_bytes()).collect();
            fs_err::write(out.join(PLACES), bytes).unwrap();
            let places = Places::open(&out, 1).unwrap().unwrap();
            let error = places.place(0, &GoneText::default()).unwrap_err().to_string();
            assert!(error.contains("expected"), "{error}");
        }
    }
}
