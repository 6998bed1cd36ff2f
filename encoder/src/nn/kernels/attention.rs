//! Self-attention, one head of one text after another: the scores between queries and contexts never leave the cache.
//!
//! Keys are packed once per head so that 32 of them are one load per dimension; eight queries at a time then take all
//! scores, their softmax and the weighted sum of the values. Bound by multiply-adds: 2 x 2 x s x size of them for each
//! query, and one exponential for each score. Tokens of a text lie a few KiB apart, so laying a head out waits for
//! memory: 16 tokens are read at once.

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_max_ps, _mm512_mul_ps, _mm512_reduce_add_ps, _mm512_reduce_max_ps,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_sub_ps,
};

use super::Heads;
use super::simd::{Avx512, LANES, exp, load, store, transposed};
use crate::nn::exec::Exec;

/// Keys, or values of a context, of one step: two registers.
const WIDTH: usize = 2 * LANES;
/// Queries of one step: with two registers each, 16 sums hide the latency of the multiply-add.
const QUERIES: usize = 8;

/// Scores times the heads' size from which work is shared: some 50 microseconds of one core.
const SHARED: usize = 1 << 20;

/// Scratch memory of a head.
#[derive(Debug, Default)]
struct Room {
    /// Keys, multiplied with the scale, in blocks of 32: `[blocks, size]` of 32 keys, zeros after the last one.
    keys: Vec<[f32; WIDTH]>,
    /// Values in blocks of 32: `[size / 32, s]` of 32 values.
    values: Vec<[f32; WIDTH]>,
    /// Scores, then weights, of a step: `[queries, blocks]` of 32 keys.
    weights: Vec<[f32; WIDTH]>,
}

/// Texts of one length.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttentionInput<'a> {
    /// Queries, keys and values: `[texts, s, width]`.
    pub(super) all: &'a [f32],
    /// The number of tokens of a text, `s`.
    pub(super) tokens: usize,
    /// Added to the scores: `[heads, s, s]`.
    pub(super) bias: Option<&'a [f32]>,
}

/// As [`super::attend`], which has checked the sizes. Where kernels share their work, each thread takes some texts, or
/// some queries of each where there are fewer texts than threads.
pub(super) fn attend(here: Avx512, exec: Exec, heads: Heads, input: AttentionInput<'_>, contexts: &mut [f32]) {
    let AttentionInput { all, tokens, bias } = input;
    let inner = heads.count * heads.size;
    if tokens == 0 || inner == 0 {
        return;
    }
    let reached = heads.reach.before.saturating_add(heads.reach.after).saturating_add(1);
    let parts = exec.pieces(contexts.len() * tokens.min(reached), SHARED);
    let (of_text, texts) = (tokens * heads.width(), contexts.len() / (tokens * inner));
    let attend = |piece: AttentionPiece<'_>| piece.attend(here, heads, tokens, bias);
    if texts >= parts {
        let some = texts.div_ceil(parts);
        let pieces = all
            .chunks(some * of_text)
            .zip(contexts.chunks_mut(some * tokens * inner));
        exec.share(
            pieces.map(|(all, contexts)| AttentionPiece { all, from: 0, contexts }),
            attend,
        );
    } else {
        let some = tokens.div_ceil(parts.div_ceil(texts.max(1))).next_multiple_of(QUERIES);
        let pieces = all.chunks_exact(of_text).zip(contexts.chunks_exact_mut(tokens * inner));
        let pieces = pieces.flat_map(|(all, contexts)| {
            let contexts = contexts.chunks_mut(some * inner).enumerate();
            contexts.map(move |(number, contexts)| AttentionPiece {
                all,
                from: number * some,
                contexts,
            })
        });
        exec.share(pieces, attend);
    }
}

