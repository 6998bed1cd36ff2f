//! Integers against sums in i64: exact.

use super::data::{LENGTHS, LONGEST, Random, STARTS};
use crate::kernels::available;

fn exact(query: &[i8], row: &[u8]) -> i64 {
    query.iter().zip(row).map(|(q, r)| i64::from(*q) * i64::from(*r)).sum()
}

/// Random rows, and rows of nothing but extremes, where narrow sums would saturate.
fn rows() -> Vec<(Vec<i8>, [Vec<u8>; 4])> {
    let mut random = Random::new(3);
    let mut found = Vec::new();
    let mut many = |query: &dyn Fn(&mut Random) -> i8, row: &dyn Fn(&mut Random) -> u8| {
        let rows = [(); 4].map(|()| (0..LONGEST).map(|_| row(&mut random)).collect());
        found.push(((0..LONGEST).map(|_| query(&mut random)).collect(), rows));
    };
    many(&|random| random.bits() as i8, &|random| random.bits() as u8);
    many(&|random| [-128, 127][random.below(2)], &|random| {
        [0, 255][random.below(2)]
    });
    many(&|_| -128, &|_| 255);
    many(&|_| 127, &|_| 255);
    many(&|_| -128, &|_| 0);
    found
}

#[test]
fn products_are_exact() {
    for (query, [row, ..]) in rows() {
        for kernels in available() {
            for len in LENGTHS {
                for start in STARTS {
                    let (query, row) = (&query[start..start + len], &row[3 - start..3 - start + len]);
                    let got = i64::from((kernels.dot_i8)(query, row));
                    assert_eq!(got, exact(query, row), "{} of {len} from {start}", kernels.name);
                }
            }
        }
    }
}

#[test]
fn four_rows_at_once_are_exact() {
    for (query, rows) in rows() {
        for kernels in available() {
            for len in LENGTHS {
                for start in STARTS {
                    let query = &query[start..start + len];
                    let rows = [0, 1, 2, 3].map(|i: usize| &rows[i][i % 3..i % 3 + len]);
                    let got = (kernels.dot_i8_x4)(query, rows).map(i64::from);
                    assert_eq!(
                        got,
                        rows.map(|row| exact(query, row)),
                        "{} of {len} from {start}",
                        kernels.name
                    );
                }
            }
        }
    }
}

#[test]
fn different_lengths_use_the_shorter() {
    let query = [-3i8; 300];
    let row = [255u8; 300];
    for kernels in available() {
        for (left, right) in [(0, 0), (0, 5), (5, 0), (64, 65), (300, 129), (17, 300)] {
            let got = (kernels.dot_i8)(&query[..left], &row[..right]);
            assert_eq!(
                i64::from(got),
                exact(&query[..left], &row[..right]),
                "{} {left} {right}",
                kernels.name
            );
        }
        let rows = [&row[..], &row[..7], &[], &row[..200]];
        let got = (kernels.dot_i8_x4)(&query[..200], rows).map(i64::from);
        assert_eq!(got, rows.map(|row| exact(&query[..200], row)), "{}", kernels.name);
    }
}

/// 65,536 values of the largest size still fit, and more wrap the same way everywhere.
#[test]
fn the_longest_rows_fit_and_longer_ones_wrap() {
    for kernels in available() {
        for (len, value) in [(65_536, -128), (65_536, 127), (200_003, -128)] {
            let (query, row) = (vec![value; len], vec![255u8; len]);
            let expected = exact(&query, &row);
            assert_eq!(i64::from(expected as i32) == expected, len == 65_536);
            assert_eq!(
                (kernels.dot_i8)(&query, &row),
                expected as i32,
                "{} {len}",
                kernels.name
            );
            assert_eq!(
                (kernels.dot_i8_x4)(&query, [&row[..]; 4]),
                [expected as i32; 4],
                "{} {len}",
                kernels.name
            );
        }
    }
}
