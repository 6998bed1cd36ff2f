//! Sketches against an oracle that goes value by value: a 4-bit query value counts where the sketch has a one.

use super::data::{LENGTHS, Random};
use crate::kernels::{Kernels, available};

/// A query of 4-bit values, and a table whose spare words are full of ones, which must not count.
struct Case {
    values: Vec<i32>,
    planes: Vec<u64>,
    words: usize,
    stride: usize,
    lines: Vec<u64>,
    rows: usize,
}

impl Case {
    fn new(dim: usize, spare: usize, rows: usize, random: &mut Random, value: impl Fn(&mut Random) -> i32) -> Self {
        let words = dim.div_ceil(64);
        let stride = words + spare;
        let values: Vec<i32> = (0..dim).map(|_| value(random)).collect();
        let mut planes = vec![0u64; 4 * words];
        for (i, value) in values.iter().enumerate() {
            for plane in 0..4 {
                planes[plane * words + i / 64] |= ((*value as u64 >> plane) & 1) << (i % 64);
            }
        }
        // Bits past the dimension are random in the table: the planes have none there.
        let line = |random: &mut Random| {
            (0..stride)
                .map(|w| if w < words { random.bits() } else { u64::MAX })
                .collect::<Vec<_>>()
        };
        // One value before the first row, so that rows have every alignment.
        let mut lines = vec![u64::MAX; 1];
        lines.extend((0..rows).flat_map(|_| line(random)));
        Self {
            values,
            planes,
            words,
            stride,
            lines,
            rows,
        }
    }

    fn table(&self) -> &[u64] {
        &self.lines[1..]
    }

    fn exact(&self, id: u32) -> i32 {
        if id as usize >= self.rows || self.stride == 0 {
            return i32::MIN;
        }
        let line = &self.table()[id as usize * self.stride..];
        let shared = |i: usize| (line[i / 64] >> (i % 64) & 1) as i32;
        self.values.iter().enumerate().map(|(i, value)| value * shared(i)).sum()
    }

    fn check(&self, kernels: &Kernels, ids: &[u32]) {
        let mut out = vec![7; ids.len() + 1];
        (kernels.sketch)(
            &self.planes,
            self.words,
            self.table(),
            self.stride,
            ids,
            &mut out[..ids.len()],
        );
        let expected: Vec<i32> = ids.iter().map(|id| self.exact(*id)).chain([7]).collect();
        assert_eq!(
            out,
            expected,
            "{} of {} values, stride {}",
            kernels.name,
            self.values.len(),
            self.stride
        );
    }
}

fn signed(random: &mut Random) -> i32 {
    (random.bits() >> 60) as i32 - 8
}

#[test]
fn every_dimension_agrees_with_the_oracle() {
    let mut random = Random::new(4);
    for dim in LENGTHS {
        for spare in [0, 2] {
            let case = Case::new(dim, spare, 11, &mut random, signed);
            // Some of the ids are outside the table.
            let ids: Vec<u32> = (0..19).map(|_| random.below(13) as u32).collect();
            for kernels in available() {
                case.check(&kernels, &ids);
            }
        }
    }
}

#[test]
fn extremes_and_wide_sketches_agree_with_the_oracle() {
    let mut random = Random::new(5);
    for dim in [64, 384, 512, 513, 1024, 4095, 4096, 40_000] {
        for extreme in [-8, 7, -1, 0] {
            let mut case = Case::new(dim, 2, 9, &mut random, |_| extreme);
            case.lines[1..=case.words].fill(u64::MAX);
            let ids: Vec<u32> = (0..9).collect();
            for kernels in available() {
                case.check(&kernels, &ids);
            }
            assert_eq!(case.exact(0), extreme * dim as i32);
        }
    }
}

#[test]
fn every_number_of_ids_is_answered() {
    let mut random = Random::new(6);
    for (dim, spare) in [(384, 2), (700, 0)] {
        let case = Case::new(dim, spare, 40, &mut random, signed);
        for count in 0..=33 {
            let ids: Vec<u32> = (0..count).map(|_| random.below(44) as u32).collect();
            for kernels in available() {
                case.check(&kernels, &ids);
            }
        }
    }
}

#[test]
fn ids_outside_the_table_give_the_smallest_number() {
    let mut random = Random::new(7);
    let case = Case::new(384, 2, 10, &mut random, signed);
    let ids = [10, 0, 11, u32::MAX, 9, u32::MAX - 1, 1 << 31, 1 << 29, 3, 10, 1 << 30];
    for kernels in available() {
        case.check(&kernels, &ids);
        // A table whose last row is cut short has one row less.
        let mut out = [7; 2];
        let cut = &case.table()[..10 * case.stride - 1];
        (kernels.sketch)(&case.planes, case.words, cut, case.stride, &[8, 9], &mut out);
        assert_eq!(out, [case.exact(8), i32::MIN], "{}", kernels.name);
    }
}

#[test]
fn a_table_that_cannot_be_has_no_rows() {
    let case = Case::new(384, 2, 10, &mut Random::new(8), signed);
    let (planes, words, table) = (&case.planes[..], case.words, case.table());
    let askew: [(&[u64], usize, &[u64], usize); 7] = [
        (planes, words, &[], 8),
        (&planes[1..], words, table, 8),
        (&[], words, table, 8),
        (planes, words, table, words - 1),
        (planes, words, table, 0),
        (planes, usize::MAX, table, usize::MAX),
        (planes, words, &table[..7], 8),
    ];
    for kernels in available() {
        for (planes, words, lines, stride) in askew {
            let mut out = [7; 9];
            (kernels.sketch)(planes, words, lines, stride, &[0; 9], &mut out);
            assert_eq!(out, [i32::MIN; 9], "{} {words} {stride}", kernels.name);
        }
        let mut out = [7; 3];
        (kernels.sketch)(planes, words, table, 8, &[], &mut out);
        assert_eq!(out, [7; 3]);
        (kernels.sketch)(planes, words, table, 8, &[0; 20], &mut out[..2]);
        assert_eq!(out, [case.exact(0), case.exact(0), 7]);
    }
}
