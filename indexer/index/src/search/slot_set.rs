//! The slots that a filter allows: which they are, and block by block with their sketches, as a scan of codes reads
//! them.

use std::sync::OnceLock;

use fixedbitset::FixedBitSet;

use super::SlotLinks;
use crate::kernels::BLOCK_ROWS;
use crate::quant::{CodesView, SketchBlocks};

/// Bits of a word.
const WORD: usize = usize::BITS as usize;

/// The slots of the nodes of a set.
#[derive(Debug)]
pub(super) struct SlotSet {
    /// The slots that searches meet: of nodes with the same vector that of their representative, whether it is in the
    /// set or not.
    pub(super) bits: FixedBitSet,
    /// Slots that searches meet.
    pub(super) len: usize,
    /// The slots of the nodes of the set, where some of the shard are copies.
    documents: Option<FixedBitSet>,
    /// Whether each of the nodes has one, which in an intact shard it has.
    pub(super) is_complete: bool,
    /// At most [`SAMPLE`] of the slots, evenly spaced.
    pub(super) sample: Vec<u32>,
    /// Set by the first scan.
    is_scanned: OnceLock<()>,
    laid_out: OnceLock<LaidOut>,
}

/// Slots of which those nearest to a question are entry points: the more, the nearer; all of them cost less than three
/// expansions.
const SAMPLE: usize = 256;

impl SlotSet {
    /// Of the slots of `nodes` nodes.
    pub(super) fn new<L: SlotLinks + ?Sized>(slots: FixedBitSet, nodes: usize, links: &L) -> Self {
        let is_complete = slots.count_ones(..) == nodes;
        let (bits, documents) = if links.has_copies() {
            (representatives(&slots, links), Some(slots))
        } else {
            (slots, None)
        };
        let len = bits.count_ones(..);
        let sample = bits
            .ones()
            .step_by(len.div_ceil(SAMPLE).max(1))
            .map(|slot| slot as u32)
            .collect();
        Self {
            bits,
            len,
            documents,
            is_complete,
            sample,
            is_scanned: OnceLock::new(),
            laid_out: OnceLock::new(),
        }
    }

    /// Whether the node of a slot is in the set.
    pub(super) fn contains(&self, slot: u32) -> bool {
        self.documents.as_ref().unwrap_or(&self.bits).contains(slot as usize)
    }

    /// Bytes of `allowed` of `nodes` slots, at most, of vectors of `dim` values.
    pub(super) fn bytes(nodes: usize, allowed: usize, dim: usize) -> usize {
        2 * nodes.div_ceil(8) + SAMPLE * size_of::<u32>() + Self::bytes_kept(allowed, dim)
    }

    /// Those of sketches that are kept of `allowed` slots: for each the slot, its sketch, and three factors.
    pub(super) fn bytes_kept(allowed: usize, dim: usize) -> usize {
        let of_slot = dim.div_ceil(64) * size_of::<u64>() + 4 * size_of::<u32>();
        if allowed <= MOST_KEPT {
            allowed.next_multiple_of(BLOCK_ROWS) * of_slot
        } else {
            0
        }
    }

    /// All of them, laid out for a scan of `codes`, where that is worth its memory: there are few enough, and they are
    /// scanned for several questions, or again.
    fn laid_out(&self, codes: &CodesView<'_>, questions: usize) -> Option<&LaidOut> {
        let is_again = self.is_scanned.set(()).is_err() || questions > 1;
        // On disk, reading all of them at once would take long, and could not be cancelled.
        let is_due = is_again && self.len <= MOST_KEPT && !codes.are_on_disk();
        is_due
            .then(|| self.laid_out.get_or_init(|| LaidOut::new(self, codes)))?
            .matching(codes)
    }

    /// Keeps the slots that are in the set, and moves the others to `others`, both in their order.
    pub(super) fn partition(&self, slots: &mut Vec<u32>, others: &mut Vec<u32>) {
        let (words, count) = (self.bits.as_slice(), slots.len());
        others.resize(count, 0);
        let (mut kept, mut moved) = (0, 0);
        // No branch depends on the set: which links are allowed is as good as random.
        for at in 0..count {
            let slot = slots[at];
            let word = words.get(slot as usize / WORD).copied().unwrap_or(0);
            let is_in = word >> (slot as usize % WORD) & 1;
            slots[kept] = slot;
            others[moved] = slot;
            kept += is_in;
            moved += 1 - is_in;
        }
        slots.truncate(kept);
        others.truncate(moved);
    }
}

/// The slots of which those in `slots` are copies, and the others.
fn representatives<L: SlotLinks + ?Sized>(slots: &FixedBitSet, links: &L) -> FixedBitSet {
    let mut bits = FixedBitSet::with_capacity(slots.len());
    // In an intact shard each of them is one of the slots.
    let known = slots
        .ones()
        .map(|slot| links.representative(slot as u32) as usize)
        .filter(|slot| *slot < slots.len());
    bits.extend(known);
    bits
}

