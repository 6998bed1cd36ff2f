//! Multi-hop self-attention as pooling (Lin et al. 2017, "A Structured Self-attentive Sentence Embedding", equations 5
//! to 7).
//!
//! `A = softmax(W2 tanh(W1 H^T))` over the tokens of a text, `M = A H`: each of the hops is a weighted mean of the
//! token vectors with weights of its own, and the hops stand side by side.

use tch::{Kind, TchError, Tensor};

use super::linear::Linear;
use super::packed::{Packed, joined};
use super::parameters::Parameters;
use crate::config::MultiHopConfig;
use crate::error::Error;

#[derive(Debug, Clone)]
pub(crate) struct MultiHop {
    /// W1, `[inner, h]`.
    inner: Linear,
    /// W2, `[hops, inner]`.
    hops: Linear,
    include_prompt: bool,
}

impl MultiHop {
    /// Reads `w1.weight` and `w2.weight`.
    pub(crate) fn load(parameters: &mut dyn Parameters, config: &MultiHopConfig) -> Result<Self, Error> {
        Ok(Self {
            inner: Linear::load(parameters, "w1", config.in_features, config.inner, false)?,
            hops: Linear::load(parameters, "w2", config.inner, config.hops, false)?,
            include_prompt: config.include_prompt,
        })
    }

    /// Token vectors `[t, h]` to `[rows, hops * h]` in f32.
    pub(crate) fn forward(&self, hidden: &Tensor, packed: &Packed) -> Result<Tensor, TchError> {
        let inner = self.inner.forward(packed.exec, hidden)?.f_tanh()?;
        let scores = self.hops.forward(packed.exec, &inner)?.f_to_kind(Kind::Float)?;
        let skipped = if self.include_prompt { 0 } else { packed.prompt };
        let (scores, hidden) = (packed.runs_of(&scores)?, packed.runs_of(hidden)?);
        let pooled = packed
            .runs
            .iter()
            .zip(scores.iter().zip(&hidden))
            .enumerate()
            .map(|(number, (run, states))| {
                let (scores, hidden) = states;
                if let Some(mask) = packed.mask(number) {
                    let padding = mask.kept(skipped)?.f_logical_not()?.f_unsqueeze(2)?;
                    let scores = scores.f_masked_fill(&padding, f64::NEG_INFINITY)?;
                    return hops(&scores, hidden);
                }
                // What follows the prompt, at least the token after the text.
                let skipped = skipped.min(run.tokens - 1);
                let kept = |values: &Tensor| values.f_narrow(1, skipped, run.tokens - skipped);
                hops(&kept(scores)?, &kept(hidden)?)
            });
        joined(pooled.collect::<Result<_, _>>()?)
    }
}

/// `[rows, s, hops]` and `[rows, s, h]` to `[rows, hops * h]`.
fn hops(scores: &Tensor, hidden: &Tensor) -> Result<Tensor, TchError> {
    // [rows, hops, s]
    let attention = scores.f_softmax(1, None::<Kind>)?.f_transpose(1, 2)?;
    let (rows, hops, _) = attention.size3()?;
    let (.., size) = hidden.size3()?;
    attention
        .f_matmul(&hidden.f_to_kind(Kind::Float)?)?
        .f_reshape([rows, hops * size])
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::super::exec::Exec;
    use super::super::packed::LengthRun;
    use super::*;

    const H: usize = 5;
    const INNER: usize = 3;
    const HOPS: usize = 2;

    struct Given([Vec<Vec<f32>>; 2]);

    impl Parameters for Given {
        fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
            let rows = &self.0[usize::from(name == "w2.weight")];
            assert_eq!((rows.len(), rows[0].len()), (shape[0], shape[1]), "{name}");
            Ok(Tensor::from_slice2(rows))
        }
    }

    fn draw(rows: usize, columns: usize, seed: f32) -> Vec<Vec<f32>> {
        let value = |row: usize, column: usize| ((row * columns + column) as f32 * 12.9898 + seed).sin() * 1.5;
        (0..rows)
            .map(|row| (0..columns).map(|column| value(row, column)).collect())
            .collect()
    }

    /// The equations, one number at a time, of one text.
    fn slow(tokens: &[Vec<f32>], w1: &[Vec<f32>], w2: &[Vec<f32>]) -> Vec<f32> {
        let times = |matrix: &[Vec<f32>], vector: &[f32]| -> Vec<f32> {
            matrix
                .iter()
                .map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
                .collect()
        };
        let scores: Vec<Vec<f32>> = tokens
            .iter()
            .map(|token| times(w2, &times(w1, token).iter().map(|x| x.tanh()).collect::<Vec<f32>>()))
            .collect();
        let mut pooled = Vec::new();
        for hop in 0..w2.len() {
            let sum: f32 = scores.iter().map(|score| score[hop].exp()).sum();
            for place in 0..H {
                let weighted = tokens
                    .iter()
                    .zip(&scores)
                    .map(|(token, score)| token[place] * score[hop].exp() / sum);
                pooled.push(weighted.sum());
            }
        }
        pooled
    }

    #[test]
    fn hops_are_those_of_the_equations() {
        let (w1, w2) = (draw(INNER, H, 0.3), draw(HOPS, INNER, 0.7));
        // Two texts of four tokens, one of two, one of one.
        let runs = [(0, 2, 4), (8, 1, 2), (10, 1, 1)].map(|(first, rows, tokens)| LengthRun { first, rows, tokens });
        let hidden = draw(11, H, 0.1);
        for (include_prompt, prompt) in [(true, 2), (false, 2), (false, 0)] {
            let config = MultiHopConfig {
                in_features: H,
                inner: INNER,
                hops: HOPS,
                include_prompt,
            };
            let pooling = MultiHop::load(&mut Given([w1.clone(), w2.clone()]), &config).unwrap();
            let ids = Tensor::zeros([11], (Kind::Int64, Device::Cpu));
            let packed = Packed {
                spans: Vec::new(),
                types: None,
                lengths: Vec::new(),
                masks: Vec::new(),
                positions: ids.shallow_clone(),
                ids,
                runs: runs.to_vec(),
                filler: 0,
                prompt,
                exec: Exec::ONE_THREAD,
            };
            let pooled = pooling.forward(&Tensor::from_slice2(&hidden), &packed).unwrap();
            assert_eq!(pooled.size(), [4, (HOPS * H) as i64]);
            let pooled = Vec::<Vec<f32>>::try_from(pooled).unwrap();
            for (text, (first, tokens)) in [(0, 4), (4, 4), (8, 2), (10, 1)].into_iter().enumerate() {
                let skipped = if include_prompt {
                    0
                } else {
                    (prompt as usize).min(tokens - 1)
                };
                let expected = slow(&hidden[first + skipped..first + tokens], &w1, &w2);
                for (ours, theirs) in pooled[text].iter().zip(&expected) {
                    assert!((ours - theirs).abs() < 1e-5, "{text}: {ours} {theirs}");
                }
                // Hops differ, so that one cannot stand for another, unless there is but one token.
                let parted = (0..H).any(|place| (expected[place] - expected[H + place]).abs() > 1e-3);
                assert_eq!(parted, tokens - skipped > 1, "{text}");
            }
        }
    }
}
