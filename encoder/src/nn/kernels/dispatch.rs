//! Calls the kernels where the processor has their instructions and tensors are as they need them.

use tch::{TchError, Tensor};

use super::attention::AttentionInput;
use super::panels::WeightPanels;
use super::product::F32Panels;
use super::product_int8::Int8Panels;
use super::rotary::{HeadScales, RotaryInput};
use super::simd::{Avx512, LANES, Vnni};
use super::{Heads, attention, filled, gate as gates, memory, norm, rotary};
use crate::config::HiddenActivation;
use crate::nn::exec::Exec;

/// Whether [`attend`] can be used here.
pub(in super::super) fn can_attend(heads: Heads) -> bool {
    let grouped = heads.keys > 0 && heads.count.is_multiple_of(heads.keys);
    grouped && heads.size.is_multiple_of(2 * LANES) && Avx512::found().is_some()
}

/// Self-attention of texts of equal length (Vaswani et al. 2017, eq. 1).
///
/// `all` is `[rows, s, width]`: queries, keys and values side by side, each `[heads, size]`; `bias`, `[1, heads, s,
/// s]`, is added to the scores; `contexts` gets `rows * s` times the values of all queries of a token. All in f32 on
/// the CPU. `None`, and `contexts` as it was, where [`can_attend`] says no or a tensor is not what is said here.
pub(in super::super) fn attend(
    exec: Exec,
    heads: Heads,
    all: &Tensor,
    bias: Option<&Tensor>,
    contexts: &mut [f32],
) -> Result<Option<()>, TchError> {
    let (rows, tokens, width) = all.size3()?;
    let inner = heads.count * heads.size;
    let (all, bias) = (memory::values(all), bias.map(memory::values));
    let (Some(all), false) = (all, matches!(bias, Some(None))) else {
        return Ok(None);
    };
    let (rows, tokens, bias) = (rows as usize, tokens as usize, bias.flatten());
    let shaped = width as usize == heads.width()
        && contexts.len() == rows * tokens * inner
        && bias.is_none_or(|bias| bias.len() == heads.count * tokens * tokens);
    let (true, true, Some(here)) = (shaped, can_attend(heads), Avx512::found()) else {
        return Ok(None);
    };
    attention::attend(here, exec, heads, AttentionInput { all, tokens, bias }, contexts);
    Ok(Some(()))
}

/// Whether [`pack_weights`] can be used here, for products in f32 or `int8`.
pub(in super::super) fn can_multiply(int8: bool) -> bool {
    if int8 {
        Vnni::found().is_some()
    } else {
        Avx512::found().is_some()
    }
}

/// A weight `[out, in]`, rounded if `int8`, and a bias `[out]` for [`multiply`], which nothing changes any more. `None`
/// where the processor is not as the kernel needs it, or a tensor is not f32 on the CPU, empty, or of another size.
pub(in super::super) fn pack_weights(
    weight: &Tensor,
    bias: Option<&Tensor>,
    int8: bool,
) -> Result<Option<WeightPanels>, TchError> {
    let (outputs, inputs) = weight.size2()?;
    let bias = bias.map(memory::values);
    let (Some(values), false) = (memory::values(weight), matches!(bias, Some(None))) else {
        return Ok(None);
    };
    let bias = bias.flatten();
    if values.is_empty() || bias.is_some_and(|bias| bias.len() != outputs as usize) {
        return Ok(None);
    }
    let inputs = inputs as usize;
    Ok(if int8 {
        Vnni::found()
            .and_then(|here| Int8Panels::of(here, values, inputs, bias))
            .map(WeightPanels::Int8)
    } else {
        Avx512::found().map(|here| WeightPanels::F32(F32Panels::of(here, values, inputs, bias)))
    })
}

/// Rows `[n, in]` in f32 times a weight: `[n, out]`, activated.
pub(in super::super) fn multiply(
    exec: Exec,
    panels: &WeightPanels,
    rows: &Tensor,
    activation: Option<HiddenActivation>,
) -> Result<Tensor, TchError> {
    made(rows, panels.inputs(), panels.outputs(), |values, outputs| {
        panels.multiply(exec, values, activation, outputs);
    })
}

/// Rows `[n, in]` in f32 times a weight `[wide, in]`, activated, times another one, `[out, wide]`: `[n, out]`.
pub(in super::super) fn fused_mlp(
    exec: Exec,
    widen: &WeightPanels,
    narrow: &WeightPanels,
    rows: &Tensor,
    activation: HiddenActivation,
) -> Result<Tensor, TchError> {
    let (wide, expected) = (widen.outputs(), narrow.inputs());
    if wide != expected {
        return Err(TchError::Shape(format!(
            "expected {expected} values between two maps, got: {wide}"
        )));
    }
    let fill = |values: &[f32], outputs: &mut [f32]| widen.fused_mlp(exec, narrow, values, Some(activation), outputs);
    made(rows, widen.inputs(), narrow.outputs(), fill)
}

