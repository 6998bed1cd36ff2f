//! What indexes need of the memory, next to the program, its question towers and its buffers; and the refusal of what
//! does not fit.

use std::fmt;

use dyad_index::snapshot::IndexMemory;

use super::{ProcessMemoryLimit, mib};

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
     `--filter-cache-mb` and, unless it is a leaf, `--question-cache-mb`, serve fewer indexes or documents in one searcher, or set another limit with `--memory-limit-mb` \
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
