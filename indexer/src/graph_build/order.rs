//! Seeded shuffling and sampling of nodes: the same on every machine, for any number of threads.

use std::collections::BinaryHeap;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The nodes `0..n` in the order of a seeded hash of their number; ties cannot reorder them (the number decides).
pub fn shuffle_numbers(n: usize, seed: u64) -> Vec<u32> {
    let mut keyed: Vec<(u64, u32)> = (0..n as u32)
        .map(|node| (xxh3_64_with_seed(&node.to_le_bytes(), seed), node))
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, node)| node).collect()
}

/// At most `wanted` different nodes of `0..n`, ascending: the first of [`shuffle_numbers()`]. Takes memory for
/// `wanted`.
pub fn sample_numbers(n: usize, wanted: usize, seed: u64) -> Vec<u32> {
    // The largest key on top, to fall out first.
    let mut kept: BinaryHeap<(u64, u32)> = BinaryHeap::with_capacity(wanted.min(n) + 1);
    for node in 0..n as u32 {
        kept.push((xxh3_64_with_seed(&node.to_le_bytes(), seed), node));
        if kept.len() > wanted {
            kept.pop();
        }
    }
    let mut chosen: Vec<u32> = kept.into_iter().map(|(_, node)| node).collect();
    chosen.sort_unstable();
    chosen
}

/// Each of the nodes `0..n` with probability `share`, ascending. Those of a smaller share are among those of a larger
/// one.
pub fn choose_numbers(n: usize, share: f64, seed: u64) -> impl Iterator<Item = u32> {
    let below = share * 2f64.powi(64);
    (0..n as u32).filter(move |node| (xxh3_64_with_seed(&node.to_le_bytes(), seed) as f64) < below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_nested_and_about_as_large_as_asked() {
        let [half, eighth] = [0.5, 0.125].map(|share| choose_numbers(100_000, share, 3).collect::<Vec<u32>>());
        assert!(half.len().abs_diff(50_000) < 700 && eighth.len().abs_diff(12_500) < 500);
        assert!(eighth.iter().all(|node| half.binary_search(node).is_ok()) && half.is_sorted());
        assert_ne!(half, choose_numbers(100_000, 0.5, 4).collect::<Vec<u32>>());
        assert_eq!(
            (choose_numbers(9, 0.0, 3).count(), choose_numbers(9, 1.0, 3).count()),
            (0, 9)
        );
    }

    #[test]
    fn an_order_holds_every_node_once_and_depends_on_the_seed() {
        let (one, other) = (shuffle_numbers(1_000, 1), shuffle_numbers(1_000, 2));
        assert_eq!(one, shuffle_numbers(1_000, 1));
        assert_ne!(one, other);
        let mut sorted = one;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1_000).collect::<Vec<u32>>());
    }

    #[test]
    fn a_sample_is_ascending_distinct_and_never_larger_than_the_set() {
        let chosen = sample_numbers(1_000, 100, 7);
        assert_eq!(chosen.len(), 100);
        let mut first = shuffle_numbers(1_000, 7);
        first.truncate(100);
        first.sort_unstable();
        assert_eq!(chosen, first);
        assert!(chosen.is_sorted_by(|left, right| left < right));
        assert_eq!(sample_numbers(5, 100, 7), [0, 1, 2, 3, 4]);
    }
}
