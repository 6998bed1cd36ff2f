//! Exact lengths of documents in terms. The index itself keeps one byte of each, which is exact up to 40 terms.
//!
//! `lengths`, next to the files of the index: one little-endian u32 for each document. It is there where a document has
//! more terms than a byte tells exactly; releases before it wrote none, and of their indexes the bytes count.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tantivy::tokenizer::{Token, TokenFilter, TokenStream, Tokenizer};

use crate::error::{Error, Result};
use crate::storage::SharedMap;

/// The file.
const FILE: &str = "lengths";
/// Terms that a byte tells exactly.
const EXACT: u32 = 40;

/// Counts the terms that pass.
#[derive(Debug, Clone, Default)]
pub(super) struct TermCount(Arc<AtomicU64>);

impl TermCount {
    /// The terms since the last call.
    fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl TokenFilter for TermCount {
    type Tokenizer<T: Tokenizer> = CountedTokenizer<T>;

    fn transform<T: Tokenizer>(self, tokenizer: T) -> CountedTokenizer<T> {
        CountedTokenizer { tokenizer, count: self }
    }
}

#[derive(Debug, Clone)]
pub(super) struct CountedTokenizer<T> {
    tokenizer: T,
    count: TermCount,
}

impl<T: Tokenizer> Tokenizer for CountedTokenizer<T> {
    type TokenStream<'a> = CountedStream<T::TokenStream<'a>>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Self::TokenStream<'a> {
        CountedStream {
            stream: self.tokenizer.token_stream(text),
            count: self.count.clone(),
        }
    }
}

#[derive(Debug)]
pub(super) struct CountedStream<S> {
    stream: S,
    count: TermCount,
}

impl<S: TokenStream> TokenStream for CountedStream<S> {
    fn advance(&mut self) -> bool {
        let is_there = self.stream.advance();
        self.count.0.fetch_add(u64::from(is_there), Ordering::Relaxed);
        is_there
    }

    fn token(&self) -> &Token {
        self.stream.token()
    }

    fn token_mut(&mut self) -> &mut Token {
        self.stream.token_mut()
    }
}

/// Lengths of the documents of an index that is written.
#[derive(Debug, Default)]
pub(super) struct LengthsWriter {
    /// The terms of the document that is being added.
    pub(super) count: TermCount,
    lengths: Vec<u32>,
}

impl LengthsWriter {
    /// The document is complete.
    pub(super) fn add(&mut self) {
        self.lengths.push(u32::try_from(self.count.take()).unwrap_or(u32::MAX));
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.lengths.as_slice())
    }

    /// Writes the file where it says more than the index.
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        if self.lengths.iter().all(|length| *length <= EXACT) {
            return Ok(());
        }
        let bytes: Vec<u8> = self.lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
        Ok(fs_err::write(dir.join(FILE), bytes)?)
    }
}

/// The file of an index.
#[derive(Debug, Clone)]
pub(super) struct DocumentLengths(SharedMap);

impl DocumentLengths {
    /// Of an index with a number of documents; none where it has no such file.
    pub(super) fn open(dir: &Path, documents: usize) -> Result<Option<Self>> {
        let path = dir.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let map = SharedMap::open(&path)?;
        let bytes = map.as_ref().map_or(0, |map| map.len());
        if bytes == 4 * documents {
            return Ok(map.map(Self));
        }
        Err(Error::Format {
            path,
            part: "size".to_owned(),
            expected: format!("{} bytes for {documents} documents", 4 * documents),
            got: bytes.to_string(),
            hint: "`dyad-indexer verify` says which file is damaged. Write an intact copy under another name and `mv` it there",
        })
    }

    /// Terms of a document.
    pub(super) fn get(&self, node: u32) -> u64 {
        let (all, _) = self.0.as_chunks::<4>();
        all.get(node as usize)
            .map_or(0, |length| u64::from(u32::from_le_bytes(*length)))
    }
}
