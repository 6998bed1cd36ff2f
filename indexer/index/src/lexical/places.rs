//! Where passages stand in their documents: the texts of the documents, each once for all of its passages in a shard.
//!
//! `documents/`, next to the text index of a shard whose documents are passages: `places`, for each node three
//! little-endian u32, the number of its document and the first byte of the passage in it and the byte after its last
//! one; and `text/`, a tantivy index in which the text of document `i` is stored, and nothing is searched. A node that
//! is no passage of another document has the number [`NO_DOCUMENT`], and one that is a whole document itself, whose
//! text is in the shard already, [`OWN_TEXT`].

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::TextShard;
use super::blanked::blanked;
use crate::error::{Error, Result};
use crate::storage::SharedMap;
use dyad_files::Cancel;

/// The file of the places.
pub(super) const PLACES: &str = "places";
/// The directory of the texts.
pub(super) const TEXTS: &str = "text";
/// In place of a document's number, of a node that is no passage of one.
pub(super) const NO_DOCUMENT: u32 = u32::MAX;
/// The same of a node whose own text is all of its document.
pub(super) const OWN_TEXT: u32 = u32::MAX - 1;
/// Bytes that the nodes of each document take in memory at most, for each node, once a document is read.
pub const DOCUMENT_NODES_BYTES: usize = 2 * size_of::<u32>();
/// Bytes of a place.
const PLACE_BYTES: usize = 12;

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

/// The places of a shard's nodes.
#[derive(Debug)]
pub struct PassagePlaces {
    path: PathBuf,
    bytes: SharedMap,
    /// The texts of documents; none where all documents are passages of their own.
    texts: Option<TextShard>,
    /// Made when it is first asked for: 4 bytes for each node and each document.
    passages: OnceLock<PassagesByDocument>,
}

impl PassagePlaces {
    /// Opens those of a shard of `nodes` nodes; none where it has none.
    pub fn open(dir: &Path, nodes: usize) -> Result<Option<Self>> {
        let path = dir.join(PLACES);
        if !path.exists() {
            return Ok(None);
        }
        let map = SharedMap::open(&path)?;
        let bytes = map.as_ref().map_or(0, |map| map.len());
        let Some(places) = map.filter(|_| bytes == PLACE_BYTES * nodes) else {
            return Err(damaged(
                path,
                "size",
                format!("{} bytes", PLACE_BYTES * nodes),
                format!("{bytes} bytes"),
            ));
        };
        let texts = dir.join(TEXTS);
        let texts = if texts.exists() {
            Some(TextShard::open_stored(&texts)?)
        } else {
            None
        };
        Ok(Some(Self {
            path,
            bytes: places,
            texts,
            passages: OnceLock::new(),
        }))
    }

    /// Nodes of the shard.
    fn nodes(&self) -> usize {
        self.bytes.len() / PLACE_BYTES
    }

    /// Documents whose texts are stored here.
    pub fn documents(&self) -> usize {
        self.texts.as_ref().map_or(0, TextShard::len)
    }

    /// The text of a document.
    pub fn text(&self, document: u32) -> Result<String> {
        let Some(texts) = &self.texts else {
            return Err(damaged(
                self.path.clone(),
                "documents",
                format!("{document} and more"),
                "none".to_owned(),
            ));
        };
        Ok(texts.document(document)?.text)
    }

    /// Where a node stands in its document, which is not read; none where it is no passage of one.
    pub fn get(&self, node: u32) -> Option<PlaceInDocument> {
        let at = node as usize * PLACE_BYTES;
        let (values, _) = self.bytes.get(at..at + PLACE_BYTES)?.as_chunks::<4>();
        let [number, begin, end] = values else { return None };
        let [number, begin, end] = [number, begin, end].map(|value| u32::from_le_bytes(*value));
        let document = match number {
            NO_DOCUMENT => return None,
            OWN_TEXT => None,
            number => Some(number),
        };
        Some(PlaceInDocument {
            document,
            bytes: begin as usize..end as usize,
        })
    }

    /// The text of a document with spaces in place of what no node that is kept has: of what other nodes have, and of
    /// `more`.
    pub fn text_without(&self, document: u32, is_kept: &dyn Fn(u32) -> bool, more: &[Range<usize>]) -> Result<String> {
        let text = self.text(document)?;
        let (mut kept, mut gone) = (Vec::new(), more.to_vec());
        for node in self.passages_of(document) {
            if let Some(PlaceInDocument { bytes, .. }) = self.get(*node) {
                if is_kept(*node) {
                    kept.push(bytes);
                } else {
                    gone.push(bytes);
                }
            }
        }
        Ok(if gone.is_empty() {
            text
        } else {
            blanked(&text, gone, kept)
        })
    }

    /// The nodes that are passages of a document, ascending.
    fn passages_of(&self, document: u32) -> &[u32] {
        let passages = self.passages.get_or_init(|| PassagesByDocument::from_places(self));
        passages.of_document(document)
    }

    /// Where a node stands in its document, without what only nodes have that are not kept; none where it is no passage
    /// of one.
    pub fn place(&self, node: u32, is_kept: &dyn Fn(u32) -> bool) -> Result<Option<StoredPlace>> {
        let Some(PlaceInDocument { document, bytes }) = self.get(node) else {
            return Ok(None);
        };
        let Some(number) = document else {
            return Ok(Some(StoredPlace { document: None, bytes }));
        };
        let text = self.text_without(number, is_kept, &[])?;
        self.check_place(node, number, &text, &bytes)?;
        Ok(Some(StoredPlace {
            document: Some(text.into()),
            bytes,
        }))
    }

