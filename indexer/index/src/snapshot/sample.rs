//! Documents of a generation chosen at random.

use std::collections::HashMap;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use super::Snapshot;
use crate::error::Result;
use crate::search::NodeSet;

impl Snapshot {
    /// Shards and nodes of `count` documents that are not deleted, each once and in random order; all of them where
    /// there are fewer. With `allowed`, as [`Self::allowed`] returns it, they are chosen from those. The same for the
    /// same documents and seed.
    pub fn sample(&self, count: usize, seed: u64, allowed: Option<&[NodeSet]>) -> Result<Vec<(usize, u32)>> {
        self.check_allowed(allowed)?;
        let sets = self.shards.iter().enumerate().map(|(at, shard)| {
            let nodes = allowed.and_then(|all| all.get(at)).or(shard.live());
            (nodes, nodes.map_or(shard.dense.len(), NodeSet::len))
        });
        let sets: Vec<_> = sets.collect();
        let total = sets.iter().map(|(_, len)| len).sum();
        let mut places: Vec<(usize, usize)> = places(total, count, seed).into_iter().zip(0..).collect();
        places.sort_unstable();
        let (mut places, mut chosen, mut start) = (places.into_iter().peekable(), Vec::new(), 0);
        for (shard, (nodes, len)) in sets.into_iter().enumerate() {
            let mut nodes = nodes.map(|nodes| (nodes.iter(), start));
            while let Some((place, rank)) = places.next_if(|(place, _)| *place < start + len) {
                let node = match &mut nodes {
                    Some((nodes, next)) => {
                        let node = nodes.nth(place - *next);
                        *next = place + 1;
                        node
                    }
                    None => Some((place - start) as u32),
                };
                chosen.extend(node.map(|node| (rank, (shard, node))));
            }
            start += len;
        }
        chosen.sort_unstable();
        Ok(chosen.into_iter().map(|(_, document)| document).collect())
    }
}

/// `count` different numbers below `total` in random order: the beginning of a Fisher-Yates shuffle that keeps only
/// what has moved.
fn places(total: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut moved = HashMap::new();
    let mut places = Vec::with_capacity(count.min(total));
    for at in 0..count.min(total) {
        let below = (total - at) as u128;
        let other = at + ((u128::from(random.next_u64()) * below) >> u64::BITS) as usize;
        let here = moved.remove(&at).unwrap_or(at);
        places.push(if other == at {
            here
        } else {
            moved.insert(other, here).unwrap_or(other)
        });
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_each_number_once_and_is_that_of_its_seed() {
        for (total, count) in [(0, 5), (1, 1), (7, 3), (7, 7), (7, 100), (100_000, 1000)] {
            let sample = places(total, count, 3);
            assert_eq!(sample, places(total, count, 3));
            let mut sorted = sample.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), count.min(total), "{total} {count}");
            assert!(sorted.iter().all(|place| *place < total));
        }
        assert_ne!(places(1000, 10, 3), places(1000, 10, 4));
    }

    #[test]
    fn every_number_is_as_likely_in_every_place() {
        let mut counts = [[0_u32; 3]; 5];
        for seed in 0..5000 {
            for (place, number) in places(5, 3, seed).into_iter().enumerate() {
                counts[number][place] += 1;
            }
        }
        // 1000 expected, with a standard deviation of 28.
        assert!(
            counts.iter().flatten().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
    }
}