/// Slots that are estimated together. Their sketches are prefetched, and are in the cache for all questions of the
/// scan.
const BLOCK: usize = 256;

/// Words whose slots come one after another, whatever the stride.
const RUN: usize = 8;

/// Slots of a set, some at a time; by a word of bits at a time, and not each by a search for the next.
#[derive(Debug)]
struct SlotIter<'a> {
    words: &'a [usize],
    /// Runs from one to the next; the first of them, of as many.
    stride: usize,
    offset: usize,
    /// The next word.
    at: usize,
    /// The bits that are left of the last word, and its first slot.
    word: usize,
    start: usize,
}

impl<'a> SlotIter<'a> {
    /// The bits that are set, in `parts` that are spread over all alike: near each other slots hold vectors near each
    /// other.
    fn new(bits: &'a FixedBitSet, parts: usize) -> Self {
        Self {
            words: bits.as_slice(),
            stride: parts.max(1),
            offset: 0,
            at: 0,
            word: 0,
            start: 0,
        }
    }

    /// Writes the next slots, at most `count`, over those in `slots`.
    fn next_into(&mut self, slots: &mut Vec<u32>, count: usize) {
        slots.clear();
        while slots.len() < count {
            if self.word == 0 && !self.next_word() {
                return;
            }
            let some = (self.word.count_ones() as usize).min(count - slots.len());
            slots.extend((0..some).map(|_| {
                let slot = self.start + self.word.trailing_zeros() as usize;
                self.word &= self.word.wrapping_sub(1);
                slot as u32
            }));
        }
    }

    /// Whether there is another word.
    fn next_word(&mut self) -> bool {
        while self.offset < self.stride {
            if let Some(word) = self.words.get(self.at) {
                (self.word, self.start) = (*word, self.at * WORD);
                self.at += if (self.at + 1).is_multiple_of(RUN) {
                    RUN * (self.stride - 1) + 1
                } else {
                    1
                };
                return true;
            }
            self.offset += 1;
            self.at = self.offset * RUN;
        }
        false
    }
}

/// Most slots of which sketches are kept: 4 MiB of those of 384 values.
pub(super) const MOST_KEPT: usize = 1 << 16;

/// The slots of a set and their sketches, kept with the set: what a scan reads one after another, and lays out only
/// once.
#[derive(Debug)]
struct LaidOut {
    slots: Vec<u32>,
    sketches: SketchBlocks,
    /// The address of the codes that are laid out: a set is searched in one shard, and would find nothing right in
    /// another.
    of: usize,
}

impl LaidOut {
    /// Of all slots of a set.
    fn new(set: &SlotSet, codes: &CodesView<'_>) -> Self {
        let (mut slots, mut sketches) = (Vec::with_capacity(set.len), SketchBlocks::default());
        SlotIter::new(&set.bits, parts(set)).next_into(&mut slots, usize::MAX);
        codes.lay_out(&slots, &mut sketches);
        Self {
            slots,
            sketches,
            of: codes.address(),
        }
    }

    /// This, if it is of these codes.
    fn matching(&self, codes: &CodesView<'_>) -> Option<&Self> {
        (self.of == codes.address()).then_some(self)
    }
}

/// Slots whose estimates are kept: the best of them are scored first, so that there is a threshold for all others from
/// the start. They are spread over the shard as all are.
pub(super) const FIRST: usize = 8192;

// Blocks of sketches end where those of slots do, and where the first slots do.
const _: () = assert!(BLOCK.is_multiple_of(BLOCK_ROWS) && FIRST.is_multiple_of(BLOCK));

fn parts(set: &SlotSet) -> usize {
    set.len.div_ceil(FIRST)
}

/// The blocks of a scan, one after another.
#[derive(Debug)]
pub(super) struct SlotBlocks<'a> {
    codes: CodesView<'a>,
    laid_out: Option<&'a LaidOut>,
    /// Where it is not kept: the slots that are left, and whether sketches are laid out, which a question alone does
    /// not pay for.
    left: SlotIter<'a>,
    lays_out: bool,
    /// Slots before this block, and those of it and of the next one.
    before: usize,
    block: Vec<u32>,
    next: Vec<u32>,
    is_damaged: bool,
}

impl<'a> SlotBlocks<'a> {
    /// The blocks of a set, for some questions.
    pub(super) fn new(set: &'a SlotSet, codes: CodesView<'a>, questions: usize) -> Self {
        let laid_out = set.laid_out(&codes, questions);
        let is_damaged = !set.is_complete || laid_out.is_some_and(|laid_out| laid_out.sketches.is_damaged());
        let (left, lays_out) = (SlotIter::new(&set.bits, parts(set)), questions > 1);
        let (block, next) = (Vec::new(), Vec::new());
        let mut blocks = Self {
            codes,
            laid_out,
            left,
            lays_out,
            before: 0,
            block,
            next,
            is_damaged,
        };
        if laid_out.is_none() {
            blocks.fetch_next();
        }
        blocks
    }

    fn fetch_next(&mut self) {
        self.left.next_into(&mut self.next, BLOCK);
        self.codes.prefetch_lines(&self.next);
    }

