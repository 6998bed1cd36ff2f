//! The values of a tensor as a slice.

use tch::{Device, Kind, TchError, Tensor};

/// Row-major values of a tensor in f32; nothing where they are of another type, or lie elsewhere than side by side in
/// the memory of the CPU.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "reads a tensor in place")]
pub(super) fn values(tensor: &Tensor) -> Option<&[f32]> {
    let plain = tensor.device() == Device::Cpu && tensor.kind() == Kind::Float && tensor.is_contiguous();
    if !plain || tensor.data_ptr().is_null() {
        return (plain && tensor.numel() == 0).then_some(&[]);
    }
    // SAFETY: a contiguous tensor of this type in the memory of the CPU has `numel` values from its pointer on, aligned
    // by torch. They live as long as the tensor, which is borrowed for that long. Nothing writes to them meanwhile:
    // kernels get the result of an operator that this thread has just made and no other one knows, or tensors that do
    // not learn, which are written before the network runs.
    Some(unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<f32>(), tensor.numel()) })
}

/// A new tensor `[rows, columns]`, all of it written by `fill`, and what that gives.
#[expect(unsafe_code, reason = "writes a tensor in place")]
pub(in super::super) fn filled<R>(
    rows: usize,
    columns: usize,
    fill: impl FnOnce(&mut [f32]) -> Result<R, TchError>,
) -> Result<(Tensor, R), TchError> {
    let tensor = Tensor::f_empty([rows as i64, columns as i64], (Kind::Float, Device::Cpu))?;
    if tensor.numel() == 0 {
        let given = fill(&mut [])?;
        return Ok((tensor, given));
    }
    // SAFETY: a tensor just made has `numel` values of 4 bytes from its pointer on, aligned by torch and not shared
    // yet. What stands there before it is written is what foreign code has left in memory that it handed out: unknown,
    // and a number whatever it is.
    let given = fill(unsafe { std::slice::from_raw_parts_mut(tensor.data_ptr().cast::<f32>(), tensor.numel()) })?;
    Ok((tensor, given))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn values_are_those_of_the_tensor_and_only_plain_ones() {
        let tensor = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).view([2, 3]);
        assert_eq!(values(&tensor).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(values(&tensor.narrow(0, 1, 1)).unwrap(), [4.0, 5.0, 6.0]);
        assert!(values(&tensor.to_kind(Kind::Int)).is_none());
        assert!(values(&tensor.transpose(0, 1)).is_none());
        assert!(values(&tensor.to_kind(Kind::Double)).is_none());
        assert!(values(&tensor.narrow(0, 0, 0)).unwrap().is_empty());
    }

    #[test]
    fn a_filled_tensor_holds_what_was_written() {
        let fill = |values: &mut [f32]| {
            values.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
            Ok(values.len())
        };
        let (tensor, count) = filled(2, 2, fill).unwrap();
        assert_eq!(
            (tensor, count),
            (Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0]).view([2, 2]), 4)
        );
        assert_eq!(filled(0, 3, |_| Ok(())).unwrap().0.size(), [0, 3]);
    }
}
