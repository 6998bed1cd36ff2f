//! Predicts the memory and disk space of a build from counts alone, before it starts.

use std::fmt;

pub use dyad_files::space::ByteSize;
use dyad_index::layout::DEGREE_MULTIPLE;
use dyad_index::quant::{line_words, row_bytes};

use crate::error::Error;
use crate::graph_build::GraphConfig;
use crate::graph_build::HELD_OUT;
use crate::graph_build::calibration::DEEPEST_RANK;

/// The program itself and the remaining memory of the text index.
const BASE_BYTES: u64 = 48 << 20;
/// Tables and pages of a text index that is being written, whatever it holds, and the buffer of its vectors. Measured:
/// 0.2 MiB (64 shards of nine short texts each).
const SHARD_BYTES: u64 = 768 << 10;
/// The table of a shard's terms once it has doubled a few times; at most twice as many bytes as its texts. From there
/// on it is a small part of the terms.
const TABLE_BYTES: u64 = 4 << 20;
/// Part of the memory that terms may take, and the least: a shard's share of it has to hold a few documents.
const TERMS_SHARE: u64 = 4;
const LEAST_TERMS: u64 = 24 << 20;
/// Pages of parts that are in memory while they are merged. Measured: 125 MiB beyond the terms, of 3.5 GB of texts.
const MERGED_PAGES: u64 = 128 << 20;
/// Bytes of texts of which nothing is known.
const ANY_TEXTS: u64 = u64::MAX / 4;
/// Key of a document: the text's handle, an allocation, and a usual key.
const KEY_BYTES: u64 = 24 + 16 + 32;

/// Predicted sizes of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildPlan {
    /// Documents, where they are known beforehand.
    pub documents: Option<u64>,
    /// Values per vector.
    pub dim: usize,
    /// Shards; where there are fewer documents, no more than these get any.
    pub shards: usize,
    /// Bytes of the corpus unpacked, about; `None` where unknown.
    pub text_bytes: Option<u64>,
    /// Most bytes of memory that the terms of all texts take before they are written to the disk; `None` where they
    /// stay in memory.
    pub terms: Option<u64>,
    /// How each shard's graph is built, and vectors are stored.
    pub graph: GraphConfig,
    /// Number of held-out questions by which recall is measured; 0 where documents serve as questions.
    pub questions: usize,
}

impl BuildPlan {
    /// One shard of vectors of `dim` values, of documents of which nothing is known.
    pub fn new(graph: GraphConfig, dim: usize) -> Self {
        Self {
            documents: None,
            dim,
            shards: 1,
            text_bytes: None,
            terms: None,
            graph,
            questions: 0,
        }
    }

    fn code_bytes(&self) -> u64 {
        (line_words(self.dim) * 8 + row_bytes(self.dim)) as u64
    }

    /// Links of layer 0 in the file's layout, and the table from slots to nodes.
    fn layout_bytes(&self) -> u64 {
        (self.graph.params.cap(0).next_multiple_of(DEGREE_MULTIPLE) * 4 + 4) as u64
    }

    /// Bytes of a node's links while they are not laid out yet. The layers above 0 add 1 / (M - 1) of their own links.
    fn graph_bytes(&self) -> u64 {
        let m = self.graph.params.m as u64;
        let node = |cap: u64| cap * 4 + 8 + 4;
        node(2 * m) + node(m) / m.saturating_sub(1).max(1)
    }

    /// Bytes of `dense.dyad` over all shards for this number of documents: padded vectors, codes, links.
    pub fn index_bytes(&self, documents: u64) -> u64 {
        let row = (self.graph.row_type.stride(self.dim) * self.graph.row_type.bytes()) as u64;
        documents.saturating_mul(row + self.code_bytes() + self.layout_bytes())
    }

    /// Documents of the largest shard: keys are hashed, so that shards differ by chance.
    fn shard_documents(&self, documents: u64) -> u64 {
        let mean = documents as f64 / self.shards.max(1) as f64;
        let spread = if self.shards > 1 { 4.0 * mean.sqrt() } else { 0.0 };
        ((mean + spread).ceil() as u64).min(documents)
    }

    /// Bytes of the mapped vectors of the largest shard. They count as memory of the process, and the system may take
    /// them back at any time.
    pub fn mapped_bytes(&self, documents: u64) -> u64 {
        self.shard_documents(documents).saturating_mul(self.dim as u64 * 4)
    }

    /// Shards that can get documents.
    pub fn shards_filled(&self, documents: u64) -> u64 {
        documents.min(self.shards as u64).max(1)
    }

    /// Terms and places of all texts, which stay in memory until the last text is read. They take about as much as the
    /// texts do; half as much again is counted for what allocators lose.
    fn terms_bytes(&self, documents: u64) -> u64 {
        let texts = self.text_bytes.unwrap_or(0);
        // Pages of parts that are merged are dropped, but not at once.
        let (limit, pages) = self
            .terms
            .map_or((u64::MAX, 0), |terms| (terms, (texts / 8).min(MERGED_PAGES)));
        let terms = texts.saturating_add(texts / 2).min(limit).saturating_add(pages);
        let shards = self.shards_filled(documents);
        let tables = shards.saturating_mul(TABLE_BYTES).min(texts.saturating_mul(2));
        shards
            .saturating_mul(SHARD_BYTES)
            .saturating_add(tables)
            .saturating_add(terms)
    }