    /// Goes to the next block; false after the last. Lays it out in `sketches`, where that is due.
    pub(super) fn advance(&mut self, sketches: &mut SketchBlocks) -> bool {
        self.before += self.block.len();
        std::mem::swap(&mut self.block, &mut self.next);
        if let Some(LaidOut { slots, .. }) = self.laid_out {
            self.block.clear();
            self.block.extend(slots.iter().skip(self.before).take(BLOCK));
        } else {
            self.fetch_next();
            if self.lays_out && !self.block.is_empty() {
                self.codes.lay_out(&self.block, sketches);
                self.is_damaged |= sketches.is_damaged();
            }
        }
        !self.block.is_empty()
    }

    /// The slots of this block.
    pub(super) fn slots(&self) -> &[u32] {
        &self.block
    }

    /// Where their sketches are laid out, and the number of the first block of sketches.
    pub(super) fn sketches<'s>(&'s self, sketches: &'s SketchBlocks) -> Option<(&'s SketchBlocks, usize)> {
        match self.laid_out {
            Some(laid_out) => Some((&laid_out.sketches, self.before / BLOCK_ROWS)),
            None => self.lays_out.then_some((sketches, 0)),
        }
    }

    /// Whether a node of the set has no slot, or a slot so far codes that are damaged, as far as laying them out has
    /// shown.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GraphLayout;
    use crate::model::Metric;
    use crate::quant::{Codec, Codes};
    use crate::rows::DenseRows;

    #[test]
    fn slots_come_some_at_a_time_and_in_parts() {
        let mut set = FixedBitSet::with_capacity(5000);
        set.extend((0..5000).filter(|node| node % 7 == 3 || (256..512).contains(node)));
        for (parts, count) in [(1, 1), (1, 64), (1, 9999), (2, 64), (3, 5), (7, 100), (100, 64)] {
            let (mut all, mut some, mut slots) = (Vec::new(), Vec::new(), SlotIter::new(&set, parts));
            loop {
                slots.next_into(&mut some, count);
                all.extend_from_slice(&some);
                if some.len() < count {
                    break;
                }
            }
            // The first part ends where they begin to descend; it reaches as far as all.
            let first = all.is_sorted_by(|a, b| a < b).then_some(all.len());
            let first = first.unwrap_or_else(|| 1 + all.windows(2).position(|pair| pair[0] > pair[1]).unwrap());
            // There are ten runs: of as many parts, each is one of them.
            assert_eq!(parts == 1 || parts > 9, first == all.len(), "{parts}");
            assert!(
                parts > 7 || all[first - 1] as usize + 2 * parts * RUN * WORD > 5000,
                "{parts}: {first}"
            );
            all.sort_unstable();
            assert_eq!(
                all,
                set.ones().map(|slot| slot as u32).collect::<Vec<_>>(),
                "{parts} {count}"
            );
        }
    }

    #[test]
    fn slots_are_told_apart_in_their_order() {
        let mut bits = FixedBitSet::with_capacity(200);
        bits.extend([5, 199, 64, 63]);
        let (mut slots, mut others) = (vec![199, 6, 500, 63, 5, u32::MAX, 0, 64], vec![7; 3]);
        SlotSet::new(bits, 4, &GraphLayout::default().view()).partition(&mut slots, &mut others);
        assert_eq!((slots, others), (vec![199, 63, 5, 64], vec![6, 500, u32::MAX, 0]));
    }

    /// Sketches are kept from the second scan on, or for several questions; what they take is what is counted.
    #[test]
    fn sketches_are_kept_for_those_who_come_again() {
        let (dim, all) = (70, vec![0.5; 300 * 70]);
        let rows = DenseRows::new(&all, dim);
        let [codes, others] = [1, 2].map(|seed| Codes::encode(&rows, Codec::fit(&rows, Metric::Dot, seed)));
        let set = || {
            let mut bits = FixedBitSet::with_capacity(300);
            bits.extend(0..300);
            SlotSet::new(bits, 300, &GraphLayout::default().view())
        };
        let (alone, together) = (set(), set());
        assert!(alone.laid_out(&codes.view(), 1).is_none() && alone.laid_out(&codes.view(), 1).is_some());
        assert!(together.laid_out(&codes.view(), 2).is_some() && together.laid_out(&codes.view(), 1).is_some());
        assert!(together.laid_out(&others.view(), 2).is_none(), "another shard's");
        let kept = alone.laid_out.get().unwrap();
        let bytes = kept.slots.capacity() * size_of::<u32>() + kept.sketches.bytes();
        let (counted, without) = (SlotSet::bytes(300, 300, dim), SlotSet::bytes(300, 0, dim));
        assert!(
            bytes <= counted - without && 2 * bytes > counted - without,
            "{bytes} of {}",
            counted - without
        );
        let many = SlotSet::bytes(1 << 20, MOST_KEPT + 1, dim);
        assert_eq!(many, SlotSet::bytes(1 << 20, 0, dim), "so many are not kept");
    }
}
