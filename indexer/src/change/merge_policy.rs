//! Which shards of a generation are merged: a pure function of their sizes and deletions.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use dyad_index::manifest::ShardEntry;

/// Share of deleted documents above which a shard is merged.
const DELETED_SHARE: f64 = 0.1;
/// A tier's factor in documents.
const TIER: u64 = 8;
/// Shards of the largest tier above which they are merged, by default.
const LARGE_SHARDS: usize = 8;
/// The same for all smaller tiers: a small shard takes about a third as long to search as a large one, and little to
/// merge.
pub(crate) const SMALL_SHARDS: usize = 2;

/// The shards among which those to merge are looked for, as if there were no others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeCandidates {
    /// Their live documents.
    pub sizes: RangeInclusive<u64>,
    /// Shards of the largest tier above which they are merged.
    pub largest_tier: usize,
}

impl Default for MergeCandidates {
    /// All shards.
    fn default() -> Self {
        Self {
            sizes: 0..=u64::MAX,
            largest_tier: LARGE_SHARDS,
        }
    }
}

impl MergeCandidates {
    /// The same as [`select_mergeable`] among these shards alone.
    pub fn select(&self, shards: &[ShardEntry], max_documents: u64, all: bool) -> Vec<Vec<usize>> {
        let is_candidate = |(_, entry): &(usize, &ShardEntry)| self.sizes.contains(&entry.live());
        let candidates: Vec<(usize, &ShardEntry)> = shards.iter().enumerate().filter(is_candidate).collect();
        let entries: Vec<&ShardEntry> = candidates.iter().map(|(_, entry)| *entry).collect();
        let mut groups = select_among(&entries, max_documents, all, self.largest_tier);
        for at in groups.iter_mut().flatten() {
            *at = candidates.get(*at).map_or(*at, |(place, _)| *place);
        }
        groups
    }
}

/// Positions of shards that are to become one, in groups: shards of which more than a tenth is deleted; shards of one
/// tier (a tier is a factor of eight in live documents, from the largest shard down) of which there are more than eight
/// in the first tier, or more than two in another; and those an eighth as large as one of these, or smaller, since they
/// add little to the work. With `all`, every shard. No group has more than `max_documents` live documents, except a
/// single shard that has.
pub fn select_mergeable(shards: &[ShardEntry], max_documents: u64, all: bool) -> Vec<Vec<usize>> {
    MergeCandidates::default().select(shards, max_documents, all)
}

fn select_among(shards: &[&ShardEntry], max_documents: u64, all: bool, largest_tier: usize) -> Vec<Vec<usize>> {
    let largest = shards.iter().map(|entry| entry.live()).max().unwrap_or_default().max(1);
    let tier = |entry: &ShardEntry| (largest / entry.live().max(1)).max(1).ilog(TIER);
    let mut tiers: BTreeMap<u32, usize> = BTreeMap::new();
    for entry in shards.iter().copied() {
        *tiers.entry(tier(entry)).or_default() += 1;
    }
    let deleted = |entry: &ShardEntry| entry.documents - entry.live();
    let wanted = |entry: &ShardEntry| {
        all || deleted(entry) as f64 > DELETED_SHARE * entry.documents as f64
            || tiers
                .get(&tier(entry))
                .is_some_and(|shards| *shards > if tier(entry) == 0 { largest_tier } else { SMALL_SHARDS })
    };
    let wanted_shards = shards.iter().copied().filter(|entry| wanted(entry));
    let largest = wanted_shards.map(ShardEntry::live).max();
    let joins = |entry: &ShardEntry| wanted(entry) || largest.is_some_and(|largest| entry.live() <= largest / TIER);
    let mut chosen: Vec<usize> = shards
        .iter()
        .enumerate()
        .filter(|(_, entry)| joins(entry))
        .map(|(at, _)| at)
        .collect();
    let live = |at: &usize| shards.get(*at).map_or(0, |entry| entry.live());
    chosen.sort_by_key(|at| (live(at), *at));
    let mut groups: Vec<(u64, Vec<usize>)> = Vec::new();
    for at in chosen {
        match groups.last_mut() {
            Some((sum, group)) if *sum + live(&at) <= max_documents => {
                *sum += live(&at);
                group.push(at);
            }
            _ => groups.push((live(&at), vec![at])),
        }
    }
    // A single shard with neither deletions nor changed metadata would be copied.
    let useful = |group: &Vec<usize>| {
        group.len() > 1
            || group.iter().any(|at| {
                shards
                    .get(*at)
                    .is_some_and(|entry| wanted(entry) && (deleted(entry) > 0 || entry.metadata.is_some()))
            })
    };
    groups
        .into_iter()
        .map(|(_, mut group)| {
            group.sort_unstable();
            group
        })
        .filter(useful)
        .collect()
}

