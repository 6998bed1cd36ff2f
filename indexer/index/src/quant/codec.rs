//! One shard's quantiser: the centre, the rotation, and what they make of rows and questions.

use super::prepared::{PreparedQuery, round, steps_per};
use super::rotation::Rotation;
use crate::kernels::dot;
use crate::model::Metric;
use crate::rows::VectorRows;

/// Most rows that the mean is taken of: the mean of a sample is as good a centre.
const FIT_ROWS: usize = 1 << 16;
/// Centre and rotation: all that is needed to encode rows and to prepare questions.
#[derive(Debug, Clone, PartialEq)]
pub struct Codec {
    dim: usize,
    metric: Metric,
    centre: Vec<f32>,
    centre_squared: f32,
    rotation: Rotation,
}

/// The factors of an encoded row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EncodedRowFactors {
    /// Sign agreements to inner product: squared length of the residual over the sum of its absolute values.
    pub(super) sketch: f32,
    /// Standard deviation of the estimate for a question of length 1.
    pub(super) error: f32,
    /// Steps of the int8 row.
    pub(super) scale: f32,
    /// Inner product of row and centre; minus half the squared length of the residual for [`Metric::L2`].
    pub(super) bias: f32,
}

/// A question is unlike documents ("modality gap") where its shortest residual has less than this share of the squared
/// length of its residual from the centre.
const SHORTER: f32 = 0.64;

impl Codec {
    /// Takes the mean of (up to 65,536, evenly spaced) rows for the centre.
    pub fn fit(rows: &(impl VectorRows + ?Sized), metric: Metric, seed: u64) -> Self {
        let dim = rows.dim();
        let mut sums = vec![0.0f64; dim];
        let step = rows.len().div_ceil(FIT_ROWS).max(1);
        let mut count = 0u32;
        for node in (0..rows.len()).step_by(step) {
            for (sum, value) in sums.iter_mut().zip(rows.row(node as u32)) {
                *sum += f64::from(*value);
            }
            count += 1;
        }
        let centre = sums.iter().map(|sum| (sum / f64::from(count.max(1))) as f32).collect();
        Self::new(centre, metric, seed)
    }

    /// From what a shard stores.
    pub fn new(centre: Vec<f32>, metric: Metric, seed: u64) -> Self {
        let (dim, centre_squared) = (centre.len(), dot(&centre, &centre));
        Self {
            dim,
            metric,
            rotation: Rotation::new(dim, seed),
            centre_squared,
            centre,
        }
    }

    /// Values per vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How vectors are compared.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// The mean that rows are measured from.
    pub fn centre(&self) -> &[f32] {
        &self.centre
    }

    /// Seed of the rotation.
    pub fn seed(&self) -> u64 {
        self.rotation.seed()
    }

    /// A vector less a multiple of the centre, rotated.
    pub(super) fn residual(&self, row: &[f32], centres: f32, residual: &mut Vec<f32>) {
        residual.clear();
        residual.extend(
            row.iter()
                .zip(&self.centre)
                .map(|(value, centre)| value - centres * centre),
        );
        self.rotation.apply(residual);
    }

    /// Encodes a row of `dim` values: one bit per value into `line`, one byte per value into `codes`.
    pub(super) fn encode(
        &self,
        row: &[f32],
        line: &mut [u64],
        codes: &mut [u8],
        scratch: &mut Vec<f32>,
    ) -> EncodedRowFactors {
        self.residual(row, 1.0, scratch);
        let (mut squared, mut absolute, mut largest) = (0.0f32, 0.0f32, 0.0f32);
        for value in scratch.iter() {
            squared += value * value;
            absolute += value.abs();
            largest = largest.max(value.abs());
        }
        for (word, values) in line.iter_mut().zip(scratch.chunks(64)) {
            *word = values
                .iter()
                .enumerate()
                .fold(0, |word, (at, value)| word | (u64::from(*value >= 0.0) << at));
        }
        let scale = largest / 127.0;
        let inverse = steps_per(1.0, scale);
        for (code, value) in codes.iter_mut().zip(scratch.iter()) {
            *code = round(value * inverse).wrapping_add(128) as u8;
        }
        let bias = match self.metric {
            Metric::Cosine | Metric::Dot => dot(row, &self.centre),
            // Residuals only: far from the origin, differences of products of whole rows would lose all precision.
            Metric::L2 => -squared / 2.0,
        };
        let mut factors = EncodedRowFactors {
            sketch: 0.0,
            error: 0.0,
            scale,
            bias,
        };
        if absolute > 0.0 {
            factors.sketch = squared / absolute;
            // RaBitQ, theorem 3.2: with a = <r, signs> / (|r| sqrt(d)), the error of the estimate of <r, q> has
            // standard deviation |r| |q| sqrt((1 - a^2) / a^2 / (d - 1)).
            let agreement = absolute * absolute / (squared * self.dim as f32);
            let spread = (1.0 / agreement - 1.0).max(0.0) / (self.dim as f32 - 1.0).max(1.0);
            factors.error = (squared * spread).sqrt();
        }
        factors
    }

