//! Multi-head self-attention (Vaswani et al. 2017, section 3.2.2).
//!
//! On the CPU there is a kernel of ours (`kernels/attention.rs`), where the processor has its
//! instructions and nothing is learned. Otherwise, in f32, scores and contexts are batched products, a few rows at a
//! time, so that the scores stay in the cache; elsewhere torch's fused kernel computes them. That kernel works on
//! blocks of 64 queries and up and by one head of one text at a time: on texts of 16, 32, 64 and 128 tokens it took
//! 3.9, 2.0, 1.7 and 1.2 times as long on the CPU as the products, and the same from 256 tokens (two threads, 12 heads
//! of 32 values, 1,024 tokens in all).

use tch::{Device, Kind, TchError, Tensor};

use super::kernels::{self, Heads};
use super::linear::Linear;
use super::packed::{Mask, Packed, joined};
use super::parameters::Parameters;
use crate::error::Error;

/// Scores of one batched product at most, unless one text alone has more: 4 MiB in f32, about the cache of a core.
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

/// Sizes and names of one attention.
#[derive(Debug, Clone)]
pub(crate) struct AttentionShape {
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) head_size: usize,
    /// Maps with a bias vector.
    pub(crate) bias: bool,
    /// Factor of the scores; `1 / sqrt(head_size)` where absent.
    pub(crate) scale: Option<f64>,
}

#[derive(Debug, Clone)]
pub(crate) struct SelfAttention {
    /// Query, key and value maps as one.
    query_key_value: Linear,
    output: Linear,
    heads: i64,
    head_size: i64,
    scale: f64,
}

impl SelfAttention {
    /// Reads the maps of query, key, value and output by their names.
    pub(crate) fn load(
        parameters: &mut dyn Parameters,
        names: [String; 4],
        shape: &AttentionShape,
    ) -> Result<Self, Error> {
        let AttentionShape {
            hidden,
            heads,
            head_size,
            bias,
            scale,
        } = *shape;
        let inner = heads * head_size;
        let [query, key, value, output] = names;
        let query_key_value = Linear::load_joined(parameters, &[query, key, value], hidden, inner, bias)?;
        let output = Linear::load(parameters, &output, inner, hidden, bias)?;
        let scale = scale.unwrap_or(1.0 / (head_size as f64).sqrt());
        Ok(Self {
            query_key_value,
            output,
            heads: heads as i64,
            head_size: head_size as i64,
            scale,
        })
    }

    /// `[t, h] -> [t, h]`. `biases`, one per run and `[1, heads, s, s]` (`[rows, heads, s, s]` with the run's mask),
    /// are added to the scores.
    pub(crate) fn forward(
        &self,
        input: &Tensor,
        packed: &Packed,
        biases: Option<&[Tensor]>,
    ) -> Result<Tensor, TchError> {
        let all = self.query_key_value.forward(packed.exec, input)?;
        let contexts = self.contexts(&all, packed, biases, self.way(packed, &all, biases))?;
        self.output.forward(packed.exec, &contexts)
    }

    fn heads(&self) -> Heads {
        Heads {
            count: self.heads as usize,
            size: self.head_size as usize,
            scale: self.scale as f32,
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

    /// Queries, keys and values side by side, `[t, 3 * inner]`, to contexts `[t, inner]`.
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
            let Way::Products(scores) = way else {
                contexts.push(self.fused(&part, bias)?);
                continue;
            };
            let rows = (scores / (self.heads * run.tokens * run.tokens).max(1)).clamp(1, run.rows.max(1));
            for some in part.f_split(rows, 0)? {
                contexts.push(self.products(&some, bias)?);
            }
        }
        if packed.filler > 0 {
            contexts.push(Tensor::f_zeros([packed.filler, inner], (all.kind(), all.device()))?);
        }
        joined(contexts)?.f_view([-1, inner])
    }

