//! The deleted documents of a shard: a file of their own, written once, so that the shard itself never changes.
//!
//! `deletions/GGGGGG-<shard id>.dyad` holds all deletions of the shard up to generation G, what BM25 must subtract from
//! the shard's statistics, and a certificate: as measured without the deleted documents, or before the last few of
//! them, whose share and effect it bounds (`vectors`, `lost_since`). All integers are little-endian:
//!
//! ```text
//! 0    magic            8 bytes  "DYADDELS"
//! 8    version          u32      1; a reader refuses others
//! 12   terms            u32      t
//! 16   nodes            u64      n, of the shard
//! 24   tokens           u64      of the deleted documents' titles and texts
//! 32   certificate_len  u64      bytes
//! 40   reserved         24 bytes zero
//! 64   deleted          u64 x ceil(n / 64), bit i % 64 of word i / 64 is set where node i is deleted
//!      documents        u32 x t, of the deleted documents, those that hold the term
//!      ends             u32 x t, where the term ends in the terms' text
//!      text             the terms in ascending order of their bytes
//!      certificate      JSON
//! ```
//!
//! The manifest has its length and checksum, and both are compared whenever it is opened.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

use zerocopy::IntoBytes as _;

use crate::certificate::Certificate;
use crate::error::{Error, Result};
use crate::manifest::{DELETIONS_DIR, DeletedEntry};
use crate::search::NodeSet;

const MAGIC: [u8; 8] = *b"DYADDELS";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 64;

/// The fix for a damaged file of what was changed of a shard.
pub(crate) const DAMAGED_CHANGE: &str =
    "Write an intact copy of it under another name and `mv` it there, or go back to an earlier generation";

/// Which documents of a shard are deleted, and what follows from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Deletions {
    /// The documents that are left.
    pub live: NodeSet,
    /// The terms of the deleted ones.
    pub terms: DeletedTerms,
    /// Recall and margins among the documents that were left when they were measured last: more than now where few were
    /// deleted since.
    pub certificate: Certificate,
}

/// What BM25 subtracts from a shard's statistics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeletedTerms {
    tokens: u64,
    documents: Vec<u32>,
    ends: Vec<u32>,
    text: Vec<u8>,
}

impl DeletedTerms {
    /// Tokens of the deleted documents.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Deleted documents that hold a term.
    pub fn documents(&self, term: &[u8]) -> u64 {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.term(middle).cmp(term) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return self.documents.get(middle).map_or(0, |documents| u64::from(*documents)),
                Ordering::Greater => high = middle,
            }
        }
        0
    }

    fn term(&self, at: usize) -> &[u8] {
        let start = at
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0);
        let end = self.ends.get(at).copied().unwrap_or(0);
        self.text.get(start as usize..end as usize).unwrap_or(&[])
    }

    /// Every term and its number of documents, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u32)> {
        self.documents
            .iter()
            .enumerate()
            .map(|(at, documents)| (self.term(at), *documents))
    }

    /// Of terms and their numbers of documents.
    pub fn new(terms: &BTreeMap<Vec<u8>, u32>, tokens: u64) -> Self {
        Self::default().and(terms, tokens)
    }

    /// These, and others: one pass over both, since many terms are there before and few come with a document.
    #[must_use]
    pub fn and(&self, terms: &BTreeMap<Vec<u8>, u32>, tokens: u64) -> Self {
        let mut all = Self {
            tokens: self.tokens + tokens,
            documents: Vec::with_capacity(self.documents.len() + terms.len()),
            ends: Vec::with_capacity(self.ends.len() + terms.len()),
            text: Vec::with_capacity(self.text.len() + terms.keys().map(Vec::len).sum::<usize>()),
        };
        let mut known = self.iter().peekable();
        for (term, documents) in terms {
            while let Some((before, documents)) = known.next_if(|(before, _)| *before < term.as_slice()) {
                all.push(before, documents);
            }
            let same = known.next_if(|(before, _)| *before == term.as_slice());
            all.push(
                term,
                documents.saturating_add(same.map_or(0, |(_, documents)| documents)),
            );
        }
        known.for_each(|(term, documents)| all.push(term, documents));
        all
    }

    /// Adds a term that follows all others.
    fn push(&mut self, term: &[u8], documents: u32) {
        self.text.extend_from_slice(term);
        self.ends.push(self.text.len() as u32);
        self.documents.push(documents);
    }
}

