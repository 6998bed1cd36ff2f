//! What a generation needs of the memory.

use std::io::Read as _;
use std::path::Path;

use super::Snapshot;
use crate::error::Result;
use crate::format::header::HEADER_LEN;
use crate::format::{HOT_SECTIONS, ShardHeader};
use crate::lexical::{COLUMN_BYTES, DOCUMENT_NODES_BYTES, PASSAGE_BYTES};
use crate::manifest::{DeletedEntry, Manifest, SHARDS_DIR, ShardEntry};
use crate::search::NodeSet;
use crate::shard::{DENSE_FILE, DOCUMENTS_DIR};

/// Bytes of one generation of an index, or of several indexes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexMemory {
    /// Pages of files that nearly every search reads, in random order: graphs and codes. They have to stay in memory.
    pub hot: u64,
    /// Of all other files: vectors, keys, texts. Read for the last few candidates, and for hits.
    pub cold: u64,
    /// Anonymous: deletions, codes of the documents that are left, where these are few enough to be scanned, columns of
    /// the fields that hits are grouped by, the numbers and lengths of the documents whose passages these are, and the
    /// nodes of each of these.
    pub anonymous: u64,
}

impl IndexMemory {
    /// Of a generation that is open, or of the part of it that is.
    pub fn from_snapshot(snapshot: &Snapshot) -> Self {
        snapshot
            .entries()
            .map(|(entry, shard)| Self::of_shard(entry, shard.dense.header()))
            .sum()
    }

    /// Of a generation that is not: reads the headers of its shards. A shard that cannot be read counts as nothing;
    /// whoever opens it says why.
    pub fn of_files(index: &Path, manifest: &Manifest) -> Self {
        Self::of_entries(index, &manifest.shards)
    }

    /// The same of some shards of a generation, by their numbers: see [`Manifest::entries_at`], also for the error.
    pub fn of_part(index: &Path, manifest: &Manifest, numbers: &[usize]) -> Result<Self> {
        Ok(Self::of_entries(index, manifest.entries_at(numbers)?))
    }

    fn of_entries<'m>(index: &Path, entries: impl IntoIterator<Item = &'m ShardEntry>) -> Self {
        let of_entry = |entry: &ShardEntry| {
            let header = header(&index.join(SHARDS_DIR).join(&entry.id).join(DENSE_FILE))?;
            Some(Self::of_shard(entry, &header))
        };
        entries.into_iter().filter_map(of_entry).sum()
    }

    fn of_shard(entry: &ShardEntry, header: &ShardHeader) -> Self {
        let hot = HOT_SECTIONS
            .iter()
            .filter_map(|kind| header.section(*kind))
            .map(|section| section.len)
            .sum();
        let files = entry
            .files
            .iter()
            .chain(entry.metadata.iter().flat_map(|updates| &updates.files));
        let all = files.fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
        let deletions = |deleted: &DeletedEntry| {
            let live = entry.documents.saturating_sub(deleted.documents);
            let kept = NodeSet::bytes_kept(usize::try_from(live).unwrap_or(usize::MAX), header.dim as usize);
            deleted.file.bytes.saturating_add(kept as u64)
        };
        let columns = entry.documents.saturating_mul((COLUMN_BYTES + PASSAGE_BYTES) as u64);
        let has_documents = entry.files.iter().any(|file| file.path.starts_with(DOCUMENTS_DIR));
        let of_documents = if has_documents { DOCUMENT_NODES_BYTES as u64 } else { 0 };
        let of_documents = entry.documents.saturating_mul(of_documents);
        let deletions = entry.deleted.as_ref().map_or(0, deletions);
        let anonymous = deletions.saturating_add(columns).saturating_add(of_documents);
        Self {
            hot,
            cold: all.saturating_sub(hot),
            anonymous,
        }
    }
}

/// The header of a shard's file.
fn header(path: &Path) -> Option<ShardHeader> {
    let mut file = fs_err::File::open(path).ok()?;
    let (mut bytes, len) = ([0; HEADER_LEN], file.metadata().ok()?.len());
    file.read_exact(&mut bytes).ok()?;
    ShardHeader::parse(&bytes, len).ok()
}

impl std::iter::Sum for IndexMemory {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            hot: sum.hot.saturating_add(one.hot),
            cold: sum.cold.saturating_add(one.cold),
            anonymous: sum.anonymous.saturating_add(one.anonymous),
        })
    }
}
