//! The candidates of one walk, best first, in one array: short enough to insert into by moving what follows.

/// The entry's links have been followed.
const EXPANDED: u32 = 1 << 31;
/// The entry's score comes from its int8 code; before, from its sketch.
const REFINED: u32 = 1 << 30;

/// Slots that fit beside the flags.
pub const MAX_SLOTS: usize = REFINED as usize;

/// A candidate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) score: f32,
    tag: u32,
}

impl Entry {
    pub(super) fn slot(self) -> u32 {
        self.tag & (REFINED - 1)
    }

    pub(super) fn refined(self) -> bool {
        self.tag & REFINED != 0
    }
}

/// At most `capacity` candidates, by score descending.
#[derive(Debug, Default)]
pub(super) struct Pool {
    entries: Vec<Entry>,
    capacity: usize,
    /// No entry before this one is unexpanded.
    cursor: usize,
}

impl Pool {
    pub(super) fn reset(&mut self, capacity: usize) {
        self.entries.clear();
        self.capacity = capacity.max(1);
        self.cursor = 0;
    }

    /// What a new candidate must exceed.
    pub(super) fn floor(&self) -> f32 {
        if self.entries.len() < self.capacity { f32::NEG_INFINITY } else { self.last() }
    }

    fn last(&self) -> f32 {
        self.entries.last().map_or(f32::NEG_INFINITY, |entry| entry.score)
    }

    /// Takes a candidate that exceeds the floor. NaN never does.
    pub(super) fn offer(&mut self, score: f32, slot: u32, refined: bool) {
        // Not `score <= floor`: false for NaN.
        let above = score > self.floor() || self.entries.len() < self.capacity && score == f32::NEG_INFINITY;
        if !above {
            return;
        }
        if self.entries.len() >= self.capacity {
            self.entries.pop();
        }
        let at = self.entries.partition_point(|entry| entry.score >= score);
        self.entries.insert(at, Entry { score, tag: slot | if refined { REFINED } else { 0 } });
        self.cursor = self.cursor.min(at);
    }

    /// The best entry whose links have not been followed.
    pub(super) fn next(&mut self) -> Option<Entry> {
        while let Some(entry) = self.entries.get(self.cursor) {
            if entry.tag & EXPANDED == 0 {
                return Some(*entry);
            }
            self.cursor += 1;
        }
        None
    }

    /// Marks what [`Self::next`] gave as expanded.
    pub(super) fn expand_next(&mut self) {
        if let Some(entry) = self.entries.get_mut(self.cursor) {
            entry.tag |= EXPANDED;
            self.cursor += 1;
        }
    }

    /// Removes what [`Self::next`] gave, to be offered again with its better score.
    pub(super) fn take_next(&mut self) {
        if self.cursor < self.entries.len() {
            self.entries.remove(self.cursor);
        }
    }

    /// Best first.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_sorted_and_bounded_and_nan_is_refused() {
        let mut pool = Pool::default();
        pool.reset(3);
        for (slot, score) in [0.1, 0.5, f32::NAN, 0.3, 0.4, 0.2].into_iter().enumerate() {
            pool.offer(score, slot as u32, slot % 2 == 0);
        }
        let slots: Vec<u32> = pool.entries().iter().map(|entry| entry.slot()).collect();
        assert_eq!(slots, [1, 4, 3]);
        assert_eq!(pool.floor().to_bits(), 0.3f32.to_bits());
        assert!(pool.entries()[1].refined() && !pool.entries()[0].refined());
    }

    #[test]
    fn the_cursor_follows_expansion_and_goes_back_for_better_ones() {
        let mut pool = Pool::default();
        pool.reset(8);
        pool.offer(0.5, 1, false);
        pool.offer(0.4, 2, true);
        assert_eq!(pool.next().map(Entry::slot), Some(1));
        pool.take_next();
        pool.offer(0.3, 1, true);
        assert_eq!(pool.next().map(Entry::slot), Some(2));
        pool.expand_next();
        pool.offer(0.9, 3, true);
        assert_eq!(pool.next().map(Entry::slot), Some(3));
        pool.expand_next();
        assert_eq!(pool.next().map(Entry::slot), Some(1));
        pool.expand_next();
        assert!(pool.next().is_none());
    }
}