    /// Refuses a place that is not of characters of its document.
    fn check_place(&self, node: u32, document: u32, text: &str, bytes: &Range<usize>) -> Result<()> {
        if text.get(bytes.clone()).is_some() {
            return Ok(());
        }
        let got = format!("bytes {} to {}", bytes.start, bytes.end);
        let expected = format!("characters of the {} bytes of document {document}", text.len());
        Err(damaged(self.path.clone(), &format!("node {node}"), expected, got))
    }

    /// Checks that every node stands in its document; `cancel` is polled between documents.
    pub fn check(&self, cancel: &dyn Cancel) -> Result<()> {
        for node in 0..self.nodes() as u32 {
            if let Some(PlaceInDocument {
                document: Some(document),
                ..
            }) = self.get(node)
                && document as usize >= self.documents()
            {
                let expected = format!("a document below {}", self.documents());
                return Err(damaged(
                    self.path.clone(),
                    &format!("node {node}"),
                    expected,
                    document.to_string(),
                ));
            }
        }
        for document in 0..self.documents() as u32 {
            if cancel.is_cancelled() {
                break;
            }
            let text = self.text(document)?;
            for node in self.passages_of(document) {
                if let Some(PlaceInDocument { bytes, .. }) = self.get(*node) {
                    self.check_place(*node, document, &text, &bytes)?;
                }
            }
        }
        Ok(())
    }
}

/// The nodes of each document.
#[derive(Debug)]
struct PassagesByDocument {
    /// Where the passages of each document begin, and the end of the last.
    begins: Vec<u32>,
    nodes: Vec<u32>,
}

impl PassagesByDocument {
    fn from_places(places: &PassagePlaces) -> Self {
        let documents = || (0..places.nodes() as u32).map(|node| places.get(node).and_then(|place| place.document));
        let mut begins = vec![0; places.documents() + 1];
        for document in documents().flatten() {
            if let Some(next) = begins.get_mut(document as usize + 1) {
                *next += 1;
            }
        }
        let mut sum = 0;
        for begin in &mut begins {
            sum += *begin;
            *begin = sum;
        }
        let (mut free, mut nodes) = (begins.clone(), vec![0; sum as usize]);
        for (node, document) in (0..).zip(documents()) {
            let Some(free) = document.and_then(|document| free.get_mut(document as usize)) else {
                continue;
            };
            if let Some(place) = nodes.get_mut(*free as usize) {
                *place = node;
                *free += 1;
            }
        }
        Self { begins, nodes }
    }

    fn of_document(&self, document: u32) -> &[u32] {
        let at = |number: usize| self.begins.get(number).map(|begin| *begin as usize);
        let range = at(document as usize).zip(at(document as usize + 1));
        range
            .and_then(|(begin, end)| self.nodes.get(begin..end))
            .unwrap_or_default()
    }
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
    use super::super::{PlacesWriter, TextPlace};
    use super::*;

    fn place(document: &str, bytes: Range<usize>) -> TextPlace<'_> {
        let digest = document
            .bytes()
            .fold(7, |digest: u128, byte| digest.wrapping_mul(31) + u128::from(byte));
        TextPlace {
            document,
            digest,
            bytes,
        }
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
        let places = PassagePlaces::open(&out, 5).unwrap().unwrap();
        assert_eq!(places.documents(), 2);
        let of = |document: &str, bytes| {
            Some(StoredPlace {
                document: Some(document.into()),
                bytes,
            })
        };
        let expected = [
            of(one, 7..17),
            None,
            Some(StoredPlace {
                document: None,
                bytes: 0..12,
            }),
            of(other, 4..11),
            of(one, 0..6),
        ];
        for (node, expected) in (0..).zip(expected) {
            assert_eq!(places.place(node, &|_| true).unwrap(), expected, "{node}");
        }
        assert_eq!(places.place(5, &|_| true).unwrap(), None);
        let error = PassagePlaces::open(&out, 4).unwrap_err().to_string();
        assert!(
            error.contains("places") && error.contains("expected 48 bytes, got 60 bytes"),
            "{error}"
        );
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
        let places = PassagePlaces::open(&out, 5).unwrap().unwrap();
        let shown = |gone: &[u32]| places.text_without(0, &|node| !gone.contains(&node), &[]).unwrap();
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
        let all = Range {
            start: 0,
            end: usize::MAX,
        };
        let only_two = places
            .text_without(0, &|node| node == 2, std::slice::from_ref(&all))
            .unwrap();
        assert_eq!(only_two, "         Zwei.      ");
        let first = Range { start: 0, end: 5 };
        let more = places
            .text_without(0, &|node| node != 3, std::slice::from_ref(&first))
            .unwrap();
        assert_eq!(more, "Eins ß. Zwei. Dr   ");
        let without_three = places.place(2, &|node| node != 3).unwrap().unwrap();
        assert_eq!(without_three.document.unwrap().as_ref(), "Eins ß. Zwei. Dr   ");
    }

    #[test]
    fn nothing_is_written_where_no_node_is_a_passage() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("documents");
        let mut writer = PlacesWriter::new(out.clone());
        writer.add("alone", None).unwrap();
        writer.finish().unwrap();
        assert!(!out.exists() && PassagePlaces::open(&out, 1).unwrap().is_none());
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
            let places = PassagePlaces::open(&out, 1).unwrap().unwrap();
            let error = places.place(0, &|_| true).unwrap_err().to_string();
            assert!(error.contains("expected"), "{error}");
            let error = places.check(&dyad_files::Never).unwrap_err().to_string();
            assert!(error.contains("node 0"), "{error}");
        }
    }
}
