//! Blocks of sketches against sums value by value, and every instruction set against plain Rust, bit by bit.

use super::data::Random;
use crate::kernels::{BLOCK_ROWS, BlockFactors, Kernels, Lookup, MOST, SCALAR, available};

/// The tables of a question whose entries are at random, and the factors of a block.
fn question(bytes: usize, random: &mut Random, entry: impl Fn(&mut Random) -> u8) -> (Lookup, BlockFactors) {
    let tables = (0..bytes).map(|_| std::array::from_fn(|_| entry(random))).collect();
    let shift = -(random.below(4 * bytes + 1) as i32);
    let mut some = || std::array::from_fn(|_| random.float());
    let factors = BlockFactors {
        sketch: some(),
        bias: some(),
        error: some(),
    };
    (
        Lookup {
            tables,
            shift,
            scale: 0.37,
            bias: 0.83,
            base: -0.21,
            optimism: 1.9,
        },
        factors,
    )
}

fn estimates(kernels: &Kernels, lookup: &Lookup, bytes: &[[u8; BLOCK_ROWS]], factors: &BlockFactors) -> Vec<u32> {
    let mut estimates = [7.0; BLOCK_ROWS];
    (kernels.fast_scan)(lookup, bytes, factors, &mut estimates);
    estimates.iter().map(|estimate| estimate.to_bits()).collect()
}

/// The place of a row in each byte.
fn place(row: usize) -> usize {
    if row < 32 { 2 * row } else { 2 * (row - 32) + 1 }
}

#[test]
fn blocks_are_laid_out_byte_by_byte() {
    let mut random = Random::new(20);
    for words in [0usize, 1, 2, 3, 6, 7, 8, 9, 12, 16, 17, 24] {
        // Also rows that are shorter than what is asked for.
        for stride in [words.saturating_sub(1), words, words + 2, words.next_multiple_of(8)] {
            let rows = 100;
            let lines: Vec<u64> = (0..=rows * stride).map(|_| random.bits()).collect();
            // One value before the first row, so that rows have every alignment; the last row is cut short.
            let table = &lines[1..=(rows * stride).saturating_sub(1)];
            for count in [0, 1, 31, 33, 63, 64, 70] {
                let ids: Vec<u32> = (0..count)
                    .map(|at| {
                        if at % 9 == 5 {
                            u32::MAX - at
                        } else {
                            random.below(rows + 2) as u32
                        }
                    })
                    .collect();
                for kernels in available() {
                    let mut bytes = vec![[7u8; BLOCK_ROWS]; words * 8];
                    (kernels.transpose)(table, stride, &ids, &mut bytes);
                    for (at, bytes) in bytes.iter().enumerate() {
                        for row in 0..BLOCK_ROWS {
                            let line = ids.get(row).filter(|_| stride > 0);
                            let line = line.and_then(|id| table.chunks_exact(stride).nth(*id as usize));
                            let expected = line
                                .and_then(|line| line.get(at / 8))
                                .map_or(0, |word| word.to_le_bytes()[at % 8]);
                            assert_eq!(
                                bytes[place(row)],
                                expected,
                                "{} {words} {stride}: byte {at}, row {row}",
                                kernels.name
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn sums_of_entries_make_the_estimates_of_every_set() {
    let mut random = Random::new(21);
    for bytes in [0, 1, 2, 3, 4, 5, 7, 8, 16, 48, 96, 128, 255, 256, 257, 513, 1200] {
        for (most, all) in [(1, false), (MOST, false), (MOST, true)] {
            // With every entry at its largest, the narrow sums come closest to overflow.
            let entry = |random: &mut Random| {
                if all {
                    most
                } else {
                    random.below(usize::from(most) + 1) as u8
                }
            };
            let (lookup, factors) = question(bytes, &mut random, entry);
            let block: Vec<[u8; BLOCK_ROWS]> = (0..bytes)
                .map(|_| std::array::from_fn(|_| random.bits() as u8))
                .collect();
            let sum = |row: usize| {
                let looked_up = lookup.tables.iter().zip(&block).map(|(table, bytes)| {
                    let byte = usize::from(bytes[place(row)]);
                    i32::from(table[byte % 16]) + i32::from(table[16 + byte / 16])
                });
                looked_up.sum::<i32>()
            };
            let expected: Vec<u32> = (0..BLOCK_ROWS)
                .map(|row| {
                    let product = (2 * sum(row) + lookup.shift) as f32 * (lookup.scale * factors.sketch[row]);
                    (product + lookup.bias * factors.bias[row] + lookup.base + lookup.optimism * factors.error[row])
                        .to_bits()
                })
                .collect();
            for kernels in available() {
                assert_eq!(
                    estimates(&kernels, &lookup, &block, &factors),
                    expected,
                    "{} {bytes} {most}",
                    kernels.name
                );
                // The shorter counts.
                let cut = Lookup {
                    tables: lookup.tables[..bytes / 2].to_vec(),
                    ..lookup.clone()
                };
                let (short, long) = (
                    estimates(&kernels, &cut, &block, &factors),
                    estimates(&SCALAR, &cut, &block[..bytes / 2], &factors),
                );
                assert_eq!(short, long, "{} {bytes}", kernels.name);
            }
        }
    }
}

#[test]
fn estimates_are_compared_with_a_threshold() {
    let mut random = Random::new(22);
    for _ in 0..50 {
        let mut estimates: [f32; BLOCK_ROWS] = std::array::from_fn(|_| random.float());
        (estimates[3], estimates[40], estimates[63]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        for least in [estimates[17], 0.0, f32::NEG_INFINITY, f32::INFINITY, f32::NAN] {
            let expected = (0..BLOCK_ROWS)
                .filter(|row| estimates[*row] >= least)
                .fold(0u64, |rows, row| rows | 1 << row);
            for kernels in available() {
                assert_eq!(
                    (kernels.not_below)(&estimates, least),
                    expected,
                    "{} {least}",
                    kernels.name
                );
            }
        }
    }
}