/// Some texts, or some queries of one.
struct AttentionPiece<'a> {
    /// `[texts, s, width]`.
    all: &'a [f32],
    /// The first query of the piece.
    from: usize,
    /// `[texts, s, inner]`, or `[queries, inner]` of one text.
    contexts: &'a mut [f32],
}

impl AttentionPiece<'_> {
    #[expect(
        unsafe_code,
        reason = "calls a function compiled for AVX-512, after the processor was checked"
    )]
    fn attend(self, _: Avx512, heads: Heads, tokens: usize, bias: Option<&[f32]>) {
        let Self { all, from, contexts } = self;
        let inner = heads.count * heads.size;
        let group = heads.count / heads.keys.max(1);
        let mut room = Room::default();
        for (all, contexts) in all
            .chunks_exact(tokens * heads.width())
            .zip(contexts.chunks_mut(tokens * inner))
        {
            for head in 0..heads.count {
                let bias = bias.and_then(|bias| bias.get(head * tokens * tokens..(head + 1) * tokens * tokens));
                let key_head = head / group;
                let one = Head {
                    all,
                    bias,
                    tokens,
                    from,
                    heads,
                    query: head * heads.size,
                    key: (heads.count + key_head) * heads.size,
                    value: (heads.count + heads.keys + key_head) * heads.size,
                };
                // SAFETY: the processor has AVX-512F, as the first argument says.
                unsafe {
                    if head % group == 0 {
                        one.lay_out(&mut room);
                    }
                    one.attend(&mut room, contexts);
                }
            }
        }
    }
}

/// One head of one text.
#[derive(Debug, Clone, Copy)]
struct Head<'a> {
    /// `[s, width]`.
    all: &'a [f32],
    /// `[s, s]`.
    bias: Option<&'a [f32]>,
    tokens: usize,
    /// The query of the first context.
    from: usize,
    heads: Heads,
    /// The places of the first values of a query (also among those of all contexts), a key and a value of a token.
    query: usize,
    key: usize,
    value: usize,
}

/// Keys that the queries of a step reach, in whole blocks of 32.
#[derive(Debug, Clone, Copy)]
struct ReachedKeys {
    first_block: usize,
    blocks: usize,
    /// Keys from the first of the first block on.
    count: usize,
}