impl Deletions {
    /// Documents that are deleted.
    pub fn len(&self) -> usize {
        self.live.nodes() - self.live.len()
    }

    /// No document is deleted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let certificate = serde_json::to_vec(&self.certificate).map_err(std::io::Error::from)?;
        let DeletedTerms {
            tokens,
            documents,
            ends,
            text,
        } = &self.terms;
        let nodes = self.live.nodes();
        let mut words = vec![!0u64; nodes.div_ceil(64)];
        if let (Some(last), extra @ 1..) = (words.last_mut(), nodes % 64) {
            *last = (1 << extra) - 1;
        }
        for node in self.live.iter() {
            if let Some(word) = words.get_mut(node as usize / 64) {
                *word &= !(1 << (node % 64));
            }
        }
        let mut bytes =
            Vec::with_capacity(HEADER_LEN + words.len() * 8 + ends.len() * 8 + text.len() + certificate.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(ends.len() as u32).to_le_bytes());
        for number in [nodes as u64, *tokens, certificate.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.resize(HEADER_LEN, 0);
        bytes.extend_from_slice(words.as_bytes());
        bytes.extend_from_slice(documents.as_bytes());
        bytes.extend_from_slice(ends.as_bytes());
        bytes.extend_from_slice(text);
        bytes.extend_from_slice(&certificate);
        Ok(bytes)
    }

    /// Opens the deletions of a shard of `nodes` documents, and compares length, checksum and counts with the
    /// manifest's.
    pub fn open(index: &Path, entry: &DeletedEntry, nodes: u64) -> Result<Self> {
        let path = index.join(DELETIONS_DIR).join(&entry.file.path);
        let bytes = fs_err::read(&path)?;
        let damaged = |part: &str, expected: String, got: String| Error::Format {
            path: path.clone(),
            part: part.to_owned(),
            expected,
            got,
            hint: DAMAGED_CHANGE,
        };
        if bytes.len() as u64 != entry.file.bytes {
            return Err(damaged("length", entry.file.bytes.to_string(), bytes.len().to_string()));
        }
        let checksum = crc32c::crc32c(&bytes);
        if checksum != entry.file.crc32c {
            return Err(damaged(
                "checksum",
                format!("{:08x}", entry.file.crc32c),
                format!("{checksum:08x}"),
            ));
        }
        if let Some(version) = Self::later_version(&bytes) {
            return Err(Error::Newer {
                path,
                got: version,
                supported: VERSION,
            });
        }
        let whole = Self::parse(&bytes, nodes);
        let deletions = whole.ok_or_else(|| {
            damaged(
                "content",
                format!("deletions of a shard of {nodes} documents"),
                "others, or none".to_owned(),
            )
        })?;
        if deletions.len() as u64 != entry.documents {
            return Err(damaged(
                "deleted",
                entry.documents.to_string(),
                deletions.len().to_string(),
            ));
        }
        Ok(deletions)
    }

    fn later_version(bytes: &[u8]) -> Option<u32> {
        let version = u32::from_le_bytes(bytes.strip_prefix(&MAGIC)?.first_chunk().copied()?);
        (version > VERSION).then_some(version)
    }

