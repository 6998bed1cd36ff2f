//! Vectors for tests: clustered like embeddings, in far-apart clusters, and full of duplicates.

use dyad_index::search::{DenseRows, VectorRows};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Rows in one block of memory.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    values: Vec<f32>,
    dim: usize,
}

impl VectorRows for Rows {
    fn dim(&self) -> usize {
        self.dim
    }

    fn len(&self) -> usize {
        self.values.len() / self.dim
    }

    fn row(&self, node: u32) -> &[f32] {
        let start = node as usize * self.dim;
        &self.values[start..start + self.dim]
    }
}

impl Rows {
    /// As they are.
    pub(crate) fn of(values: Vec<f32>, dim: usize) -> Self {
        Self { values, dim }
    }

    /// Of length 1.
    pub(crate) fn new(values: Vec<f32>, dim: usize) -> Self {
        let mut rows = Self { values, dim };
        for row in rows.values.chunks_exact_mut(dim) {
            let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
            for value in row {
                *value /= length;
            }
        }
        rows
    }

    /// `n` rows around `clusters` centres; `spread` is the noise's length relative to the centre's.
    pub(crate) fn clustered(n: usize, dim: usize, clusters: usize, spread: f32, seed: u64) -> Self {
        let centres: Vec<f32> = (0..clusters * dim).map(|at| uniform(at, 1)).collect();
        let values = (0..n)
            .flat_map(|row| {
                let centre = (xxh3_64_with_seed(&row.to_le_bytes(), seed) as usize % clusters) * dim;
                let centres = &centres;
                (0..dim).map(move |at| centres[centre + at] + spread * uniform(row * dim + at, seed + 2))
            })
            .collect();
        Self::new(values, dim)
    }

    /// The first `n` rows, as a builder would see them.
    pub(crate) fn first(&self, n: usize) -> DenseRows<'_> {
        DenseRows::new(&self.values[..n * self.dim], self.dim)
    }

    /// `n` rows that take only `distinct` different values, one cluster per value.
    pub(crate) fn duplicated(n: usize, dim: usize, distinct: usize, seed: u64) -> Self {
        Self::clustered(n, dim, distinct, 0.0, seed)
    }
}

/// Numbers by a seed.
#[derive(Debug)]
pub(crate) struct Normal {
    seed: u64,
    drawn: usize,
}

impl Normal {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// Of the normal distribution, by the method of Box and Muller.
    pub(crate) fn draw(&mut self) -> f32 {
        self.drawn += 2;
        let [one, other] = [0, 1].map(|at| 0.5 + 0.5 * uniform(self.drawn + at, self.seed));
        (-2.0 * one.max(1e-7).ln()).sqrt() * (std::f32::consts::TAU * other).cos()
    }
}

/// -1 to 1, by position and seed.
fn uniform(at: usize, seed: u64) -> f32 {
    (xxh3_64_with_seed(&at.to_le_bytes(), seed) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}