impl Head<'_> {
    #[target_feature(enable = "avx512f")]
    fn attend(self, room: &mut Room, contexts: &mut [f32]) {
        let inner = self.heads.count * self.heads.size;
        let (mut query, end) = (self.from, self.from + contexts.len() / inner);
        while query < end {
            query += match end - query {
                QUERIES.. => self.step::<QUERIES>(query, room, contexts),
                4.. => self.step::<4>(query, room, contexts),
                2.. => self.step::<2>(query, room, contexts),
                _ => self.step::<1>(query, room, contexts),
            };
        }
    }

    /// The values of a token from this place on.
    fn part(&self, token: usize, place: usize) -> &[f32] {
        &self.all[token * self.heads.width() + place..][..self.heads.size]
    }

    /// Keys and values, for all heads of queries that share them.
    #[target_feature(enable = "avx512f")]
    fn lay_out(self, room: &mut Room) {
        let size = self.heads.size;
        let (blocks, columns) = (self.tokens.div_ceil(WIDTH), size / WIDTH);
        room.keys.clear();
        room.keys.resize(blocks * size, [0.0; WIDTH]);
        room.values.resize(columns * self.tokens, [0.0; WIDTH]);
        let scale = _mm512_set1_ps(self.heads.scale);
        for first in (0..self.tokens).step_by(LANES) {
            let count = LANES.min(self.tokens - first);
            let block = &mut room.keys[first / WIDTH * size..][..size];
            let half = first / LANES % 2;
            for (column, places) in block.chunks_exact_mut(LANES).enumerate() {
                let mut keys = [_mm512_setzero_ps(); LANES];
                for (number, key) in keys.iter_mut().enumerate().take(count) {
                    let values = self.part(first + number, self.key);
                    *key = _mm512_mul_ps(load(&values.as_chunks().0[column]), scale);
                }
                transposed(&mut keys);
                for (place, keys) in places.iter_mut().zip(keys) {
                    store(&mut place.as_chunks_mut().0[half], keys);
                }
            }
            for token in first..first + count {
                let (value, _) = self.part(token, self.value).as_chunks::<WIDTH>();
                for (column, value) in value.iter().enumerate() {
                    room.values[column * self.tokens + token] = *value;
                }
            }
        }
    }

    /// The keys that `queries` queries from `query` on reach.
    fn reached(&self, query: usize, queries: usize) -> ReachedKeys {
        let reach = self.heads.reach;
        let first_block = query.saturating_sub(reach.before) / WIDTH;
        let end = (query + queries).saturating_add(reach.after).min(self.tokens);
        let first = first_block * WIDTH;
        ReachedKeys {
            first_block,
            blocks: (end - first).div_ceil(WIDTH),
            count: end - first,
        }
    }

    /// `Q` queries from `query` on; gives `Q`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn step<const Q: usize>(self, query: usize, room: &mut Room, contexts: &mut [f32]) -> usize {
        let reached = self.reached(query, Q);
        let ReachedKeys {
            first_block,
            blocks,
            count,
        } = reached;
        let first = first_block * WIDTH;
        room.weights.resize(QUERIES * self.tokens.div_ceil(WIDTH), [0.0; WIDTH]);
        self.scores::<Q>(query, room, reached);
        let mut shares = [0.0; Q];
        for (number, share) in shares.iter_mut().enumerate() {
            let scores = &mut room.weights[number * blocks..][..blocks];
            let row = query + number;
            let bias = self.bias.map(|bias| &bias[row * self.tokens + first..][..count]);
            let from = row.saturating_sub(self.heads.reach.before).saturating_sub(first);
            let end = (row + 1).saturating_add(self.heads.reach.after).min(self.tokens) - first;
            *share = 1.0 / softmax(scores, from, end, bias);
        }
        let mut weights: [&[f32]; Q] = [&[]; Q];
        for (number, weights) in weights.iter_mut().enumerate() {
            *weights = &room.weights[number * blocks..][..blocks].as_flattened()[..count];
        }
        let inner = self.heads.count * self.heads.size;
        for column in 0..self.heads.size / WIDTH {
            let sums = weighted(&weights, &room.values[column * self.tokens + first..][..count]);
            for number in 0..Q {
                let place = (query - self.from + number) * inner + self.query + column * WIDTH;
                let (places, _) = contexts[place..][..WIDTH].as_chunks_mut::<LANES>();
                let share = _mm512_set1_ps(shares[number]);
                store(&mut places[0], _mm512_mul_ps(sums[number][0], share));
                store(&mut places[1], _mm512_mul_ps(sums[number][1], share));
            }
        }
        Q
    }

    /// Products of the queries of a step with the keys that it reaches.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn scores<const Q: usize>(self, query: usize, room: &mut Room, reached: ReachedKeys) {
        let ReachedKeys {
            first_block, blocks, ..
        } = reached;
        let size = self.heads.size;
        let mut queries: [&[f32]; Q] = [&[]; Q];
        for (number, values) in queries.iter_mut().enumerate() {
            *values = self.part(query + number, self.query);
        }
        let keys = &room.keys[first_block * size..][..blocks * size];
        for (block, keys) in keys.chunks_exact(size).enumerate() {
            let sums = weighted(&queries, keys);
            for (number, sums) in sums.iter().enumerate() {
                let (places, _) = room.weights[number * blocks + block].as_chunks_mut::<LANES>();
                store(&mut places[0], sums[0]);
                store(&mut places[1], sums[1]);
            }
        }
    }
}