    /// The multiple of the centre that is nearest to a vector whose inner product with the centre is `product`; 0 where
    /// the centre is.
    fn projection(&self, product: f32) -> f32 {
        let centres = product / self.centre_squared;
        if centres.is_finite() { centres } else { 0.0 }
    }

    /// The multiple of the centre that is subtracted from a question whose inner product with the centre is `product`.
    ///
    /// Euclidean distances need the difference to the centre itself. Inner products allow any multiple: the projection
    /// leaves the shortest residual, and multiplies all scores of a question by what the question is multiplied by. The
    /// centre itself leaves a residual like those of the documents near the question, which are estimated the better
    /// for it: of 100,000 MiniLM sentences recall@10 at ef 72 is .9923, with the projection .9911.
    fn centres(&self, query: &[f32], product: f32) -> f32 {
        match self.metric {
            Metric::L2 => 1.0,
            Metric::Dot => self.projection(product),
            Metric::Cosine => {
                let (projection, squared) = (self.projection(product), dot(query, query));
                let own = squared - 2.0 * product + self.centre_squared;
                let shortest = squared - projection * product;
                if shortest < SHORTER * own { projection } else { 1.0 }
            }
        }
    }

    /// Prepares a question of `dim` finite values.
    pub fn prepare(&self, query: &[f32], prepared: &mut PreparedQuery) {
        let mut residual = std::mem::take(&mut prepared.residual);
        let product = dot(query, &self.centre);
        let centres = self.centres(query, product);
        self.residual(query, centres, &mut residual);
        prepared.set(&residual);
        (prepared.bias, prepared.base) = match self.metric {
            Metric::L2 => (1.0, -prepared.norm * prepared.norm / 2.0),
            Metric::Cosine | Metric::Dot => (centres, product - centres * self.centre_squared),
        };
        prepared.length = if self.metric == Metric::Dot {
            dot(query, query).sqrt()
        } else {
            1.0
        };
        prepared.residual = residual;
    }

    /// Prepares a row from its int8 code, so that rows can be compared without their vectors.
    pub(super) fn prepare_code(&self, codes: &[u8], factors: EncodedRowFactors, prepared: &mut PreparedQuery) {
        let mut residual = std::mem::take(&mut prepared.residual);
        residual.clear();
        residual.extend(
            codes
                .iter()
                .take(self.dim)
                .map(|code| (f32::from(*code) - 128.0) * factors.scale),
        );
        prepared.set(&residual);
        (prepared.bias, prepared.base, prepared.length) = (1.0, self.code_base(factors), 1.0);
        prepared.residual = residual;
    }

    /// A residual as the row that it is of, but for rounding.
    pub(super) fn restore(&self, residual: &mut [f32]) {
        self.rotation.undo(residual);
        for (value, centre) in residual.iter_mut().zip(&self.centre) {
            *value += centre;
        }
    }

    /// The part of a score of two rows that depends on the first only.
    pub(super) fn code_base(&self, factors: EncodedRowFactors) -> f32 {
        match self.metric {
            Metric::Cosine | Metric::Dot => factors.bias - self.centre_squared,
            Metric::L2 => factors.bias,
        }
    }
}
