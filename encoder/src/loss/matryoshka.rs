//! Matryoshka representation learning (Kusupati et al. 2022): the loss of vectors that are cut to several sizes, so
//! that the first values of a vector are a vector of their own.
//!
//! `L = sum_m c_m L(v[1:m])` over the sizes `m` and their weights `c_m` (equation 1, with one loss for all sizes in
//! place of a classifier each), as in sentence-transformers' `MatryoshkaLoss`.

use tch::{TchError, Tensor};

use super::Similarity;
use crate::random::Random;

/// A size of vectors, and the weight of its loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatryoshkaSize {
    /// Leading values of a vector that are kept.
    pub dim: usize,
    /// Factor of the loss of vectors of this size.
    pub weight: f64,
}

/// The sizes of vectors that learn.
#[derive(Debug, Clone, PartialEq)]
pub struct Matryoshka {
    /// The largest first.
    sizes: Vec<MatryoshkaSize>,
    per_step: usize,
}

impl Matryoshka {
    /// All `sizes` in every step, or `per_step` of them at random.
    pub fn new(mut sizes: Vec<MatryoshkaSize>, per_step: Option<usize>) -> Self {
        sizes.sort_by_key(|size| std::cmp::Reverse(size.dim));
        let per_step = per_step.unwrap_or(sizes.len()).min(sizes.len());
        Self { sizes, per_step }
    }

    /// The sizes of the step whose batch stands at `place`, the largest first: the same in every run.
    pub fn sizes_at(&self, place: [u64; 2]) -> Vec<MatryoshkaSize> {
        if self.per_step == self.sizes.len() {
            return self.sizes.clone();
        }
        let mut numbers: Vec<usize> = (0..self.sizes.len()).collect();
        Random::of(&place).shuffle(&mut numbers);
        numbers.truncate(self.per_step);
        numbers.sort_unstable();
        numbers
            .into_iter()
            .filter_map(|number| self.sizes.get(number).copied())
            .collect()
    }
}

impl Similarity {
    /// The first `dim` values of vectors `[n, d]`, which are at least as many: `[n, dim]`, for cosine of unit length.
    pub fn cut(self, vectors: &Tensor, dim: usize) -> Result<Tensor, TchError> {
        self.prepared(&vectors.f_narrow(1, 0, dim as i64)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_sizes_of_each_step_are_all_sizes_in_time() {
        let size = |dim| MatryoshkaSize { dim, weight: 1.0 };
        let all = Matryoshka::new(vec![size(2), size(8), size(4)], None);
        let dims = |sizes: Vec<MatryoshkaSize>| sizes.into_iter().map(|size| size.dim).collect::<Vec<_>>();
        assert_eq!(dims(all.sizes_at([0, 3])), [8, 4, 2]);
        let some = Matryoshka::new(vec![size(2), size(8), size(4)], Some(2));
        let mut seen = std::collections::BTreeMap::new();
        for place in 0..300 {
            let sizes = dims(some.sizes_at([1, place]));
            assert_eq!(sizes, dims(some.sizes_at([1, place])), "the same again");
            *seen.entry(sizes).or_insert(0) += 1;
        }
        let pairs: Vec<&[usize]> = seen.keys().map(Vec::as_slice).collect();
        assert_eq!(pairs, [&[4, 2][..], &[8, 2], &[8, 4]]);
        assert!(seen.values().all(|count| *count > 60), "{seen:?}");
    }
}