    /// None where the bytes are no such file, or of a shard with another number of documents.
    fn parse(bytes: &[u8], nodes: u64) -> Option<Self> {
        let (header, mut rest) = bytes.split_at_checked(HEADER_LEN)?;
        let header = header.strip_prefix(&MAGIC)?;
        let (version, header) = header.split_first_chunk()?;
        let (terms, header) = header.split_first_chunk()?;
        let (stored_nodes, header) = header.split_first_chunk()?;
        let (tokens, header) = header.split_first_chunk()?;
        let (certificate_len, _) = header.split_first_chunk()?;
        let terms = u32::from_le_bytes(*terms) as usize;
        if u32::from_le_bytes(*version) != VERSION || u64::from_le_bytes(*stored_nodes) != nodes {
            return None;
        }
        let mut take = |len: usize| {
            let (part, left) = rest.split_at_checked(len)?;
            rest = left;
            Some(part)
        };
        let nodes = usize::try_from(nodes).ok()?;
        let words = take(nodes.div_ceil(64).checked_mul(8)?)?;
        let numbers = |part: &[u8]| -> Vec<u32> {
            part.as_chunks()
                .0
                .iter()
                .map(|number| u32::from_le_bytes(*number))
                .collect()
        };
        let documents = numbers(take(terms.checked_mul(4)?)?);
        let ends = numbers(take(terms.checked_mul(4)?)?);
        let text = take(ends.last().map_or(0, |end| *end as usize))?.to_vec();
        let certificate = take(usize::try_from(u64::from_le_bytes(*certificate_len)).ok()?)?;
        if !rest.is_empty() || !ends.is_sorted() {
            return None;
        }
        let mut live = NodeSet::new(nodes);
        for (number, word) in (0u32..).zip(words.as_chunks().0) {
            let mut left = !u64::from_le_bytes(*word);
            while left != 0 {
                live.insert(number * 64 + left.trailing_zeros());
                left &= left - 1;
            }
        }
        let terms = DeletedTerms {
            tokens: u64::from_le_bytes(*tokens),
            documents,
            ends,
            text,
        };
        Some(Self {
            live,
            terms,
            certificate: serde_json::from_slice(certificate).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::FileEntry;

    fn some(nodes: usize) -> Deletions {
        let mut live = NodeSet::new(nodes);
        live.extend((0..nodes as u32).filter(|node| node % 3 != 1));
        let terms: BTreeMap<Vec<u8>, u32> = [("b", 1), ("", 7), ("bc", 2), ("é", 4)]
            .map(|(term, documents)| (term.into(), documents))
            .into();
        let certificate = Certificate {
            vectors: nodes as u64,
            queries: 3,
            ..Certificate::default()
        };
        Deletions {
            live,
            terms: DeletedTerms::new(&terms, 99),
            certificate,
        }
    }

    fn write(index: &Path, bytes: &[u8], documents: u64) -> DeletedEntry {
        fs_err::create_dir_all(index.join(DELETIONS_DIR)).unwrap();
        fs_err::write(index.join(DELETIONS_DIR).join("d"), bytes).unwrap();
        let file = FileEntry {
            path: "d".into(),
            bytes: bytes.len() as u64,
            crc32c: crc32c::crc32c(bytes),
        };
        DeletedEntry { documents, file }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        for nodes in [1, 63, 64, 65, 1000] {
            let deletions = some(nodes);
            let entry = write(dir.path(), &deletions.to_bytes().unwrap(), deletions.len() as u64);
            let read = Deletions::open(dir.path(), &entry, nodes as u64).unwrap();
            assert_eq!(read, deletions);
            assert_eq!(
                (0..nodes as u32).filter(|node| !read.live.contains(*node)).count(),
                read.len()
            );
        }
        let terms = some(9).terms;
        let counts = ["", "a", "b", "bb", "bc", "c", "é"].map(|term| terms.documents(term.as_bytes()));
        assert_eq!((counts, terms.tokens()), ([7, 0, 1, 0, 2, 0, 4], 99));
        assert_eq!(DeletedTerms::default().documents(b"x"), 0);
    }

    #[test]
    fn damage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (index, nodes) = (dir.path(), 100);
        let deletions = some(nodes);
        let (bytes, deleted) = (deletions.to_bytes().unwrap(), deletions.len() as u64);
        let refused = |bytes: &[u8], documents: u64, nodes: usize, part: &str| {
            let entry = write(index, bytes, documents);
            let error = Deletions::open(index, &entry, nodes as u64).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("deletions/d"), "{error}");
        };
        refused(&bytes, deleted + 1, nodes, "deleted");
        refused(&bytes, deleted, nodes + 1, "content");
        for cut in [0, 7, 40, 63, 64, 70, bytes.len() - 1] {
            refused(&bytes[..cut], deleted, nodes, "content");
        }
        let mut newer = bytes.clone();
        newer[8] = 9;
        refused(&newer, deleted, nodes, "format version 9");
        let mut entry = write(index, &bytes, deleted);
        entry.file.crc32c ^= 1;
        assert!(
            Deletions::open(index, &entry, nodes as u64)
                .unwrap_err()
                .to_string()
                .contains("checksum")
        );
        entry.file.bytes += 1;
        assert!(
            Deletions::open(index, &entry, nodes as u64)
                .unwrap_err()
                .to_string()
                .contains("length")
        );
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(at in 0usize..200, byte: u8, cut in 0usize..400) {
            let mut bytes = some(70).to_bytes().unwrap();
            bytes.truncate(bytes.len().saturating_sub(cut));
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            if let Some(read) = Deletions::parse(&bytes, 70) {
                let _ = read.terms.iter().map(|(term, _)| read.terms.documents(term)).sum::<u64>();
                assert!(read.live.len() <= 70);
            }
        }
    }
}
