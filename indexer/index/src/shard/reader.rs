//! Opening in constant time; views; search.

use std::cell::RefCell;
use std::path::Path;

use super::writer::ShardMeta;
use crate::certificate::Certificate;
use crate::error::{Error, Result};
use crate::format::graph::{GraphTable, GraphView};
use crate::format::header::HeaderFault;
use crate::format::keys::KeysView;
use crate::format::{Fault, Header, SectionEntry, SectionKind, VERSION, section};
use crate::search::{Scored, Scratch, SearchParams, VectorRows, flat, walk};
use crate::storage::Mapped;

const HINT: &str = "The file is damaged: restore it from a copy, or build the index again";

thread_local! {
    /// Search threads live long (rayon), so each keeps its memory for the next walk.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// A mapped `dense.dyad`.
#[derive(Debug)]
pub struct DenseShard {
    map: Mapped,
    header: Header,
    meta: ShardMeta,
    certificate: Certificate,
    graph: GraphTable,
    vectors: SectionEntry,
    links: SectionEntry,
    keys: SectionEntry,
}

/// A hit of one shard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShardHit<'a> {
    /// Inner product or BM25.
    pub score: f32,
    /// Document key.
    pub key: &'a str,
    /// Node of the shard.
    pub node: u32,
}

/// Hits of one shard, best first, and what they cost.
#[derive(Debug, Clone, Default)]
pub struct Found<'a> {
    /// Score descending, then key ascending.
    pub hits: Vec<ShardHit<'a>>,
    /// Inner products computed.
    pub distance_computations: u64,
}

impl DenseShard {
    /// Maps a file and checks header, META, CERTIFICATE and the arrays' places. Time does not depend on the number
    /// of vectors.
    pub fn open(path: &Path) -> Result<Self> {
        let map = Mapped::open(path)?;
        let fault = |fault: Fault| fault_of(path, fault);
        let header = Header::parse(&map, map.len() as u64).map_err(|problem| match problem {
            HeaderFault::Newer(got) => Error::Newer { path: path.to_owned(), got, supported: VERSION },
            HeaderFault::Fault(problem) => fault(problem),
        })?;
        let find = |kind| {
            header.section(kind).copied().ok_or_else(|| fault(Fault::new("section table", "all sections", "fewer")))
        };
        let (vectors, links, keys) = (find(SectionKind::Vectors)?, find(SectionKind::Graph)?, find(SectionKind::Keys)?);
        let meta: ShardMeta = json(&map, find(SectionKind::Meta)?).map_err(fault)?;
        let certificate = json(&map, find(SectionKind::Certificate)?).map_err(fault)?;
        let expected = header.vectors.saturating_mul(u64::from(header.row_stride) * 4);
        if vectors.len != expected {
            return Err(fault(Fault::new("VECTORS", format!("{expected} bytes"), vectors.len)));
        }
        if meta.model.dim != header.dim as usize {
            return Err(fault(Fault::new("META, dim", header.dim, meta.model.dim)));
        }
        section::as_slice::<f32>(bytes(&map, vectors), "VECTORS").map_err(fault)?;
        KeysView::new(bytes(&map, keys), header.vectors).map_err(fault)?;
        let graph = GraphTable::parse(bytes(&map, links), header.vectors).map_err(fault)?;
        map.advise_needed(links.offset, links.len);
        map.advise_random(vectors.offset, vectors.len);
        Ok(Self { map, header, meta, certificate, graph, vectors, links, keys })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.map.path()
    }

    /// Counts and the section table.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What made the shard.
    pub fn meta(&self) -> &ShardMeta {
        &self.meta
    }

    /// What the build measured.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The links in place.
    pub fn graph(&self) -> GraphView<'_> {
        self.graph.view(bytes(&self.map, self.links))
    }

    /// The vectors in place.
    pub fn rows(&self) -> Rows<'_> {
        let values = section::as_slice(bytes(&self.map, self.vectors), "VECTORS").unwrap_or(&[]);
        Rows { values, dim: self.header.dim as usize, stride: self.header.row_stride as usize }
    }

    /// The keys in place.
    pub fn keys(&self) -> KeysView<'_> {
        let view = KeysView::new(bytes(&self.map, self.keys), self.header.vectors);
        // `open` has built this very view once; a map does not change.
        view.unwrap_or_else(|_| KeysView::empty())
    }

    /// Vectors in the shard.
    pub fn len(&self) -> usize {
        self.header.vectors as usize
    }

    /// No vectors at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `k` nearest by the graph. `query` holds `dim` finite values.
    pub fn search(&self, query: &[f32], params: &SearchParams) -> Found<'_> {
        let walked = SCRATCH.with_borrow_mut(|scratch| walk(&self.rows(), &self.graph(), query, params, scratch));
        Found { hits: self.hits(&walked.hits, params.k), distance_computations: walked.distance_computations }
    }

    /// The `k` nearest by comparing with every vector.
    pub fn search_exact(&self, query: &[f32], k: usize) -> Found<'_> {
        let scored = flat(&self.rows(), query, k);
        Found { hits: self.hits(&scored, k), distance_computations: self.len() as u64 }
    }

    /// Breaks ties by key and cuts at `k`.
    fn hits(&self, scored: &[Scored], k: usize) -> Vec<ShardHit<'_>> {
        let keys = self.keys();
        let hit = |scored: &Scored| ShardHit { score: scored.score, key: keys.key(scored.node), node: scored.node };
        let mut hits: Vec<_> = scored.iter().map(hit).collect();
        hits.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.key.cmp(b.key)));
        hits.truncate(k);
        hits
    }

    /// The bytes of a section.
    pub(super) fn section_bytes(&self, entry: SectionEntry) -> &[u8] {
        bytes(&self.map, entry)
    }
}

/// Mapped vectors.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    values: &'a [f32],
    dim: usize,
    stride: usize,
}

impl VectorRows for Rows<'_> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn len(&self) -> usize {
        self.values.len().checked_div(self.stride).unwrap_or(0)
    }

    fn row(&self, node: u32) -> &[f32] {
        let start = node as usize * self.stride;
        self.values.get(start..start + self.dim).unwrap_or(&[])
    }
}

fn bytes(map: &Mapped, entry: SectionEntry) -> &[u8] {
    map.get(entry.offset as usize..(entry.offset + entry.len) as usize).unwrap_or(&[])
}

/// A small section, checked against its checksum, as JSON.
fn json<T: serde::de::DeserializeOwned>(map: &Mapped, entry: SectionEntry) -> std::result::Result<T, Fault> {
    let (bytes, name) = (bytes(map, entry), entry.kind.name());
    check_sum(bytes, entry)?;
    serde_json::from_slice(bytes).map_err(|error| Fault::new(name, "its JSON", error))
}

pub(super) fn check_sum(bytes: &[u8], entry: SectionEntry) -> std::result::Result<(), Fault> {
    let got = crc32c::crc32c(bytes);
    if got == entry.crc32c {
        return Ok(());
    }
    Err(Fault::new(entry.kind.name(), format!("checksum {:08x}", entry.crc32c), format!("{got:08x}")))
}

pub(super) fn fault_of(path: &Path, fault: Fault) -> Error {
    Error::Format { path: path.to_owned(), part: fault.part, expected: fault.expected, got: fault.got, hint: HINT }
}
