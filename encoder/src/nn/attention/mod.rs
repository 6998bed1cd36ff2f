//! Multi-head self-attention (Vaswani et al. 2017, section 3.2.2), also with fewer heads of keys and values than of
//! queries (grouped-query attention, Ainslie et al. 2023), and with a limited reach (sliding windows, causal masks).
//!
//! On the CPU there is a kernel of ours (`kernels/attention.rs`), where the processor has its
//! instructions and nothing is learned. Otherwise, in f32, scores and contexts are batched products, a few rows at a
//! time, so that the scores stay in the cache; elsewhere torch's fused kernel computes them. That kernel works on
//! blocks of 64 queries and up and by one head of one text at a time: on texts of 16, 32, 64 and 128 tokens it took
//! 3.9, 2.0, 1.7 and 1.2 times as long on the CPU as the products, and the same from 256 tokens (two threads, 12 heads
//! of 32 values, 1,024 tokens in all).
//!
//! No way holds the scores of a whole long text: `reach.rs` cuts its queries into blocks.
//!
//! | file | what |
//! |---|---|
//! | `reach.rs` | the blocks of a text, and the masks of their scores |
//! | `tests.rs` | every way against the equation |

mod reach;
#[cfg(test)]
mod tests;

use tch::{Device, Kind, TchError, Tensor};

use self::reach::AttentionBlock;
use super::kernels::{self, Heads};
use super::linear::Linear;
use super::norm::RmsNorm;
use super::packed::{Mask, Packed, joined};
use super::parameters::Parameters;
use super::rotation::RotaryAngles;
use crate::config::AttentionReach;
use crate::error::Error;

/// Scores of one batched product at most, unless a few queries of one text alone have more: 4 MiB in f32, about the
/// cache of a core.
const SCORES: i64 = 1 << 20;

/// How contexts are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By our kernel; in f32, whatever the network's dtype.
    Kernel,
    /// In batched products of this many scores.
    Products(i64),
    /// By torch's kernel.
    Fused,
}

