//! Opening a shard in constant time; views of its sections; damage that is found later.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lock::lock_open;
use super::writer::ShardMeta;
use crate::certificate::Certificate;
use crate::error::{Error, Result};
use crate::format::codes::CodesTable;
use crate::format::graph::{GraphTable, LinksView};
use crate::format::header::HeaderFault;
use crate::format::keys::KeysView;
use crate::format::rows::StoredRows;
use crate::format::{FormatFault, HOT_SECTIONS, SectionEntry, SectionKind, ShardHeader, VERSION};
use crate::quant::CodesView;
use crate::storage::{HotBytes, MmapFile};

/// `cp` over a file that a searcher maps would end that searcher.
const HINT: &str = "The file is damaged (`dyad-indexer verify` says where): write an intact copy under another name and `mv` it there, or build \
     the index again";

/// A mapped `dense.dyad`.
#[derive(Debug)]
pub struct DenseShard {
    map: MmapFile,
    header: ShardHeader,
    meta: ShardMeta,
    certificate: Certificate,
    graph: GraphTable,
    codes: CodesTable,
    vectors: SectionEntry,
    quantised: SectionEntry,
    links: SectionEntry,
    keys: SectionEntry,
    /// The first fault that was found after opening.
    damage: OnceLock<FormatFault>,
    /// Whether somebody is to call [`Self::check_sums`], or has.
    claimed: AtomicBool,
    hot_bytes: HotBytes,
}

impl DenseShard {
    /// Maps a file and checks header, META, CERTIFICATE and the offsets of the arrays. Time does not depend on the
    /// number of vectors. As long as it is open, no [`RemovalLock`](super::RemovalLock) of the shard is given.
    pub fn open(path: &Path) -> Result<Self> {
        let map = MmapFile::open(path)?;
        lock_open(map.file())?;
        let fault = |fault: FormatFault| fault_of(path, fault);
        let header = ShardHeader::parse(&map, map.len() as u64).map_err(|problem| match problem {
            HeaderFault::Newer(got) => Error::Newer {
                path: path.to_owned(),
                got,
                supported: VERSION,
            },
            HeaderFault::Fault(problem) => fault(problem),
        })?;
        let find = |kind| {
            header
                .section(kind)
                .copied()
                .ok_or_else(|| fault(FormatFault::new("section table", "all sections", "fewer")))
        };
        let (vectors, quantised) = (find(SectionKind::Vectors)?, find(SectionKind::Codes)?);
        let (links, keys) = (find(SectionKind::Graph)?, find(SectionKind::Keys)?);
        let meta: ShardMeta = json(&map, find(SectionKind::Meta)?).map_err(fault)?;
        let certificate = json(&map, find(SectionKind::Certificate)?).map_err(fault)?;
        if meta.model.dim != header.dim as usize {
            return Err(fault(FormatFault::new("META, dim", header.dim, meta.model.dim)));
        }
        let codes = CodesTable::parse(bytes(&map, quantised), header.vectors, header.dim, meta.model.metric);
        let codes = codes.map_err(fault)?;
        let view = codes.view(bytes(&map, quantised));
        StoredRows::new(bytes(&map, vectors), header.row_type, view, header.vectors as usize).map_err(fault)?;
        KeysView::new(bytes(&map, keys), header.vectors).map_err(fault)?;
        let graph = GraphTable::parse(bytes(&map, links), header.vectors).map_err(fault)?;
        if graph.has_copies() != header.has_copies {
            let expected = if header.has_copies {
                "copies, as the version says"
            } else {
                "no copies, as the version says"
            };
            return Err(fault(FormatFault::new(
                "GRAPH, copies",
                expected,
                if graph.has_copies() { "some" } else { "none" },
            )));
        }
        let hot = HOT_SECTIONS.map(find).into_iter().collect::<Result<Vec<_>>>()?;
        let hot_bytes = HotBytes::add(hot.iter().map(|section| section.len).sum());
        for hot in hot {
            if hot_bytes.fit() {
                map.advise_huge(hot.offset, hot.len);
                map.advise_needed(hot.offset, hot.len);
            } else {
                map.advise_random(hot.offset, hot.len);
            }
        }
        for cold in [vectors, keys] {
            map.advise_random(cold.offset, cold.len);
        }
        let (damage, claimed) = (OnceLock::new(), AtomicBool::new(false));
        Ok(Self {
            map,
            header,
            meta,
            certificate,
            graph,
            codes,
            vectors,
            quantised,
            links,
            keys,
            damage,
            claimed,
            hot_bytes,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.map.path()
    }

    /// What is wrong with the file, as far as searches, look-ups or [`Self::check_sums`] have found it. Opening does
    /// not read the bulk sections; from the first fault on, every search of this shard is
    /// [`Damaged`](crate::search::Completeness::Damaged).
    pub fn damage(&self) -> Option<Error> {
        self.damage.get().map(|fault| fault_of(self.path(), fault.clone()))
    }

    /// True for the first caller only, who is to call [`Self::check_sums`]: generations share shards.
    pub fn claim_check(&self) -> bool {
        !self.claimed.swap(true, Ordering::Relaxed)
    }

    /// The file that was opened, whatever file has its name now.
    pub(super) fn file(&self) -> &fs_err::File {
        self.map.file()
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damage.get().is_some()
    }

    /// Records the first fault, and logs it.
    pub(crate) fn note_damage(&self, fault: FormatFault) {
        if self.damage.set(fault).is_ok()
            && let Some(error) = self.damage()
        {
            tracing::error!("{error}");
        }
    }

    /// Counts and the section table.
    pub fn header(&self) -> &ShardHeader {
        &self.header
    }

    /// Model and build parameters.
    pub fn meta(&self) -> &ShardMeta {
        &self.meta
    }

    /// The certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The mapped links.
    pub fn graph(&self) -> LinksView<'_> {
        self.graph.view(bytes(&self.map, self.links))
    }

    /// The mapped codes.
    pub fn codes(&self) -> CodesView<'_> {
        self.codes
            .view(bytes(&self.map, self.quantised))
            .on_disk(self.on_disk())
    }