// Plain loops here and above: what iterators and closures call is compiled without AVX-512, and would not become part
// of this.
/// For each list of factors, as long as `rows`, the sum of the rows multiplied with them.
#[inline]
#[target_feature(enable = "avx512f")]
fn weighted<const Q: usize>(factors: &[&[f32]; Q], rows: &[[f32; WIDTH]]) -> [[__m512; 2]; Q] {
    let mut sums = [[_mm512_setzero_ps(); 2]; Q];
    let mut trimmed: [&[f32]; Q] = [&[]; Q];
    for number in 0..Q {
        trimmed[number] = &factors[number][..rows.len()];
    }
    for (at, row) in rows.iter().enumerate() {
        let (halves, _) = row.as_chunks::<LANES>();
        let (low, high) = (load(&halves[0]), load(&halves[1]));
        for number in 0..Q {
            let factor = _mm512_set1_ps(trimmed[number][at]);
            sums[number][0] = _mm512_fmadd_ps(factor, low, sums[number][0]);
            sums[number][1] = _mm512_fmadd_ps(factor, high, sums[number][1]);
        }
    }
    sums
}

/// Scores to exponentials of their distance to the largest; the sum of those. Scores from `from` to `end` are valid;
/// others, and those with a bias of minus infinity, become 1e-38: negligible in a sum of 1 and more.
#[inline]
#[target_feature(enable = "avx512f")]
fn softmax(scores: &mut [[f32; WIDTH]], from: usize, end: usize, bias: Option<&[f32]>) -> f32 {
    let flat = scores.as_flattened_mut();
    if let Some(bias) = bias {
        for (score, bias) in flat.iter_mut().zip(bias) {
            *score += bias;
        }
    }
    flat[..from].fill(f32::NEG_INFINITY);
    flat[end..].fill(f32::NEG_INFINITY);
    let (registers, _) = flat.as_chunks_mut::<LANES>();
    let mut largest = _mm512_set1_ps(f32::NEG_INFINITY);
    for values in &*registers {
        largest = _mm512_max_ps(largest, load(values));
    }
    let largest = _mm512_set1_ps(_mm512_reduce_max_ps(largest));
    let mut sum = _mm512_setzero_ps();
    for values in registers {
        let value = exp(_mm512_sub_ps(load(values), largest));
        sum = _mm512_add_ps(sum, value);
        store(values, value);
    }
    _mm512_reduce_add_ps(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AttentionReach;
    use crate::nn::KernelPool;

    #[test]
    fn shared_work_gives_the_same() {
        let Some(here) = Avx512::found() else {
            println!("skipped: this processor has no AVX-512");
            return;
        };
        // Pieces of one text, uneven ones, and of several texts.
        for (texts, tokens) in [(1, 203), (2, 150), (3, 150), (7, 101)] {
            let heads = Heads {
                count: 2,
                keys: 2,
                size: 32,
                scale: 0.2,
                reach: AttentionReach::ALL,
            };
            let value = |place: usize| (place as f32 * 0.37).sin() * 2.0;
            let all: Vec<f32> = (0..texts * tokens * 3 * 64).map(value).collect();
            let bias: Vec<f32> = (0..2 * tokens * tokens).map(|place| value(place + 5)).collect();
            let room = vec![f32::NAN; texts * tokens * 64];
            assert!(room.len() * tokens >= SHARED);
            for bias in [None, Some(&bias[..])] {
                let input = AttentionInput {
                    all: &all,
                    tokens,
                    bias,
                };
                let mut alone = room.clone();
                attend(here, Exec::ONE_THREAD, heads, input, &mut alone);
                assert!(alone.iter().all(|value| value.is_finite()));
                for threads in [2, 3, 5] {
                    let mut shared = room.clone();
                    KernelPool::awake(threads).run(|| attend(here, Exec::SHARED, heads, input, &mut shared));
                    let alike = alone.iter().zip(&shared).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(alike, "{texts} texts of {tokens} tokens by {threads}");
                }
            }
        }
    }
}