/// `[n, outputs]`, filled from rows `[n, inputs]`.
fn made(
    rows: &Tensor,
    inputs: usize,
    outputs: usize,
    fill: impl FnOnce(&[f32], &mut [f32]),
) -> Result<Tensor, TchError> {
    let (count, width) = rows.size2()?;
    let rows = rows.f_contiguous()?;
    let usable = width as usize == inputs && !rows.requires_grad();
    let (Some(values), true) = (memory::values(&rows), usable) else {
        let (kind, device) = (rows.kind(), rows.device());
        let learned = if rows.requires_grad() {
            ", for which a gradient is asked"
        } else {
            ""
        };
        return Err(TchError::Shape(format!(
            "expected rows of {inputs} values in f32 on the CPU that ask no gradient, got: {width} in {kind:?} on {device:?}{learned}"
        )));
    };
    let fill = |outputs: &mut [f32]| {
        fill(values, outputs);
        Ok(())
    };
    Ok(filled(count as usize, outputs, fill)?.0)
}

/// Layer normalisation of `rows + others`, both `[n, m]`, by a weight and a bias of `[m]` (Ba et al. 2016). All in f32
/// on the CPU, and `m` a multiple of 16; `None` where they are not, or the processor is not as the kernel needs it.
pub(in super::super) fn add_norm(
    exec: Exec,
    rows: &Tensor,
    others: &Tensor,
    [weight, bias]: [&Tensor; 2],
    epsilon: f64,
) -> Result<Option<Tensor>, TchError> {
    let (count, width) = rows.size2()?;
    let (count, width) = (count as usize, width as usize);
    let values = [rows, others, weight, bias].map(memory::values);
    let ([Some(rows), Some(others), Some(weight), Some(bias)], Some(here)) = (values, Avx512::found()) else {
        return Ok(None);
    };
    let shaped = others.len() == rows.len() && weight.len() == width && bias.len() == width;
    if !shaped || width == 0 || !width.is_multiple_of(LANES) {
        return Ok(None);
    }
    let (made, ()) = filled(count, width, |outputs| {
        norm::normalise(
            here,
            exec,
            rows,
            others,
            norm::Scale {
                weight,
                bias,
                epsilon: epsilon as f32,
            },
            outputs,
        );
        Ok(())
    })?;
    Ok(Some(made))
}

/// Rows of `m` values by their root mean square, times a weight of `[m]` (Zhang and Sennrich 2019). Both in f32 on the
/// CPU, and `m` a multiple of 16; `None` where they are not, or the processor is not as the kernel needs it.
pub(in super::super) fn root_mean_square(
    exec: Exec,
    rows: &Tensor,
    weight: &Tensor,
    epsilon: f64,
) -> Result<Option<Tensor>, TchError> {
    let width = weight.size1()? as usize;
    let (Some(values), Some(of_weight), Some(here)) = (memory::values(rows), memory::values(weight), Avx512::found())
    else {
        return Ok(None);
    };
    let shaped = rows.size().last() == Some(&(width as i64));
    if !shaped || width == 0 || !width.is_multiple_of(LANES) {
        return Ok(None);
    }
    let (made, ()) = filled(values.len() / width, width, |outputs| {
        norm::root_mean_square(here, exec, values, of_weight, epsilon as f32, outputs);
        Ok(())
    })?;
    made.f_view(&rows.size()[..]).map(Some)
}

/// Queries and keys of `rows`, `[t, width]`, rotated by the cosines and sines of their positions, both `[t, size /
/// 2]`, and before that normalised by root mean square with `scales`, where there are some (Su et al. 2021, eq. 34).
/// Values stay. `None` where the processor is not as the kernel needs it, or a tensor is not f32 on the CPU or of
/// another size.
pub(in super::super) fn rotate(
    exec: Exec,
    heads: Heads,
    rows: &Tensor,
    [cosines, sines]: [&Tensor; 2],
    scales: Option<(&[Tensor; 2], f64)>,
) -> Result<Option<Tensor>, TchError> {
    let (count, width) = rows.size2()?;
    let half = heads.size / 2;
    let values = [rows, cosines, sines].map(memory::values);
    let ([Some(rows), Some(cosines), Some(sines)], Some(here)) = (values, Avx512::found()) else {
        return Ok(None);
    };
    let scales = match scales {
        None => None,
        Some(([query, key], epsilon)) => {
            let (Some(query), Some(key)) = (memory::values(query), memory::values(key)) else {
                return Ok(None);
            };
            if query.len() != heads.size || key.len() != heads.size {
                return Ok(None);
            }
            Some(HeadScales {
                query,
                key,
                epsilon: epsilon as f32,
            })
        }
    };
    let angles = count as usize * half;
    let shaped = width as usize == heads.width() && cosines.len() == angles && sines.len() == angles;
    if !shaped || angles == 0 || !half.is_multiple_of(LANES) {
        return Ok(None);
    }
    let input = RotaryInput {
        rows,
        cosines,
        sines,
        scales,
    };
    let (made, ()) = filled(count as usize, width as usize, |outputs| {
        rotary::rotate(here, exec, heads, input, outputs);
        Ok(())
    })?;
    Ok(Some(made))
}

