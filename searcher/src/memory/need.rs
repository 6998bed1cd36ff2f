//! What indexes need of the memory, next to the program, its question towers and its buffers; and the refusal of what
//! does not fit.

use std::fmt;
use std::io::Read as _;
use std::path::Path;

use dyad_index::format::header::HEADER_LEN;
use dyad_index::format::{HOT_SECTIONS, ShardHeader};
use dyad_index::lexical::{COLUMN_BYTES, DOCUMENT_NODES_BYTES, PASSAGE_BYTES};
use dyad_index::manifest::{DeletedEntry, Manifest, SHARDS_DIR, ShardEntry};
use dyad_index::search::NodeSet;
use dyad_index::shard::{DENSE_FILE, DOCUMENTS_DIR};
use dyad_index::snapshot::Snapshot;

use super::{ProcessMemoryLimit, mib};

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
    /// Of a generation that is open.
    pub fn from_snapshot(snapshot: &Snapshot) -> Self {
        let entries = snapshot.manifest().shards.iter().zip(snapshot.shards());
        entries
            .map(|(entry, shard)| Self::of_shard(entry, shard.dense.header()))
            .sum()
    }

    /// Of a generation that is not: reads the headers of its shards. A shard that cannot be read counts as nothing;
    /// whoever opens it says why.
    pub fn of_files(index: &Path, manifest: &Manifest) -> Self {
        let headers = manifest.shards.iter().filter_map(|entry| {
            let header = header(&index.join(SHARDS_DIR).join(&entry.id).join(DENSE_FILE))?;
            Some(Self::of_shard(entry, &header))
        });
        headers.sum()
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

/// Bytes that a searcher needs in memory, by what for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryNeed {
    /// The program and its question towers.
    pub program: u64,
    /// Caches, requests and replies when they are full.
    pub buffers: u64,
    /// All indexes.
    pub indexes: IndexMemory,
}

impl MemoryNeed {
    /// All but what is cold.
    pub fn total(&self) -> u64 {
        let IndexMemory { hot, anonymous, .. } = self.indexes;
        [self.program, self.buffers, hot, anonymous]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

impl fmt::Display for MemoryNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [program, buffers, hot, anonymous, total] = [
            self.program,
            self.buffers,
            self.indexes.hot,
            self.indexes.anonymous,
            self.total(),
        ]
        .map(mib);
        write!(
            f,
            "{total}: {hot} for graphs and codes of all indexes (pages of files), {anonymous} for their deletions and columns, {buffers} for full caches, \
             requests and replies, {program} for the program and its question towers"
        )
    }
}

/// An index that would need more memory than there is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "index `{name}` does not fit into memory: its graphs and codes are {}. Needed are {need}; the limit is {limit}. Raise the limit, give less to \
     `--question-cache-mb` and `--filter-cache-mb`, serve fewer indexes or documents in one searcher, or set another limit with `--memory-limit-mb` \
     (0: none)",
    mib(index.hot)
)]
pub struct DoesNotFit {
    /// The name of the index.
    pub name: String,
    /// The memory that the index needs.
    pub index: IndexMemory,
    /// The memory that the searcher needs with the index.
    pub need: MemoryNeed,
    /// What there is.
    pub limit: ProcessMemoryLimit,
}

/// What the process may use, and what it needs besides its indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// None: nothing is checked.
    pub limit: Option<ProcessMemoryLimit>,
    /// The program and its question towers.
    pub program: u64,
    /// Caches, requests and replies when they are full.
    pub buffers: u64,
}

impl ProcessMemory {
    /// What is needed with these indexes.
    pub fn need(&self, indexes: IndexMemory) -> MemoryNeed {
        MemoryNeed {
            program: self.program,
            buffers: self.buffers,
            indexes,
        }
    }

    /// Refuses an index that does not fit next to the `others`.
    pub fn check(&self, name: &str, index: IndexMemory, others: IndexMemory) -> Result<(), Box<DoesNotFit>> {
        let need = self.need([index, others].into_iter().sum());
        match &self.limit {
            Some(limit) if need.total() > limit.bytes => Err(Box::new(DoesNotFit {
                name: name.to_owned(),
                index,
                need,
                limit: limit.clone(),
            })),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_does_not_fit_is_refused_with_figures_and_the_way_out() {
        let limit = Some(ProcessMemoryLimit::from_option(100 * MIB, "--memory-limit-mb"));
        let memory = ProcessMemory {
            limit,
            program: 20 * MIB,
            buffers: 30 * MIB,
        };
        let index = IndexMemory {
            hot: 49 * MIB,
            cold: u64::MAX,
            anonymous: MIB,
        };
        assert_eq!(memory.check("a", index, IndexMemory::default()), Ok(()));
        let others = IndexMemory {
            hot: 1,
            ..IndexMemory::default()
        };
        let refused = memory.check("a", index, others).unwrap_err().to_string();
        for part in [
            "index `a`",
            "codes are 49.0 MiB",
            "100.0 MiB (`--memory-limit-mb`)",
            "30.0 MiB for full caches",
            "(0: none)",
        ] {
            assert!(refused.contains(part), "{refused}");
        }
        let unchecked = ProcessMemory { limit: None, ..memory };
        assert_eq!(
            unchecked.check("a", IndexMemory { hot: u64::MAX, ..index }, others),
            Ok(())
        );
        assert_eq!(unchecked.need(IndexMemory { hot: u64::MAX, ..index }).total(), u64::MAX);
    }
}
