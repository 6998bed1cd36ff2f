//! Calls the kernels where the processor has their instructions and tensors are as they need them.

use tch::{TchError, Tensor};

use super::product::Panels;
use super::simd::{Avx512, LANES};
use super::{Heads, attention, filled, memory, norm, quantize};
use crate::config::HiddenActivation;
use crate::nn::exec::Exec;

/// Whether [`attend`] can be used here.
pub(in super::super) fn can_attend(heads: Heads) -> bool {
    heads.size.is_multiple_of(2 * LANES) && Avx512::found().is_some()
}

/// Self-attention of texts of equal length (Vaswani et al. 2017, eq. 1).
///
/// `all` is `[rows, s, 3 * inner]`: queries, keys and values side by side, each `[heads, size]`; `bias`, `[1, heads, s, s]`, is
/// added to the scores; `contexts` gets `rows * s * inner` values. All in f32 on the CPU. `None`, and `contexts` as it was, where
/// [`can_attend`] says no or a tensor is not what is said here.
pub(in super::super) fn attend(
    exec: Exec,
    heads: Heads,
    all: &Tensor,
    bias: Option<&Tensor>,
    contexts: &mut [f32],
) -> Result<Option<()>, TchError> {
    let (rows, tokens, width) = all.size3()?;
    let inner = heads.count * heads.size;
    let (all, bias) = (memory::values::<f32>(all), bias.map(memory::values::<f32>));
    let (Some(all), false) = (all, matches!(bias, Some(None))) else { return Ok(None) };
    let (rows, tokens, bias) = (rows as usize, tokens as usize, bias.flatten());
    let shaped = width as usize == 3 * inner
        && contexts.len() == rows * tokens * inner
        && bias.is_none_or(|bias| bias.len() == heads.count * tokens * tokens);
    let (true, true, Some(here)) = (shaped, can_attend(heads), Avx512::found()) else { return Ok(None) };
    attention::attend((here, exec), heads, all, tokens, bias, contexts);
    Ok(Some(()))
}

/// Whether [`pack_weights`] can be used here.
pub(in super::super) fn can_multiply() -> bool {
    Avx512::found().is_some()
}

/// A weight `[out, in]` and a bias `[out]` for [`multiply`], which nothing changes any more. `None` where the processor is not as the
/// kernel needs it, or a tensor is not f32 on the CPU, empty, or of another size.
pub(in super::super) fn pack_weights(weight: &Tensor, bias: Option<&Tensor>) -> Result<Option<Panels>, TchError> {
    let (outputs, inputs) = weight.size2()?;
    let bias = bias.map(memory::values::<f32>);
    let (Some(values), false, Some(here)) =
        (memory::values::<f32>(weight), matches!(bias, Some(None)), Avx512::found())
    else {
        return Ok(None);
    };
    let bias = bias.flatten();
    let shaped = !values.is_empty() && bias.is_none_or(|bias| bias.len() == outputs as usize);
    Ok(shaped.then(|| Panels::of(here, values, inputs as usize, bias)))
}

/// Rows `[n, in]` in f32 times a weight: `[n, out]`, activated.
pub(in super::super) fn multiply(
    exec: Exec,
    panels: &Panels,
    rows: &Tensor,
    activation: Option<HiddenActivation>,
) -> Result<Tensor, TchError> {
    made(rows, panels.inputs(), panels.outputs(), |values, outputs| panels.multiply(exec, values, activation, outputs))
}