    /// As [`Self::contexts`], in f32.
    fn by_kernel(&self, all: &Tensor, packed: &Packed, biases: Option<&[Tensor]>) -> Result<Tensor, TchError> {
        let inner = (self.heads * self.head_size) as usize;
        let runs = packed.runs_of(all)?;
        let tokens = all.size().first().copied().unwrap_or(0) as usize;
        let (contexts, usable) = kernels::filled(tokens, inner, |contexts| {
            let mut rest = contexts;
            for (number, part) in runs.iter().enumerate() {
                let bias = biases.and_then(|biases| biases.get(number));
                let bias = bias.map(|bias| bias.f_to_kind(Kind::Float)).transpose()?;
                let (own, behind) = rest.split_at_mut(part.numel() / 3);
                if kernels::attend(packed.exec, self.heads(), part, bias.as_ref(), own)?.is_none() {
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

    /// `[rows, s, 3 * inner]` to queries, keys and values, each `[rows, heads, s, head_size]`.
    fn split(&self, all: &Tensor) -> Result<[Tensor; 3], TchError> {
        let (rows, tokens, _) = all.size3()?;
        let shape = [rows, tokens, 3, self.heads, self.head_size];
        // Taken apart at once, for the way back.
        let parts = all.f_view(shape)?.f_permute([2, 0, 3, 1, 4])?.f_unbind(0)?;
        <[Tensor; 3]>::try_from(parts)
            .map_err(|parts| TchError::Shape(format!("expected queries, keys and values, got: {} parts", parts.len())))
    }

    /// `[rows, heads, s, head_size]` to `[rows * s, inner]`.
    fn merge(&self, contexts: &Tensor) -> Result<Tensor, TchError> {
        contexts.f_transpose(1, 2)?.f_reshape([-1, self.heads * self.head_size])
    }

    fn fused(&self, all: &Tensor, bias: Option<&Tensor>) -> Result<Tensor, TchError> {
        let [query, key, value] = self.split(all)?;
        let scale = Some(self.scale);
        // In mixed precision it comes from a table in f32, and masks are in f32.
        let bias = bias.map(|bias| bias.f_to_kind(query.kind())).transpose()?;
        let contexts = Tensor::f_scaled_dot_product_attention(&query, &key, &value, bias, 0.0, false, scale, false)?;
        self.merge(&contexts)
    }

    fn products(&self, all: &Tensor, bias: Option<&Tensor>) -> Result<Tensor, TchError> {
        let (rows, tokens, _) = all.size3()?;
        let heads = |part: &Tensor| part.f_reshape([rows * self.heads, tokens, self.head_size]);
        let [query, key, value] = self.split(all)?;
        // With beta 0 the first operand is not read; it broadcasts.
        let unread = Tensor::f_zeros([1], (all.kind(), all.device()))?;
        let mut scores = unread.f_baddbmm(&heads(&query)?, &heads(&key)?.f_transpose(1, 2)?, 0.0, self.scale)?;
        if let Some(bias) = bias {
            let by_row = [rows, self.heads, tokens, tokens];
            scores = scores.f_view(by_row)?.f_add_(bias)?.f_view([-1, tokens, tokens])?;
        }
        let contexts = scores.f_softmax(-1, None::<Kind>)?.f_bmm(&heads(&value)?)?;
        self.merge(&contexts.f_view([rows, self.heads, tokens, self.head_size])?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::exec::Exec;
    use super::super::linear::Map;
    use super::super::packed::LengthRun;
    use super::*;

    /// Attention of one head of one text, by the equation of the paper.
    fn slow([query, key, value]: &[Tensor; 3], bias: Option<Tensor>) -> Tensor {
        let mut scores = query.matmul(&key.transpose(0, 1)) / (query.size()[1] as f64).sqrt();
        if let Some(bias) = bias {
            scores += bias;
        }
        scores.softmax(-1, None::<Kind>).matmul(value)
    }

    #[test]
    fn every_way_follows_the_paper() {
        tch::manual_seed(8);
        for size in [8, 32, 64, 96] {
            follow_the_paper(3, size);
        }
    }

    fn follow_the_paper(heads: i64, size: i64) {
        let run = |first, rows, tokens| LengthRun { first, rows, tokens };
        // Whole blocks of 8 queries and 32 keys, and lengths that leave 6, 1, 3, 2 and 1 over.
        let runs = vec![
            run(0, 1, 64),
            run(64, 1, 70),
            run(134, 2, 32),
            run(198, 1, 9),
            run(207, 4, 3),
            run(219, 5, 2),
            run(229, 1, 1),
        ];
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let all = draw(&[240, 3 * heads * size]);
        let ids = Tensor::zeros([240], (Kind::Int64, Device::Cpu));
        let packed = Packed {
            spans: Vec::new(),
            types: None,
            lengths: Vec::new(),
            masks: Vec::new(),
            ids: ids.shallow_clone(),
            positions: ids,
            runs: runs.clone(),
            filler: 10,
            prompt: 0,
            exec: Exec::ONE_THREAD,
        };
        let map = || {
            Linear::Learned(vec![Map {
                weight: draw(&[1, 1]),
                bias: None,
            }])
        };
        let scale = 1.0 / (size as f64).sqrt();
        let attention = SelfAttention {
            query_key_value: map(),
            output: map(),
            heads,
            head_size: size,
            scale,
        };
        let biases: Vec<Tensor> = runs
            .iter()
            .map(|run| draw(&[1, heads, run.tokens, run.tokens]))
            .collect();
        for biases in [None, Some(&biases[..])] {
            let expected = Tensor::zeros([240, heads * size], (Kind::Float, Device::Cpu));
            for (number, run) in runs.iter().enumerate() {
                for (row, head) in (0..run.rows).flat_map(|row| (0..heads).map(move |head| (row, head))) {
                    let text = all.narrow(0, run.first + row * run.tokens, run.tokens);
                    let parts = [0, 1, 2].map(|part| text.narrow(1, (part * heads + head) * size, size));
                    let context = slow(&parts, biases.map(|biases| biases[number].get(0).get(head)));
                    let mut place =
                        expected
                            .narrow(0, run.first + row * run.tokens, run.tokens)
                            .narrow(1, head * size, size);
                    place.copy_(&context);
                }
            }
            // One product per text; two texts of the longest; all at once; torch's kernel; ours, or products where it
            // cannot.
            let products = [1, 2 * 3 * 70 * 70, SCORES].map(Way::Products);
            for way in products.into_iter().chain([Way::Fused, Way::Kernel]) {
                let got = attention.contexts(&all, &packed, biases, way).unwrap();
                let difference = (got - &expected).abs().max().double_value(&[]);
                assert!(difference < 1e-5, "{way:?}, {size}: {difference}");
            }
        }
    }
}
