//! From token vectors to one vector per text, in f32 whatever the network's dtype.

use std::ops::Range;

use tch::{Kind, TchError, Tensor};

use super::packed::{Mask, Packed, joined, on};
use crate::config::{PoolingConfig, PoolingMode};

#[derive(Debug, Clone)]
pub(crate) struct PoolingLayer {
    config: PoolingConfig,
}

impl PoolingLayer {
    pub(crate) fn new(config: PoolingConfig) -> Self {
        Self { config }
    }

    /// Token vectors `[t, h]` to `[rows, modes * h]` in f32; with spans to `[spans, modes * h]`.
    pub(crate) fn forward(&self, hidden: &Tensor, packed: &Packed) -> Result<Tensor, TchError> {
        if !packed.spans.is_empty() {
            return self.of_spans(hidden, packed);
        }
        let skipped = if self.config.include_prompt { 0 } else { packed.prompt };
        let runs = packed.runs_of(hidden)?;
        let pooled = packed
            .runs
            .iter()
            .zip(&runs)
            .enumerate()
            .map(|(number, (run, hidden))| {
                if let Some(mask) = packed.mask(number) {
                    let tokens = hidden.f_to_kind(Kind::Float)?;
                    let modes = self
                        .config
                        .modes
                        .iter()
                        .map(|mode| pool_masked(*mode, &tokens, mask, skipped));
                    return Tensor::f_cat(&modes.collect::<Result<Vec<Tensor>, _>>()?, 1);
                }
                // What follows the prompt, at least the token after the text.
                let skipped = skipped.min(run.tokens - 1);
                let tokens = hidden
                    .f_to_kind(Kind::Float)?
                    .f_narrow(1, skipped, run.tokens - skipped)?;
                let modes = self.config.modes.iter().map(|mode| pool(*mode, &tokens, skipped));
                Tensor::f_cat(&modes.collect::<Result<Vec<Tensor>, _>>()?, 1)
            });
        joined(pooled.collect::<Result<_, _>>()?)
    }
}

impl PoolingLayer {
    /// Whether a part of a text can have a vector of its own: the mean of its token vectors.
    pub(crate) fn is_mean(&self) -> bool {
        self.config.modes == [PoolingMode::Mean]
    }

    /// The means of the token vectors of each span: late chunking (Günther et al. 2024, arXiv:2409.04701).
    fn of_spans(&self, hidden: &Tensor, packed: &Packed) -> Result<Tensor, TchError> {
        if !self.is_mean() {
            let modes = &self.config.modes;
            return Err(TchError::Shape(format!(
                "expected the mean of token vectors as pooling of spans, got {modes:?}"
            )));
        }
        let mut pooled = Vec::with_capacity(packed.spans.len());
        for ((first, tokens), spans) in packed.rows().zip(&packed.spans) {
            pooled.push(means(&hidden.f_narrow(0, first, tokens)?, spans)?);
        }
        joined(pooled)
    }
}

/// Token vectors `[s, h]` of a text to the means of spans `[spans, h]`, in f32.
fn means(tokens: &Tensor, spans: &[Range<usize>]) -> Result<Tensor, TchError> {
    let device = tokens.device();
    // Sums from the first token of the text on: however many spans overlap, they take no more memory.
    let tokens = tokens.f_to_kind(Kind::Double)?;
    let before = Tensor::f_zeros_like(&tokens.f_narrow(0, 0, 1)?)?;
    let sums = Tensor::f_cat(&[before, tokens.f_cumsum(0, None::<Kind>)?], 0)?;
    let begins: Vec<i64> = spans.iter().map(|span| span.start as i64).collect();
    let ends: Vec<i64> = spans.iter().map(|span| span.end as i64).collect();
    let lengths: Vec<f64> = spans.iter().map(|span| span.len().max(1) as f64).collect();
    let until_begin = sums.f_index_select(0, &on(device, &begins)?)?;
    let until_end = sums.f_index_select(0, &on(device, &ends)?)?;
    let lengths = Tensor::f_from_slice(&lengths)?.f_to_device(device)?.f_unsqueeze(1)?;
    until_end.f_sub(&until_begin)?.f_div(&lengths)?.f_to_kind(Kind::Float)
}