    /// Peak of disk in bytes, about: f32 vectors of all shards are spooled, then the shards are written one by one and
    /// their vectors removed. A text index takes about as much as the texts.
    pub fn disk_bytes(&self, documents: u64) -> u64 {
        self.disk_bytes_after(documents, 0)
    }

    /// The same where shards of that many bytes are there already: their documents are read again all the same.
    pub fn disk_bytes_after(&self, documents: u64, kept: u64) -> u64 {
        let largest = self.shard_documents(documents);
        let rows = |documents: u64| documents.saturating_mul(self.dim as u64 * 4);
        let first = rows(documents).saturating_add(self.index_bytes(largest));
        let last = self.index_bytes(documents).saturating_add(rows(largest));
        let texts = self.text_bytes.unwrap_or(0);
        first
            .max(last)
            .saturating_add(texts)
            .saturating_sub(kept)
            .max(rows(documents).saturating_add(texts))
    }

    /// Within `memory` bytes: terms are written to the disk, and there are as few more shards as it takes, up to
    /// `most_shards`; an error with what is needed where no number of them is enough.
    pub fn within(self, memory: u64, most_shards: usize) -> Result<Self, Error> {
        let documents = self.documents.unwrap_or(0);
        let needed = |shards: usize, terms: u64| {
            let text_bytes = self.text_bytes.or(Some(ANY_TEXTS));
            Self {
                shards,
                terms: Some(terms),
                text_bytes,
                ..self
            }
            .memory_bytes(documents)
        };
        let counts = self.shards..=most_shards.max(self.shards);
        for terms in [(memory / TERMS_SHARE).max(LEAST_TERMS), LEAST_TERMS] {
            // What grows with the number of shards is small next to what shrinks, but not always.
            if let Some(shards) = counts.clone().find(|shards| needed(*shards, terms) <= memory) {
                return Ok(Self {
                    shards,
                    terms: Some(terms),
                    ..self
                });
            }
        }
        let needed = counts
            .map(|shards| needed(shards, LEAST_TERMS))
            .min()
            .unwrap_or(u64::MAX);
        Err(Error::Memory {
            given: memory,
            needed,
            documents,
        })
    }

    /// Most documents of one shard that is built within `memory` bytes, up to `documents`.
    pub fn documents_within(self, memory: u64, documents: u64) -> u64 {
        let fits = |documents: u64| {
            Self {
                documents: Some(documents),
                shards: 1,
                ..self
            }
            .within(memory, 1)
            .is_ok()
        };
        let (mut low, mut high) = (0, documents);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    /// Bytes of terms that each shard may hold.
    pub(crate) fn terms_of_a_shard(&self) -> Option<u64> {
        // While a part is written its terms are sorted, and allocators lose half as much again.
        Some(self.terms? / 2 / self.shards.max(1) as u64)
    }

    /// Peak of memory in bytes: all texts are read, then one shard is built at a time, its vectors mapped. Without
    /// [`BuildPlan::text_bytes`] only the second of these is known.
    pub fn memory_bytes(&self, documents: u64) -> u64 {
        let n = self.shard_documents(documents);
        let codes = n.saturating_mul(self.code_bytes());
        let building = codes.saturating_add(self.graph.builder.get().memory(n, self.dim, &self.graph.params));
        // The repair's lists are one allocation each, and small ones stay with the allocator when they are freed.
        let lists = 24 + 16 + 4 + self.graph.params.cap(0) as u64 * 4;
        let arranging = codes
            .saturating_mul(2)
            .saturating_add(n.saturating_mul(2 * lists + self.graph_bytes() + self.layout_bytes() + 8));
        // Exact hits of every question: in heaps, then sorted, then as ground truth.
        let certifying = (HELD_OUT * DEEPEST_RANK * (2 * 8 + 4)) as u64;
        let keys = documents.saturating_mul(KEY_BYTES);
        let questions = (self.questions * self.dim * size_of::<f32>()) as u64;
        let peak = building.max(arranging.saturating_add(certifying.min(n.saturating_mul(20 * HELD_OUT as u64))));
        BASE_BYTES
            .saturating_add(keys)
            .saturating_add(questions)
            .saturating_add(
                self.mapped_bytes(documents)
                    .saturating_add(peak)
                    .max(self.terms_bytes(documents)),
            )
    }
}

impl fmt::Display for BuildPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let builder = self.graph.builder.get().name();
        let (documents, per) = match self.documents {
            Some(documents) => (documents, ""),
            None => (1_000_000, "per million "),
        };
        let parts = Shards(self.shards_filled(documents) as usize);
        // What is read from a stream may hold texts of any length.
        let condition = if self.text_bytes.is_some() {
            ""
        } else {
            " once the texts are read"
        };
        if let Some(documents) = self.documents {
            write!(f, "{documents} ")?;
        }
        write!(
            f,
            "documents of {} values in {parts}, built by {builder}: {per}about {} on disk for vectors, codes and graph, at \
             most {} of memory{condition}, of which {} are mapped vectors",
            self.dim,
            ByteSize(self.index_bytes(documents)),
            ByteSize(self.memory_bytes(documents)),
            ByteSize(self.mapped_bytes(documents)),
        )
    }
}

/// A number of shards for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shards(pub usize);

impl fmt::Display for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} shard{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests;