/// Rows `[n, in]` in f32 times a weight `[wide, in]`, activated, times another one, `[out, wide]`: `[n, out]`.
pub(in super::super) fn fused_mlp(
    exec: Exec,
    widen: &Panels,
    narrow: &Panels,
    rows: &Tensor,
    activation: HiddenActivation,
) -> Result<Tensor, TchError> {
    let (wide, expected) = (widen.outputs(), narrow.inputs());
    if wide != expected {
        return Err(TchError::Shape(format!("expected {expected} values between two maps, got: {wide}")));
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
    let (Some(values), true) = (memory::values::<f32>(&rows), usable) else {
        let (kind, device) = (rows.kind(), rows.device());
        let learned = if rows.requires_grad() { ", for which a gradient is asked" } else { "" };
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

/// Layer normalisation of `rows + others`, both `[n, m]`, by a weight and a bias of `[m]` (Ba et al. 2016). All in f32 on the CPU, and `m`
/// a multiple of 16; `None` where they are not, or the processor is not as the kernel needs it.
pub(in super::super) fn add_norm(
    exec: Exec,
    rows: &Tensor,
    others: &Tensor,
    [weight, bias]: [&Tensor; 2],
    epsilon: f64,
) -> Result<Option<Tensor>, TchError> {
    let (count, width) = rows.size2()?;
    let (count, width) = (count as usize, width as usize);
    let values = [rows, others, weight, bias].map(memory::values::<f32>);
    let ([Some(rows), Some(others), Some(weight), Some(bias)], Some(here)) = (values, Avx512::found()) else {
        return Ok(None);
    };
    let shaped = others.len() == rows.len() && weight.len() == width && bias.len() == width;
    if !shaped || width == 0 || !width.is_multiple_of(LANES) {
        return Ok(None);
    }
    let (made, ()) = filled(count, width, |outputs| {
        norm::normalise((here, exec), rows, others, norm::Scale { weight, bias, epsilon: epsilon as f32 }, outputs);
        Ok(())
    })?;
    Ok(Some(made))
}

/// Rows `[n, m]` in f32 as whole numbers from -127 to 127, and what one step of each row is worth, `[n, 1]`: its largest magnitude
/// over 127. `None` where a tensor or the processor is not as the kernel needs it.
pub(in super::super) fn quantize_rows(rows: &Tensor) -> Result<Option<(Tensor, Tensor)>, TchError> {
    let (count, width) = rows.size2()?;
    let (count, width) = (count as usize, width as usize);
    let (Some(values), Some(here)) = (memory::values::<f32>(rows), Avx512::found()) else { return Ok(None) };
    if width == 0 || !width.is_multiple_of(LANES) {
        return Ok(None);
    }
    let (steps, (numbers, ())) = filled(count, 1, |steps| {
        filled(count, width, |numbers| {
            quantize::round(here, values, width, numbers, steps);
            Ok(())
        })
    })?;
    Ok(Some((numbers, steps)))
}

/// Sums `[n, out]` of products of whole numbers to what they are worth, in f32: times the step of their row, `[n, 1]`, and of their
/// output, `[out]`, plus the bias, `[out]`. `None` as for [`quantize_rows`].
pub(in super::super) fn dequantize(
    sums: &Tensor,
    of_rows: &Tensor,
    of_outputs: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Option<Tensor>, TchError> {
    let (count, width) = sums.size2()?;
    let (count, width) = (count as usize, width as usize);
    let bias = bias.map(memory::values::<f32>);
    let found = (memory::values::<i32>(sums), memory::values::<f32>(of_rows), memory::values::<f32>(of_outputs));
    let ((Some(sums), Some(of_rows), Some(of_outputs)), false) = (found, matches!(bias, Some(None))) else {
        return Ok(None);
    };
    let bias = bias.flatten();
    let shaped = of_rows.len() == count && of_outputs.len() == width && bias.is_none_or(|bias| bias.len() == width);
    let fits = shaped && width > 0 && width.is_multiple_of(LANES);
    let (true, Some(here)) = (fits, Avx512::found()) else { return Ok(None) };
    let (outputs, ()) = filled(count, width, |outputs| {
        quantize::scale(here, sums, of_rows, of_outputs, bias, outputs);
        Ok(())
    })?;
    Ok(Some(outputs))
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn what_is_not_as_said_is_left_alone() {
        let heads = |size| Heads { count: 2, size, scale: 1.0 };
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let all = draw(&[2, 3, 3 * 64]);
        let attended = |heads, all: &Tensor, bias: Option<&Tensor>, values: usize| {
            let mut contexts = vec![f32::INFINITY; values];
            let done = attend(Exec::ONE_THREAD, heads, all, bias, &mut contexts).unwrap().is_some();
            assert!(contexts.iter().all(|value| value.is_finite() == done));
            done
        };
        let whole = 2 * 3 * 64;
        assert_eq!(attended(heads(32), &all, None, whole), can_attend(heads(32)));
        assert_eq!(attended(heads(32), &all, Some(&draw(&[1, 2, 3, 3])), whole), can_attend(heads(32)));
        assert!(!attended(heads(16), &all, None, whole), "another size");
        assert!(!attended(heads(32), &all, None, whole - 1), "too little room");
        assert!(!attended(heads(32), &all, Some(&draw(&[1, 2, 3, 2])), whole), "too small a bias");
        assert!(!attended(heads(32), &all.to_kind(Kind::BFloat16), None, whole));
        assert!(!attended(heads(32), &draw(&[3, 2, 3 * 64]).transpose(0, 1), None, whole), "not side by side");
        assert!(!can_attend(heads(33)));
    }

    #[test]
    fn sums_are_left_alone_where_sizes_are_odd() {
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let done = |rows: &Tensor, others: &Tensor, width: i64| {
            add_norm(Exec::ONE_THREAD, rows, others, [&draw(&[width]), &draw(&[width])], 1e-5).unwrap().is_some()
        };
        assert_eq!(done(&draw(&[3, 32]), &draw(&[3, 32]), 32), Avx512::found().is_some());
        assert!(!done(&draw(&[3, 31]), &draw(&[3, 31]), 31) && !done(&draw(&[3, 0]), &draw(&[3, 0]), 0));
        assert!(!done(&draw(&[3, 32]), &draw(&[2, 32]), 32) && !done(&draw(&[3, 32]), &draw(&[3, 32]), 16));
        assert!(!done(&draw(&[3, 32]).to_kind(Kind::Double), &draw(&[3, 32]), 32));
    }

    #[test]
    fn int8_is_left_alone_where_sizes_are_odd() {
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let can = Avx512::found().is_some();
        let rounds = |rows: &Tensor| quantize_rows(rows).unwrap().is_some();
        assert_eq!(rounds(&draw(&[3, 32])), can);
        assert!(!rounds(&draw(&[3, 31])) && !rounds(&draw(&[3, 0])) && !rounds(&draw(&[32, 3]).transpose(0, 1)));
        let sums = Tensor::ones([3, 32], (Kind::Int, Device::Cpu));
        let scales = |rows: &[i64], outputs: &[i64], bias: &[i64]| {
            dequantize(&sums, &draw(rows), &draw(outputs), Some(&draw(bias))).unwrap().is_some()
        };
        assert_eq!(scales(&[3, 1], &[32], &[32]), can);
        assert!(!scales(&[2, 1], &[32], &[32]) && !scales(&[3, 1], &[31], &[32]) && !scales(&[3, 1], &[32], &[16]));
    }
}