/// `[rows, s, h] -> [rows, h]`; `skipped` tokens stood before the first.
fn pool(mode: PoolingMode, tokens: &Tensor, skipped: i64) -> Result<Tensor, TchError> {
    let along = &[1i64][..];
    match mode {
        PoolingMode::Cls => tokens.f_select(1, 0),
        PoolingMode::Max => tokens.f_amax(along, false),
        PoolingMode::Mean => tokens.f_mean_dim(along, false, None::<Kind>),
        PoolingMode::MeanSqrtLength => {
            let count = tokens.size().get(1).copied().unwrap_or(1) as f64;
            tokens
                .f_sum_dim_intlist(along, false, None::<Kind>)?
                .f_div_scalar(count.sqrt())
        }
        PoolingMode::WeightedMean => {
            // The place of each token from 1, as a weight (Muennighoff 2022, "SGPT").
            let end = skipped + tokens.size().get(1).copied().unwrap_or(1);
            let places = Tensor::f_arange_start(skipped + 1, end + 1, (Kind::Float, tokens.device()))?;
            let weights = places.f_div(&places.f_sum(None::<Kind>)?)?.f_view([1, -1, 1])?;
            tokens.f_mul(&weights)?.f_sum_dim_intlist(along, false, None::<Kind>)
        }
        PoolingMode::LastToken => tokens.f_select(1, -1),
    }
}

