//! Codes of some rows side by side, so that each can be compared with all of them at the speed of the arithmetic.

use dyad_index::kernels::{self, Kernels};
use dyad_index::quant::{Codes, line_words, row_bytes};
use dyad_index::{Metric, search::Scored};

/// Scores of pairs of rows by their int8 codes: as [`dyad_index::quant::CodesView::score`] after
/// [`dyad_index::quant::CodesView::prepare_exact`].
#[derive(Debug, Clone, Copy)]
pub(super) struct PairScores<'a> {
    codes: &'a Codes,
    width: usize,
    words: usize,
    /// Words of a sketch's bits, which precede its factors.
    bits: usize,
    /// The part of every score that is the same.
    base: f32,
    kernels: &'static Kernels,
}

/// Gathered rows.
#[derive(Debug, Default)]
pub(super) struct RowBlock {
    codes: Vec<u8>,
    signed: Vec<i8>,
    factors: Vec<RowFactors>,
}

/// The terms that a row adds to its scores.
#[derive(Debug, Clone, Copy, Default)]
struct RowFactors {
    scale: f32,
    bias: f32,
    /// 128 times the sum of the codes: the other row of a product is stored with 128 added.
    offset: i32,
}

impl<'a> PairScores<'a> {
    pub(super) fn new(codes: &'a Codes) -> Self {
        let (dim, centre, kernels) = (codes.codec.dim(), codes.codec.centre(), kernels::kernels());
        // For inner products, with residuals r of the centre c: <a, b> = <ra, rb> + <a, c> + <b, c> - <c, c>.
        let base = if codes.codec.metric() == Metric::L2 {
            0.0
        } else {
            -(kernels.dot)(centre, centre)
        };
        Self {
            codes,
            width: row_bytes(dim),
            words: line_words(dim),
            bits: dim.div_ceil(64),
            base,
            kernels,
        }
    }

    /// Rows that can be scored: all of the codes.
    pub(super) fn len(&self) -> usize {
        self.codes.rows.len() / self.width.max(1)
    }

    /// Gathers the codes of `nodes`; a node without codes is one of zeros.
    pub(super) fn gather(&self, nodes: &[u32], block: &mut RowBlock) {
        block.codes.clear();
        block.signed.clear();
        block.factors.clear();
        for node in nodes {
            let from = block.codes.len();
            let at = *node as usize * self.width;
            block
                .codes
                .extend_from_slice(self.codes.rows.get(at..at + self.width).unwrap_or(&[]));
            block.codes.resize(from + self.width, 128);
            block
                .signed
                .extend(block.codes.iter().skip(from).map(|code| (code ^ 0x80).cast_signed()));
            let sum: i32 = block.signed.iter().skip(from).map(|value| i32::from(*value)).sum();
            // `Codes::lines`: bits, then sketch factor and error, then scale and bias.
            let word = self
                .codes
                .lines
                .get(*node as usize * self.words + self.bits + 1)
                .copied()
                .unwrap_or(0);
            let (scale, bias) = (f32::from_bits(word as u32), f32::from_bits((word >> 32) as u32));
            block.factors.push(RowFactors {
                scale,
                bias,
                offset: 128 * sum,
            });
        }
    }

    /// Scores row `at` of `left` with the rows of `right` from number `from` on.
    pub(super) fn score(&self, left: &RowBlock, at: usize, right: &RowBlock, from: usize, scores: &mut Vec<f32>) {
        scores.clear();
        let width = self.width;
        let (Some(row), Some(of_row)) = (left.signed.get(at * width..(at + 1) * width), left.factors.get(at)) else {
            return;
        };
        let codes = right.codes.get(from * width..).unwrap_or(&[]);
        let factors = right.factors.get(from..).unwrap_or(&[]);
        let score = |product: i32, other: &RowFactors| {
            let product = product.wrapping_sub(of_row.offset) as f32;
            product * (of_row.scale * other.scale) + of_row.bias + other.bias + self.base
        };
        let fours = codes.chunks_exact(4 * width);
        let rest = fours.remainder();
        for (codes, factors) in fours.zip(factors.chunks_exact(4)) {
            let (ab, cd) = codes.split_at(2 * width);
            let ((a, b), (c, d)) = (ab.split_at(width), cd.split_at(width));
            let products = (self.kernels.dot_i8_x4)(row, [a, b, c, d]);
            scores.extend(
                products
                    .into_iter()
                    .zip(factors)
                    .map(|(product, factors)| score(product, factors)),
            );
        }
        let last = factors.chunks_exact(4).remainder();
        let last = rest.chunks_exact(width).zip(last);
        scores.extend(last.map(|(codes, factors)| score((self.kernels.dot_i8)(row, codes), factors)));
    }
}