    /// The mapped vectors.
    pub fn rows(&self) -> StoredRows<'_> {
        let (vectors, kind) = (bytes(&self.map, self.vectors), self.header.row_type);
        let view = StoredRows::new(vectors, kind, self.codes(), self.len());
        // `open` has already built this view; a map does not change.
        view.unwrap_or_else(|_| StoredRows::empty()).on_disk(self.on_disk())
    }

    /// The map, where not all that searches read at random fits into memory.
    fn on_disk(&self) -> Option<&MmapFile> {
        (!self.hot_bytes.fit()).then_some(&self.map)
    }

    /// Asks the kernel to read vectors of nodes from disk: a scan needs them soon, in order. For graph searches, whose
    /// order is random, the advice that nothing is read ahead stays.
    pub(super) fn read_ahead(&self, nodes: std::ops::Range<u64>) {
        let row = self.vectors.len / self.header.vectors.max(1);
        let (start, end) = (nodes.start.min(self.header.vectors), nodes.end.min(self.header.vectors));
        self.map
            .advise_needed(self.vectors.offset + start * row, end.saturating_sub(start) * row);
    }

    /// Evicts the vectors' pages from memory; a search that needs them reads them from disk again.
    pub fn evict_vectors(&self) {
        self.map.advise_unneeded(self.vectors.offset, self.vectors.len);
    }

    /// The key of a node; none where the keys are damaged.
    pub fn key(&self, node: u32) -> Option<&str> {
        let key = self.keys().key(node);
        if key.is_empty() {
            self.note_damage(FormatFault::new(
                "KEYS",
                "a key for each node",
                format!("none for node {node}"),
            ));
        }
        Some(key).filter(|key| !key.is_empty())
    }

    /// The node with a key. An error where the keys are damaged, so that it is unknown whether the key exists.
    pub fn find(&self, key: &str) -> Result<Option<u32>> {
        self.keys().find(key).map_err(|fault| self.damaged(fault))
    }

    /// The nodes whose keys are greater than this one, in the order of their keys. An error where the keys are damaged.
    pub(crate) fn after(&self, key: &str) -> Result<&[u32]> {
        self.keys().after(key).map_err(|fault| self.damaged(fault))
    }

    /// The error of damage that was found, which is recorded.
    pub(crate) fn damaged(&self, fault: FormatFault) -> Error {
        self.note_damage(fault.clone());
        fault_of(self.path(), fault)
    }

    /// The vector of a node, as its values are stored. An error where it is damaged.
    pub fn vector(&self, node: u32) -> Result<Vec<f32>> {
        let mut row = Vec::new();
        self.rows().decode(node, &mut row);
        if row.is_empty() || row.iter().any(|value| !value.is_finite()) {
            let expected = "finite values for each node";
            return Err(self.damaged(FormatFault::new("VECTORS", expected, format!("others for node {node}"))));
        }
        Ok(row)
    }

    /// Nodes whose keys are this one, `#` and a number in decimal, and that number. An error where keys are damaged.
    pub fn numbered(&self, document: &str) -> Result<Vec<(u32, u64)>> {
        let prefix = format!("{document}#");
        let nodes = self.keys().prefixed(&prefix).map_err(|fault| self.damaged(fault))?;
        let number = |node: &u32| {
            let digits = self.keys().key(*node).strip_prefix(&prefix)?;
            let plain =
                digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|digit| digit.is_ascii_digit()));
            Some((*node, digits.parse().ok().filter(|_| plain)?))
        };
        Ok(nodes.iter().filter_map(number).collect())
    }

    /// The mapped keys.
    pub fn keys(&self) -> KeysView<'_> {
        let view = KeysView::new(bytes(&self.map, self.keys), self.header.vectors);
        // `open` has already built this view; a map does not change.
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
}

fn bytes(map: &MmapFile, entry: SectionEntry) -> &[u8] {
    map.get(entry.offset as usize..(entry.offset + entry.len) as usize)
        .unwrap_or(&[])
}

/// A small section, checked against its checksum, as JSON.
fn json<T: serde::de::DeserializeOwned>(map: &MmapFile, entry: SectionEntry) -> std::result::Result<T, FormatFault> {
    let (bytes, name) = (bytes(map, entry), entry.kind.name());
    check_sum(bytes, entry)?;
    serde_json::from_slice(bytes).map_err(|error| FormatFault::new(name, "its JSON", error))
}

fn check_sum(bytes: &[u8], entry: SectionEntry) -> std::result::Result<(), FormatFault> {
    let got = crc32c::crc32c(bytes);
    if got == entry.crc32c {
        return Ok(());
    }
    Err(FormatFault::new(
        entry.kind.name(),
        format!("checksum {:08x}", entry.crc32c),
        format!("{got:08x}"),
    ))
}

pub(super) fn fault_of(path: &Path, fault: FormatFault) -> Error {
    Error::Format {
        path: path.to_owned(),
        part: fault.part,
        expected: fault.expected,
        got: fault.got,
        hint: HINT,
    }
}
