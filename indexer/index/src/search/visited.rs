//! The visited set of a search: one bit per slot.
//!
//! Not a `FixedBitSet`: that is emptied by writing all of it, a megabyte per search of ten million vectors, where a
//! search visits thousands; and it marks one bit at a time, where this marks a list of links without a branch. A hash
//! table instead costs 12 to 20 % of the speed at recall 0.99 over 100,000 and 300,000 vectors, and 10 % over 1,000,000
//! (`dyad-bench ann`, one thread).

/// Adjacent words that are cleared in the time of one that is looked up by slot.
const ADJACENT: usize = 8;

/// A set of slots. Clearing it costs either the marked words or all words in use, whichever are fewer. It keeps its
/// memory for the largest graph: a thread that searches shards of different sizes in turn does not write all of it each
/// time.
#[derive(Debug, Default)]
pub(super) struct VisitedSet {
    /// All zero beyond those in use.
    words: Vec<u64>,
    slots: usize,
    /// All that is marked.
    marked: Vec<u32>,
    /// Whether a slot that does not exist was looked up.
    outside: bool,
}

impl VisitedSet {
    /// Clears it, and makes room for `slots`.
    pub(super) fn reset(&mut self, slots: usize) {
        let used = self.slots.div_ceil(64);
        if self.marked.len() * ADJACENT < used {
            for slot in &self.marked {
                if let Some(word) = self.words.get_mut(*slot as usize / 64) {
                    *word = 0;
                }
            }
        } else {
            self.words.iter_mut().take(used).for_each(|word| *word = 0);
        }
        let words = slots.div_ceil(64);
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        self.marked.clear();
        self.slots = slots;
        self.outside = false;
    }

    /// Whether a link led to a slot that does not exist, though there are slots.
    pub(super) fn has_invalid_link(&self) -> bool {
        self.outside && self.slots > 0
    }

    /// Keeps those of `slots` that were not visited before, and marks none. Records whether one of them does not exist.
    pub(super) fn retain_unvisited(&mut self, slots: &mut Vec<u32>) {
        self.check_all(slots);
        let mut kept = 0;
        // No branch, as in `insert_all`.
        for at in 0..slots.len() {
            let slot = slots[at];
            let word = self.words.get(slot as usize / 64).copied().unwrap_or(u64::MAX);
            slots[kept] = slot;
            kept += usize::from(word >> (slot % 64) & 1 == 0);
        }
        slots.truncate(kept);
    }

    /// Records whether a link leads to a slot that does not exist, without a visit to any.
    pub(super) fn check_all(&mut self, slots: &[u32]) {
        let highest = slots.iter().copied().max();
        self.outside |= highest.is_some_and(|slot| slot as usize >= self.slots);
    }

    /// Marks a slot; false where it was marked before, or does not exist.
    pub(super) fn insert(&mut self, slot: u32) -> bool {
        let new = mark(&mut self.words, self.slots, &mut self.outside, slot);
        if new {
            self.marked.push(slot);
        }
        new
    }

    /// Marks all of `slots`, and keeps those that were not visited before.
    pub(super) fn insert_all(&mut self, slots: &mut Vec<u32>) {
        // In locals, or each mark would make the next one load them again.
        let (words, count, mut outside) = (self.words.as_mut_slice(), self.slots, self.outside);
        let (list, mut kept) = (slots.as_mut_slice(), 0);
        // No branch depends on what was visited: which links are new is as good as random.
        for at in 0..list.len() {
            let slot = list[at];
            list[kept] = slot;
            kept += usize::from(mark(words, count, &mut outside, slot));
        }
        slots.truncate(kept);
        self.outside = outside;
        self.marked.extend_from_slice(slots);
    }
}

fn mark(words: &mut [u64], slots: usize, outside: &mut bool, slot: u32) -> bool {
    let word = words.get_mut(slot as usize / 64).filter(|_| (slot as usize) < slots);
    let Some(word) = word else {
        *outside = true;
        return false;
    };
    let bit = 1u64 << (slot % 64);
    let new = *word & bit == 0;
    *word |= bit;
    new
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn marks_last_until_the_next_reset() {
        let mut visited = VisitedSet::default();
        visited.reset(130);
        assert!(visited.insert(129) && visited.insert(0) && visited.insert(1));
        assert!(!visited.insert(129) && !visited.insert(0) && !visited.insert(130) && !visited.insert(500));
        let mut slots = vec![0, 5, 500, 129, 5, 64];
        visited.insert_all(&mut slots);
        assert_eq!(slots, [5, 64]);
        assert!(visited.has_invalid_link());
        visited.reset(100);
        assert!(visited.insert(0) && visited.insert(1) && !visited.has_invalid_link());
        assert!(!visited.insert(100) && visited.has_invalid_link());
        visited.reset(0);
        assert!(
            !visited.insert(0) && !visited.has_invalid_link(),
            "without slots there is none to start from"
        );
    }

    #[test]
    fn memory_of_the_largest_graph_is_kept() {
        let mut visited = VisitedSet::default();
        let mut kept: *const u64 = std::ptr::null();
        for slots in [64_000, 640, 63_999, 1, 64_000] {
            visited.reset(slots);
            assert!((0..slots as u32).all(|slot| visited.insert(slot)), "{slots}");
            assert!(!visited.insert(slots as u32));
            assert_eq!(
                visited.words.len(),
                1000,
                "neither given back nor written again for {slots}"
            );
            kept = if kept.is_null() { visited.words.as_ptr() } else { kept };
            assert_eq!(visited.words.as_ptr(), kept);
        }
    }

    /// Lists of slots, one after another.
    fn lists() -> impl Strategy<Value = Vec<Vec<u32>>> {
        prop::collection::vec(prop::collection::vec(any::<u32>(), 0..40), 0..40)
    }

    proptest! {
        #[test]
        fn it_knows_what_a_hash_set_knows(
            searches in prop::collection::vec((1usize..20_000, lists()), 1..6),
            same in any::<bool>(),
        ) {
            let mut visited = VisitedSet::default();
            let first = searches[0].0;
            for (slots, lists) in searches {
                let slots = if same { first } else { slots };
                visited.reset(slots);
                let mut oracle = HashSet::new();
                for list in lists {
                    // Some beyond the end, many twice.
                    let mut got: Vec<u32> = list.iter().map(|slot| slot % (slots as u32 + 3)).collect();
                    let mut is_new = |slot: &u32| (*slot as usize) < slots && oracle.insert(*slot);
                    let new: Vec<u32> = got.iter().copied().filter(&mut is_new).collect();
                    visited.insert_all(&mut got);
                    prop_assert_eq!(got, new);
                }
            }
        }
    }
}