/// The best of the scores offered, at most `most`, best first. Of many equal ones, those that a hash of the row and the
/// other prefers: if all rows of equal vectors took the first ones, no links would lead to the others.
#[derive(Debug, Clone)]
pub(super) struct BestNeighbours {
    most: usize,
    row: u32,
    found: Vec<Scored>,
    worst: f32,
}

/// An order of a row's others, another one for each row.
pub(super) fn hash_preference(row: u32, other: u32) -> u32 {
    // A multiplicative hash, with the constants of MurmurHash3's finaliser.
    let mixed = (row.rotate_left(16) ^ other).wrapping_mul(0x85EB_CA6B);
    (mixed ^ mixed >> 13).wrapping_mul(0xC2B2_AE35)
}

impl BestNeighbours {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            row: 0,
            found: Vec::with_capacity(most),
            worst: f32::NEG_INFINITY,
        }
    }

    /// Starts again, for `row`.
    pub(super) fn start(&mut self, row: u32) {
        self.row = row;
        self.found.clear();
        self.worst = f32::NEG_INFINITY;
    }

    pub(super) fn found(&self) -> &[Scored] {
        &self.found
    }

    pub(super) fn offer(&mut self, other: u32, score: f32) {
        if score < self.worst || score.is_nan() {
            return;
        }
        let key = hash_preference(self.row, other);
        let is_before = |known: &Scored| (known.score, hash_preference(self.row, known.node)) > (score, key);
        let place = self.found.partition_point(is_before);
        if place < self.most {
            self.found.truncate(self.most - 1);
            self.found.insert(place, Scored { node: other, score });
            self.worst = if self.found.len() < self.most {
                f32::NEG_INFINITY
            } else {
                self.found.last().map_or(0.0, |last| last.score)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use dyad_index::quant::{Codec, PreparedQuery};

    use super::*;
    use crate::graph_build::tests::synthetic::Rows;

    #[test]
    fn scores_are_those_of_the_codes_bit_by_bit() {
        for (dim, metric) in [
            (8, Metric::Cosine),
            (63, Metric::L2),
            (64, Metric::Cosine),
            (100, Metric::L2),
        ] {
            let rows = Rows::clustered(40, dim, 5, 0.6, 1);
            let codes = Codes::encode(&rows, Codec::fit(&rows, metric, 3));
            let pairs = PairScores::new(&codes);
            assert_eq!(pairs.len(), 40);
            let (mut block, mut prepared, mut scores) = (RowBlock::default(), PreparedQuery::default(), Vec::new());
            let nodes: Vec<u32> = (0..40).rev().step_by(3).collect();
            pairs.gather(&nodes, &mut block);
            for (at, node) in nodes.iter().enumerate() {
                codes.view().prepare_exact(*node, &mut prepared);
                for from in [0, at, nodes.len()] {
                    pairs.score(&block, at, &block, from, &mut scores);
                    assert_eq!(scores.len(), nodes.len() - from);
                    for (score, other) in scores.iter().zip(nodes.iter().skip(from)) {
                        let expected = codes.view().score(&prepared, *other);
                        assert!(
                            (score - expected).abs() < 1e-5,
                            "dim {dim}: {score}, expected {expected}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_best_are_those_of_a_sort_and_equal_ones_differ_from_row_to_row() {
        let scores = [0.5, 0.1, f32::NAN, 0.9, 0.3, 0.7, 0.8, 0.2];
        let mut sorted: Vec<Scored> = (0..).zip(scores).map(|(node, score)| Scored { node, score }).collect();
        sorted.retain(|scored| !scored.score.is_nan());
        sorted.sort_by(|a, b| b.score.total_cmp(&a.score));
        for most in 1..9 {
            let mut best = BestNeighbours::new(most);
            for row in 0..2 {
                best.start(row);
                for (node, score) in (0..).zip(scores) {
                    best.offer(node, score);
                }
                assert_eq!(best.found(), &sorted[..most.min(7)]);
            }
        }
        let mut chosen = vec![0; 100];
        let mut best = BestNeighbours::new(6);
        for row in 0..100 {
            best.start(row);
            (0..100)
                .filter(|other| *other != row)
                .for_each(|other| best.offer(other, 1.0));
            assert_eq!(best.found().len(), 6);
            for found in best.found() {
                chosen[found.node as usize] += 1;
            }
        }
        assert!(chosen.iter().all(|times| (1..20).contains(times)), "{chosen:?}");
    }
}
