//! Which slots a walk has met: one bit each, and a list of what to clear, so that clearing costs what was marked.

/// A set of slots.
#[derive(Debug, Default)]
pub(super) struct Seen {
    words: Vec<u64>,
    /// Words that are not zero.
    touched: Vec<u32>,
}

impl Seen {
    /// Empties it, and makes room for `slots`.
    pub(super) fn reset(&mut self, slots: usize) {
        for at in self.touched.drain(..) {
            if let Some(word) = self.words.get_mut(at as usize) {
                *word = 0;
            }
        }
        let words = slots.div_ceil(64);
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
    }

    /// Marks a slot; false where it was marked before, or does not exist.
    #[expect(clippy::inline_always, reason = "one bit of the hottest loop")]
    #[inline(always)]
    pub(super) fn insert(&mut self, slot: u32) -> bool {
        let at = slot >> 6;
        let Some(word) = self.words.get_mut(at as usize) else { return false };
        let bit = 1u64 << (slot & 63);
        if *word & bit != 0 {
            return false;
        }
        if *word == 0 {
            self.touched.push(at);
        }
        *word |= bit;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_last_until_the_next_reset() {
        let mut seen = Seen::default();
        seen.reset(130);
        assert!(seen.insert(129) && seen.insert(0) && seen.insert(1));
        assert!(!seen.insert(129) && !seen.insert(0) && !seen.insert(500));
        seen.reset(100);
        assert!(seen.insert(0) && seen.insert(1));
    }
}