/// Rows of two halves, `[n, 2 m]`, to `[n, m]`: the first half, or the `second`, activated and multiplied with the
/// other (Shazeer 2020). `None` where they are not f32 on the CPU, `m` is no multiple of 16, or the processor is not as
/// the kernel needs it.
pub(in super::super) fn gate(
    exec: Exec,
    rows: &Tensor,
    activation: HiddenActivation,
    second: bool,
) -> Result<Option<Tensor>, TchError> {
    let (count, width) = rows.size2()?;
    let half = width as usize / 2;
    let (Some(rows), Some(here)) = (memory::values(rows), Avx512::found()) else {
        return Ok(None);
    };
    if half == 0 || !half.is_multiple_of(LANES) || width as usize != 2 * half {
        return Ok(None);
    }
    let (made, ()) = filled(count as usize, half, |outputs| {
        gates::gate(
            here,
            exec,
            rows,
            outputs,
            gates::Gating {
                half,
                activation,
                second,
            },
        );
        Ok(())
    })?;
    Ok(Some(made))
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::config::AttentionReach;

    #[test]
    fn what_is_not_as_said_is_left_alone() {
        let heads = |size| Heads {
            count: 2,
            keys: 2,
            size,
            scale: 1.0,
            reach: AttentionReach::ALL,
        };
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let all = draw(&[2, 3, 3 * 64]);
        let attended = |heads, all: &Tensor, bias: Option<&Tensor>, values: usize| {
            let mut contexts = vec![f32::INFINITY; values];
            let done = attend(Exec::ONE_THREAD, heads, all, bias, &mut contexts)
                .unwrap()
                .is_some();
            assert!(contexts.iter().all(|value| value.is_finite() == done));
            done
        };
        let whole = 2 * 3 * 64;
        assert_eq!(attended(heads(32), &all, None, whole), can_attend(heads(32)));
        assert_eq!(
            attended(heads(32), &all, Some(&draw(&[1, 2, 3, 3])), whole),
            can_attend(heads(32))
        );
        assert!(!attended(heads(16), &all, None, whole), "another size");
        assert!(!attended(heads(32), &all, None, whole - 1), "too little room");
        assert!(
            !attended(heads(32), &all, Some(&draw(&[1, 2, 3, 2])), whole),
            "too small a bias"
        );
        assert!(!attended(heads(32), &all.to_kind(Kind::BFloat16), None, whole));
        assert!(
            !attended(heads(32), &draw(&[3, 2, 3 * 64]).transpose(0, 1), None, whole),
            "not side by side"
        );
        assert!(!can_attend(heads(33)));
    }

    #[test]
    fn weights_are_left_alone_where_sizes_are_odd() {
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let packs =
            |size: &[i64], bias: i64, int8| pack_weights(&draw(size), Some(&draw(&[bias])), int8).unwrap().is_some();
        for int8 in [false, true] {
            assert_eq!(packs(&[5, 32], 5, int8), can_multiply(int8));
            assert_eq!(packs(&[5, 33], 5, int8), can_multiply(int8));
            assert!(!packs(&[5, 32], 4, int8) && !packs(&[0, 32], 0, int8) && !packs(&[5, 0], 5, int8));
            assert!(
                pack_weights(&draw(&[32, 5]).transpose(0, 1), None, int8)
                    .unwrap()
                    .is_none(),
                "not side by side"
            );
        }
        assert!(!packs(&[1, (1 << 17) + 1], 1, true), "sums that do not fit");
    }

    #[test]
    fn sums_are_left_alone_where_sizes_are_odd() {
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let done = |rows: &Tensor, others: &Tensor, width: i64| {
            add_norm(Exec::ONE_THREAD, rows, others, [&draw(&[width]), &draw(&[width])], 1e-5)
                .unwrap()
                .is_some()
        };
        assert_eq!(done(&draw(&[3, 32]), &draw(&[3, 32]), 32), Avx512::found().is_some());
        assert!(!done(&draw(&[3, 31]), &draw(&[3, 31]), 31) && !done(&draw(&[3, 0]), &draw(&[3, 0]), 0));
        assert!(!done(&draw(&[3, 32]), &draw(&[2, 32]), 32) && !done(&draw(&[3, 32]), &draw(&[3, 32]), 16));
        assert!(!done(&draw(&[3, 32]).to_kind(Kind::Double), &draw(&[3, 32]), 32));
    }
}