/// As [`pool`], of rows with padding: `[rows, s, h] -> [rows, h]`.
fn pool_masked(mode: PoolingMode, tokens: &Tensor, mask: &Mask, skipped: i64) -> Result<Tensor, TchError> {
    let along = &[1i64][..];
    let kept = mask.kept(skipped)?;
    let padding = kept.f_logical_not()?.f_unsqueeze(2)?;
    let at = |positions: Tensor| -> Result<Tensor, TchError> {
        let (rows, _, size) = tokens.size3()?;
        tokens
            .f_gather(1, &positions.f_unsqueeze(2)?.f_expand([rows, 1, size], false)?, false)?
            .f_squeeze_dim(1)
    };
    let sum = |weights: &Tensor| {
        let weighed = tokens.f_masked_fill(&padding, 0.0)?.f_mul(&weights.f_unsqueeze(2)?)?;
        weighed.f_sum_dim_intlist(along, false, None::<Kind>)
    };
    let total = |weights: &Tensor| weights.f_sum_dim_intlist(along, true, None::<Kind>);
    let one = kept.f_to_kind(Kind::Float)?;
    match mode {
        PoolingMode::Cls => at(mask.first(skipped)?),
        PoolingMode::LastToken => at(mask.last()?),
        PoolingMode::Max => tokens.f_masked_fill(&padding, f64::NEG_INFINITY)?.f_amax(along, false),
        PoolingMode::Mean => sum(&one.f_div(&total(&one)?)?),
        PoolingMode::MeanSqrtLength => sum(&one.f_div(&total(&one)?.f_sqrt()?)?),
        PoolingMode::WeightedMean => {
            let weights = one.f_mul(&mask.positions().f_add_scalar(1)?)?;
            sum(&weights.f_div(&total(&weights)?)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::super::exec::Exec;
    use super::super::packed::LengthRun;
    use super::*;

    /// Weight of token `at` (from 0) of a text, as sentence-transformers documents each mode.
    fn slow(mode: PoolingMode, tokens: &[Vec<f32>], prompt: usize) -> Vec<f32> {
        let of = |value: &dyn Fn(usize, f32) -> f32, start: f32, fold: &dyn Fn(f32, f32) -> f32| {
            let column = |at: usize| {
                tokens
                    .iter()
                    .enumerate()
                    .skip(prompt)
                    .map(move |(place, token)| (place, token[at]))
            };
            (0..tokens[0].len())
                .map(|at| column(at).map(|(place, token)| value(place, token)).fold(start, fold))
                .collect::<Vec<f32>>()
        };
        let sum = |a: f32, b: f32| a + b;
        let count = (tokens.len() - prompt) as f32;
        let places: f32 = (prompt..tokens.len()).map(|place| place as f32 + 1.0).sum();
        match mode {
            PoolingMode::Cls => tokens[prompt].clone(),
            PoolingMode::LastToken => tokens[tokens.len() - 1].clone(),
            PoolingMode::Max => of(&|_, value| value, f32::NEG_INFINITY, &f32::max),
            PoolingMode::Mean => of(&|_, value| value / count, 0.0, &sum),
            PoolingMode::MeanSqrtLength => of(&|_, value| value / count.sqrt(), 0.0, &sum),
            PoolingMode::WeightedMean => of(&|place, value| value * (place as f32 + 1.0) / places, 0.0, &sum),
        }
    }

    #[test]
    fn spans_have_the_means_of_their_tokens() {
        let runs = vec![
            LengthRun {
                first: 0,
                rows: 1,
                tokens: 4,
            },
            LengthRun {
                first: 4,
                rows: 1,
                tokens: 3,
            },
        ];
        let hidden = Tensor::randn([7, 5], (Kind::Float, Device::Cpu));
        let values = Vec::<Vec<f32>>::try_from(&hidden).unwrap();
        let ids = Tensor::zeros([7], (Kind::Int64, Device::Cpu));
        let packed = Packed {
            spans: vec![vec![1..3, 0..4], vec![2..3]],
            ids: ids.shallow_clone(),
            positions: ids.shallow_clone(),
            types: None,
            lengths: vec![4, 3],
            masks: Vec::new(),
            runs,
            filler: 0,
            prompt: 0,
            exec: Exec::ONE_THREAD,
        };
        let of = |modes: &[PoolingMode]| {
            PoolingLayer::new(PoolingConfig {
                modes: modes.to_vec(),
                include_prompt: true,
            })
        };
        let got = of(&[PoolingMode::Mean]).forward(&hidden, &packed).unwrap();
        let got = Vec::<Vec<f32>>::try_from(got).unwrap();
        for (got, tokens) in got.iter().zip([&values[1..3], &values[..4], &values[6..7]]) {
            for (got, expected) in got.iter().zip(slow(PoolingMode::Mean, tokens, 0)) {
                assert!((got - expected).abs() < 1e-6);
            }
        }
        assert_eq!(got.len(), 3);
        let refused = of(&[PoolingMode::Cls])
            .forward(&hidden, &packed)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("Cls"), "{refused}");
    }

    #[test]
    fn every_mode_is_that_of_its_formula() {
        tch::manual_seed(12);
        let runs = vec![
            LengthRun {
                first: 0,
                rows: 2,
                tokens: 4,
            },
            LengthRun {
                first: 8,
                rows: 1,
                tokens: 3,
            },
            LengthRun {
                first: 11,
                rows: 1,
                tokens: 1,
            },
        ];
        let hidden = Tensor::randn([12, 5], (Kind::Float, Device::Cpu));
        let values = Vec::<Vec<f32>>::try_from(&hidden).unwrap();
        let texts = [&values[..4], &values[4..8], &values[8..11], &values[11..]];
        let ids = Tensor::zeros([12], (Kind::Int64, Device::Cpu));
        for (prompt, include_prompt) in [(0, true), (2, true), (2, false)] {
            let packed = Packed {
                spans: Vec::new(),
                ids: ids.shallow_clone(),
                positions: ids.shallow_clone(),
                types: None,
                lengths: Vec::new(),
                masks: Vec::new(),
                runs: runs.clone(),
                filler: 0,
                prompt: prompt as i64,
                exec: Exec::ONE_THREAD,
            };
            let modes = vec![
                PoolingMode::Cls,
                PoolingMode::Max,
                PoolingMode::Mean,
                PoolingMode::MeanSqrtLength,
                PoolingMode::WeightedMean,
                PoolingMode::LastToken,
            ];
            let pooling = PoolingLayer::new(PoolingConfig {
                modes: modes.clone(),
                include_prompt,
            });
            let got = Vec::<Vec<f32>>::try_from(pooling.forward(&hidden, &packed).unwrap()).unwrap();
            assert_eq!(got.len(), texts.len());
            for (got, text) in got.iter().zip(texts) {
                // The token after the text stays, however long the prompt.
                let skipped = if include_prompt { 0 } else { prompt.min(text.len() - 1) };
                let expected = modes.iter().flat_map(|mode| slow(*mode, text, skipped));
                for (number, (got, expected)) in got.iter().zip(expected).enumerate() {
                    assert!(
                        (got - expected).abs() < 1e-5,
                        "value {number} with {prompt}, {include_prompt}: {got} {expected}"
                    );
                }
            }
        }
    }
}
