//! The values of a tensor as a slice.

use tch::kind::Element;
use tch::{Device, TchError, Tensor};

/// Numbers that every pattern of bits is one of.
pub(in super::super) trait Number: Element {}

impl Number for f32 {}
impl Number for i32 {}
impl Number for i8 {}

/// Row-major values of a tensor; nothing where they are of another type, or lie elsewhere than side by side in the memory of the
/// CPU.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "reads a tensor in place")]
pub(super) fn values<T: Number>(tensor: &Tensor) -> Option<&[T]> {
    let plain = tensor.device() == Device::Cpu && tensor.kind() == T::KIND && tensor.is_contiguous();
    if !plain || tensor.data_ptr().is_null() {
        return (plain && tensor.numel() == 0).then_some(&[]);
    }
    // SAFETY: a contiguous tensor of this type in the memory of the CPU has `numel` values from its pointer on, aligned by torch.
    // They live as long as the tensor, which is borrowed for that long. Nothing writes to them meanwhile: kernels get the result
    // of an operator that this thread has just made and no other one knows, or tensors that do not learn, which are
    // written before the network runs.
    Some(unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<T>(), tensor.numel()) })
}

/// A new tensor `[rows, columns]`, all of it written by `fill`, and what that gives.
#[expect(unsafe_code, reason = "writes a tensor in place")]
pub(in super::super) fn filled<T: Number, R>(
    rows: usize,
    columns: usize,
    fill: impl FnOnce(&mut [T]) -> Result<R, TchError>,
) -> Result<(Tensor, R), TchError> {
    let tensor = Tensor::f_empty([rows as i64, columns as i64], (T::KIND, Device::Cpu))?;
    if tensor.numel() == 0 {
        let given = fill(&mut [])?;
        return Ok((tensor, given));
    }
    // SAFETY: a tensor just made has `numel` values of this type from its pointer on, aligned by torch and not shared yet.
    // What stands there before it is written is what foreign code has left in memory that it handed out: unknown, and a number
    // whatever it is.
    let given = fill(unsafe { std::slice::from_raw_parts_mut(tensor.data_ptr().cast::<T>(), tensor.numel()) })?;
    Ok((tensor, given))
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "x86_64")]
    use tch::Kind;

    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn values_are_those_of_the_tensor_and_only_plain_ones() {
        let tensor = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).view([2, 3]);
        assert_eq!(values::<f32>(&tensor).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(values::<f32>(&tensor.narrow(0, 1, 1)).unwrap(), [4.0, 5.0, 6.0]);
        assert_eq!(values::<i32>(&tensor.to_kind(Kind::Int)).unwrap(), [1, 2, 3, 4, 5, 6]);
        assert!(values::<f32>(&tensor.transpose(0, 1)).is_none());
        assert!(values::<f32>(&tensor.to_kind(Kind::Double)).is_none());
        assert!(values::<f32>(&tensor.narrow(0, 0, 0)).unwrap().is_empty());
    }

    #[test]
    fn a_filled_tensor_holds_what_was_written() {
        let fill = |values: &mut [f32]| {
            values.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
            Ok(values.len())
        };
        let (tensor, count) = filled(2, 2, fill).unwrap();
        assert_eq!((tensor, count), (Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0]).view([2, 2]), 4));
        assert_eq!(filled(0, 3, |_: &mut [i8]| Ok(())).unwrap().0.size(), [0, 3]);
    }
}
