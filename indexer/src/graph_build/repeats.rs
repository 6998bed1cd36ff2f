//! Vectors that several documents have, and vectors of zeros: counted, and told, because a certificate is kinder to them than other
//! questions are.

use dyad_index::search::VectorRows;
use rayon::prelude::*;
use xxhash_rust::xxh3::Xxh3;

/// How many vectors of a shard are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Repeats {
    /// All vectors.
    vectors: usize,
    /// Vectors that an earlier document has too.
    copies: usize,
    /// Documents of the vector that most have.
    most: usize,
    /// Vectors of zeros alone.
    zeros: usize,
}

/// The share of copies from which they move what is measured.
const NOTABLE: f64 = 0.01;

impl Repeats {
    /// Of all rows, compared by 64 bits of xxh3 of their values.
    pub(crate) fn count(rows: &dyn VectorRows) -> Self {
        let vectors = rows.len();
        let read = |row: usize| {
            let values = rows.row(row as u32);
            let mut hash = Xxh3::new();
            for value in values {
                hash.update(&value.to_le_bytes());
            }
            (hash.digest(), values.iter().all(|value| *value == 0.0))
        };
        let (mut hashes, is_zero): (Vec<u64>, Vec<bool>) = (0..vectors).into_par_iter().map(read).unzip();
        hashes.par_sort_unstable();
        let runs = hashes.chunk_by(|one, other| one == other).map(<[u64]>::len);
        let (distinct, most) = runs.fold((0, 0), |(distinct, most), run| (distinct + 1, most.max(run)));
        Self { vectors, copies: vectors - distinct, most, zeros: is_zero.into_iter().filter(|zero| *zero).count() }
    }

    /// What a user should know, and whether it is a warning; nothing where all vectors differ and none is zero.
    pub(crate) fn told(&self) -> Option<(String, bool)> {
        if self.copies == 0 && self.zeros == 0 {
            return None;
        }
        let mut parts = Vec::new();
        if self.copies > 0 {
            parts.push(format!(
                "{} are copies of another document's ({} documents have the most common one)",
                self.copies, self.most
            ));
        }
        if self.zeros > 0 {
            parts.push(format!("{} are zero", self.zeros));
        }
        let of = format!("of {} vectors {}; all are indexed and can be found", self.vectors, parts.join(", and "));
        let repeated = self.copies.max(self.zeros) as f64;
        if repeated < NOTABLE * self.vectors as f64 {
            return Some((of, false));
        }
        let advice = "questions that are documents find them easily, so that the recall of the certificate is higher than that of other questions: measure with your own (`--queries`)";
        Some((format!("{of}. {advice}"), true))
    }
}

#[cfg(test)]
mod tests {
    use super::super::questions::Questions;
    use super::*;

    fn count(rows: &[[f32; 2]]) -> Repeats {
        Repeats::count(&Questions::of(rows.concat(), 2))
    }

    #[test]
    fn copies_and_zeros_are_counted_and_told() {
        assert_eq!(count(&[[1.0, 2.0], [2.0, 1.0]]).told(), None);
        let [same, other, zero] = [[1.0, 2.0], [3.0, 4.0], [0.0, -0.0]];
        let repeats = count(&[same, other, same, zero, same, other]);
        assert_eq!(repeats, Repeats { vectors: 6, copies: 3, most: 3, zeros: 1 });
        let (told, warns) = repeats.told().unwrap();
        assert!(
            warns && told.contains("3 are copies") && told.contains("3 documents have") && told.contains("1 are zero"),
            "{told}"
        );
        let mut many: Vec<[f32; 2]> = (0..300).map(|number| [number as f32, 1.0]).collect();
        many.push([7.0, 1.0]);
        let (told, warns) = count(&many).told().unwrap();
        assert!(!warns && told.contains("1 are copies"), "{told}");
    }
}