#[cfg(test)]
mod tests {
    use dyad_index::manifest::{DeletedEntry, FileEntry};

    use super::*;

    fn entry(documents: u64, deleted: u64) -> ShardEntry {
        let file = FileEntry {
            path: "d".into(),
            bytes: 0,
            crc32c: 0,
        };
        let gone = (deleted > 0).then_some(DeletedEntry {
            documents: deleted,
            file,
        });
        ShardEntry {
            id: String::new(),
            documents,
            files: Vec::new(),
            deleted: gone,
            metadata: None,
            calibration: None,
        }
    }

    #[test]
    fn shards_with_many_deletions_and_many_of_one_size_are_merged() {
        let none: [Vec<usize>; 0] = [];
        assert_eq!(
            select_mergeable(&[entry(1000, 0), entry(100, 10), entry(12, 0)], 10_000, false),
            none
        );
        assert_eq!(
            select_mergeable(&[entry(1000, 0), entry(100, 11), entry(11, 0)], 10_000, false),
            [[1, 2]]
        );
        assert_eq!(
            select_mergeable(&[entry(100, 0), entry(100, 11)], 10_000, false),
            [[1]],
            "not one of about its size"
        );
        assert_eq!(
            select_mergeable(&[entry(100, 11), entry(9, 0)], 89, false),
            [[0]],
            "there is no room for the other"
        );
        let mut shards: Vec<ShardEntry> = (0..8).map(|_| entry(60, 0)).collect();
        assert_eq!(select_mergeable(&shards, 100_000, false), none, "eight of one size");
        shards.push(entry(50, 0));
        assert_eq!(select_mergeable(&shards, 100_000, false), [[0, 1, 2, 3, 4, 5, 6, 7, 8]]);
        let mut shards = vec![entry(40_000, 0), entry(60, 0), entry(60, 0), entry(2, 0)];
        assert_eq!(
            select_mergeable(&shards, 100_000, false),
            none,
            "two of each smaller size"
        );
        shards.push(entry(50, 0));
        assert_eq!(select_mergeable(&shards, 100_000, false), [[1, 2, 3, 4]]);
    }

    #[test]
    fn candidates_are_looked_at_as_if_there_were_no_others() {
        let mut shards = vec![entry(40_000, 0), entry(60, 0), entry(50, 0), entry(30_000, 30_000 / 5)];
        let small = MergeCandidates {
            sizes: 0..=1_000,
            largest_tier: 2,
        };
        assert!(small.select(&shards, 100_000, false).is_empty());
        shards.push(entry(55, 0));
        assert_eq!(small.select(&shards, 100_000, false), [[1, 2, 4]]);
        let large = MergeCandidates {
            sizes: 1_001..=u64::MAX,
            ..MergeCandidates::default()
        };
        assert_eq!(large.select(&shards, 100_000, false), [[3]]);
    }

    #[test]
    fn no_new_shard_is_larger_than_asked_for_and_none_is_copied() {
        let shards = [entry(60, 0), entry(50, 0), entry(30, 0), entry(200, 0), entry(40, 1)];
        assert_eq!(
            select_mergeable(&shards, 100, true),
            [[2, 4]],
            "30 + 39; 50 + 60 would be too many"
        );
        assert_eq!(select_mergeable(&shards, 1_000, true), [[0, 1, 2, 3, 4]]);
        assert!(select_mergeable(&[entry(9, 0)], 1_000, true).is_empty());
        let changed = dyad_index::manifest::MetadataEntry {
            id: "m".into(),
            documents: 1,
            files: Vec::new(),
        };
        assert_eq!(
            select_mergeable(
                &[ShardEntry {
                    metadata: Some(changed),
                    ..entry(9, 0)
                }],
                1_000,
                true
            ),
            [[0]]
        );
    }
}