/// What positions do to the scores of attention.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PositionEffect<'a> {
    /// Nothing: they are in the token vectors.
    None,
    /// They add biases, one tensor per run, `[1, heads, s, s]` (`[rows, heads, s, s]` with the run's mask).
    Biases(&'a [Tensor]),
    /// They rotate queries and keys.
    Rotation(&'a RotaryAngles),
}

/// Names of the maps of one attention.
#[derive(Debug, Clone)]
pub(crate) struct AttentionNames {
    /// Maps of queries, keys and values with their outputs, or one map for all three.
    pub(crate) query_key_value: Vec<(String, usize)>,
    pub(crate) output: String,
}

/// Sizes of one attention.
#[derive(Debug, Clone)]
pub(crate) struct AttentionShape {
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    /// Heads of keys and values; a divisor of `heads`.
    pub(crate) key_heads: usize,
    pub(crate) head_size: usize,
    /// Maps with a bias vector.
    pub(crate) bias: bool,
    /// Factor of the scores; `1 / sqrt(head_size)` where absent.
    pub(crate) scale: Option<f64>,
    /// The keys that a query attends to.
    pub(crate) reach: AttentionReach,
}

#[derive(Debug, Clone)]
pub(crate) struct SelfAttention {
    /// Query, key and value maps as one.
    query_key_value: Linear,
    output: Linear,
    heads: i64,
    key_heads: i64,
    head_size: i64,
    scale: f64,
    reach: AttentionReach,
    /// Norms of queries and of keys, of the values of a head.
    head_norms: Option<[RmsNorm; 2]>,
}

impl SelfAttention {
    /// Reads the maps of query, key, value and output by their names.
    pub(crate) fn load(
        parameters: &mut dyn Parameters,
        names: &AttentionNames,
        shape: &AttentionShape,
    ) -> Result<Self, Error> {
        let AttentionShape {
            hidden,
            heads,
            key_heads,
            head_size,
            bias,
            scale,
            reach,
        } = *shape;
        let query_key_value = Linear::load_joined(parameters, &names.query_key_value, hidden, bias)?;
        let output = Linear::load(parameters, &names.output, heads * head_size, hidden, bias)?;
        let scale = scale.unwrap_or(1.0 / (head_size as f64).sqrt());
        Ok(Self {
            query_key_value,
            output,
            heads: heads as i64,
            key_heads: key_heads as i64,
            head_size: head_size as i64,
            scale,
            reach,
            head_norms: None,
        })
    }

    /// The same with norms of queries and of keys.
    pub(crate) fn with_head_norms(self, norms: [RmsNorm; 2]) -> Self {
        Self {
            head_norms: Some(norms),
            ..self
        }
    }

    /// `[t, h] -> [t, h]`.
    pub(crate) fn forward(
        &self,
        input: &Tensor,
        packed: &Packed,
        positions: PositionEffect<'_>,
    ) -> Result<Tensor, TchError> {
        let mut all = self.query_key_value.forward(packed.exec, input)?;
        let biases = match positions {
            PositionEffect::None => None,
            PositionEffect::Biases(biases) => Some(biases),
            PositionEffect::Rotation(rotation) => {
                all = rotation.apply(packed.exec, &all, self.heads(), self.head_norms.as_ref())?;
                None
            }
        };
        let contexts = self.contexts(&all, packed, biases, self.way(packed, &all, biases))?;
        self.output.forward(packed.exec, &contexts)
    }

    fn heads(&self) -> Heads {
        Heads {
            count: self.heads as usize,
            keys: self.key_heads as usize,
            size: self.head_size as usize,
            scale: self.scale as f32,
            reach: self.reach,
        }
    }

    fn way(&self, packed: &Packed, all: &Tensor, biases: Option<&[Tensor]>) -> Way {
        let learned = all.requires_grad() || biases.is_some_and(|biases| biases.iter().any(Tensor::requires_grad));
        if packed.is_padded() {
            Way::Fused
        } else if all.device() == Device::Cpu
            && !learned
            && packed.exec.by_kernels()
            && kernels::can_attend(self.heads())
        {
            Way::Kernel
        } else if all.device() == Device::Cpu && all.kind() == Kind::Float {
            Way::Products(SCORES)
        } else {
            Way::Fused
        }
    }

    /// Queries, keys and values side by side, `[t, (heads + 2 * key_heads) * head_size]`, to contexts `[t, heads *
    /// head_size]`.
    fn contexts(&self, all: &Tensor, packed: &Packed, biases: Option<&[Tensor]>, way: Way) -> Result<Tensor, TchError> {
        let inner = self.heads * self.head_size;
        if way == Way::Kernel {
            return self
                .by_kernel(&all.f_to_kind(Kind::Float)?, packed, biases)?
                .f_to_kind(all.kind());
        }
        let mut contexts = Vec::new();
        for (number, (run, part)) in packed.runs.iter().zip(packed.runs_of(all)?).enumerate() {
            let bias = match biases {
                Some(biases) => biases.get(number),
                None => packed.mask(number).map(Mask::scores),
            };
            let blocks = self.blocks(run.tokens, biases.is_some(), way);
            let largest = blocks.iter().map(AttentionBlock::scores).max().unwrap_or(1);
            let rows = match way {
                Way::Products(scores) => (scores / (self.heads * largest).max(1)).clamp(1, run.rows.max(1)),
                Way::Kernel | Way::Fused => run.rows.max(1),
            };
            // Masks belong to rows; where products are computed, there are none.
            for some in part.f_split(rows, 0)? {
                contexts.push(self.of_rows(&some, &blocks, bias, way)?);
            }
        }
        if packed.filler > 0 {
            contexts.push(Tensor::f_zeros([packed.filler, inner], (all.kind(), all.device()))?);
        }
        joined(contexts)?.f_view([-1, inner])
    }

    /// The blocks in which a text of this many tokens is computed: one where scores have biases, which are as large as
    /// all of them.
    fn blocks(&self, tokens: i64, biased: bool, way: Way) -> Vec<AttentionBlock> {
        match way {
            _ if biased => vec![AttentionBlock::whole(tokens)],
            Way::Products(scores) => reach::blocks(self.reach, tokens, scores / self.heads.max(1)),
            // torch's kernel holds no scores, but the mask of a block.
            _ if self.masks_nothing(tokens) || self.is_causal() => vec![AttentionBlock::whole(tokens)],
            _ => reach::blocks(self.reach, tokens, SCORES),
        }
    }

    fn masks_nothing(&self, tokens: i64) -> bool {
        self.reach.is_all(tokens as usize)
    }

    fn is_causal(&self) -> bool {
        self.reach == AttentionReach::causal(usize::MAX)
    }

    /// `[rows, s, ...]` to contexts `[rows * s, inner]`.
    fn of_rows(
        &self,
        all: &Tensor,
        blocks: &[AttentionBlock],
        bias: Option<&Tensor>,
        way: Way,
    ) -> Result<Tensor, TchError> {
        let [query, key, value] = self.split(all)?;
        if let [_] = blocks
            && way == Way::Fused
            && self.is_causal()
        {
            // Padding comes after all that is real, so that no real token reaches it.
            return self.merge(&self.fused([&query, &key, &value], None, true)?);
        }
        let mut contexts = Vec::new();
        for block in blocks {
            let some_queries = query.f_narrow(2, block.first_query, block.queries)?;
            let some_keys = [&key, &value].map(|part| part.f_narrow(2, block.first_key, block.keys));
            let [some_keys, some_values] = some_keys;
            let bias = block.bias(self.reach, bias, all.device())?;
            let parts = [&some_queries, &some_keys?, &some_values?];
            contexts.push(match way {
                Way::Products(_) => self.products(parts, bias.as_ref())?,
                Way::Kernel | Way::Fused => self.fused(parts, bias.as_ref(), false)?,
            });
        }
        let contexts = match <[Tensor; 1]>::try_from(contexts) {
            Ok([only]) => only,
            Err(several) => Tensor::f_cat(&several, 2)?,
        };
        self.merge(&contexts)
    }

    /// As [`Self::contexts`], in f32.
    fn by_kernel(&self, all: &Tensor, packed: &Packed, biases: Option<&[Tensor]>) -> Result<Tensor, TchError> {
        let heads = self.heads();
        let inner = heads.count * heads.size;
        let runs = packed.runs_of(all)?;
        let tokens = all.size().first().copied().unwrap_or(0) as usize;
        let (contexts, usable) = kernels::filled(tokens, inner, |contexts| {
            let mut rest = contexts;
            for (number, part) in runs.iter().enumerate() {
                let bias = biases.and_then(|biases| biases.get(number));
                let bias = bias.map(|bias| bias.f_to_kind(Kind::Float)).transpose()?;
                let (rows, length, _) = part.size3()?;
                let (own, behind) = rest.split_at_mut((rows * length) as usize * inner);
                if kernels::attend(packed.exec, heads, part, bias.as_ref(), own)?.is_none() {
                    return Ok(false);
                }
                rest = behind;
            }
            rest.fill(0.0);
            Ok(true)
        })?;
        if usable {
            Ok(contexts)
        } else {
            self.contexts(all, packed, biases, Way::Products(SCORES))
        }
    }

    /// `[rows, s, ...]` to queries, keys and values, each `[rows, heads, s, head_size]`: heads of keys and values stand
    /// once for each head of queries.
    fn split(&self, all: &Tensor) -> Result<[Tensor; 3], TchError> {
        let (rows, tokens, _) = all.size3()?;
        if self.key_heads == self.heads {
            let shape = [rows, tokens, 3, self.heads, self.head_size];
            // Taken apart at once, for the way back.
            let parts = all.f_view(shape)?.f_permute([2, 0, 3, 1, 4])?.f_unbind(0)?;
            return <[Tensor; 3]>::try_from(parts).map_err(|parts| {
                TchError::Shape(format!("expected queries, keys and values, got: {} parts", parts.len()))
            });
        }
        let all = all.f_view([rows, tokens, -1, self.head_size])?.f_transpose(1, 2)?;
        let of_keys = |first: i64| {
            all.f_narrow(1, first, self.key_heads)?.f_repeat_interleave_self_int(
                self.heads / self.key_heads,
                1,
                None::<i64>,
            )
        };
        let query = all.f_narrow(1, 0, self.heads)?;
        Ok([query, of_keys(self.heads)?, of_keys(self.heads + self.key_heads)?])
    }

    /// `[rows, heads, s, head_size]` to `[rows * s, inner]`.
    fn merge(&self, contexts: &Tensor) -> Result<Tensor, TchError> {
        contexts.f_transpose(1, 2)?.f_reshape([-1, self.heads * self.head_size])
    }

    fn fused(&self, parts: [&Tensor; 3], bias: Option<&Tensor>, is_causal: bool) -> Result<Tensor, TchError> {
        let [query, key, value] = parts;
        let scale = Some(self.scale);
        // In mixed precision it comes from a table in f32, and masks are in f32.
        let bias = bias.map(|bias| bias.f_to_kind(query.kind())).transpose()?;
        Tensor::f_scaled_dot_product_attention(query, key, value, bias, 0.0, is_causal, scale, false)
    }

    fn products(&self, parts: [&Tensor; 3], bias: Option<&Tensor>) -> Result<Tensor, TchError> {
        let [query, key, value] = parts;
        let (rows, heads, queries, size) = query.size4()?;
        let keys = key.size4()?.2;
        let joined = |part: &Tensor, tokens: i64| part.f_reshape([rows * heads, tokens, size]);
        // With beta 0 the first operand is not read; it broadcasts.
        let unread = Tensor::f_zeros([1], (query.kind(), query.device()))?;
        let turned = joined(key, keys)?.f_transpose(1, 2)?;
        let mut scores = unread.f_baddbmm(&joined(query, queries)?, &turned, 0.0, self.scale)?;
        if let Some(bias) = bias {
            let by_row = [rows, heads, queries, keys];
            scores = scores.f_view(by_row)?.f_add_(bias)?.f_view([-1, queries, keys])?;
        }
        let contexts = scores.f_softmax(-1, None::<Kind>)?.f_bmm(&joined(value, keys)?)?;
        contexts.f_view([rows, heads, queries, size])
    }
}
