//! The values of a tensor as a slice.

use tch::kind::Element;
use tch::{Device, TchError, Tensor};

/// Row-major values of a tensor; nothing where they are of another type, or lie elsewhere than side by side in the memory of the
/// CPU.
#[expect(unsafe_code, reason = "reads a tensor where it lies")]
pub(super) fn values<T: Element>(tensor: &Tensor) -> Option<&[T]> {
    let plain = tensor.device() == Device::Cpu && tensor.kind() == T::KIND && tensor.is_contiguous();
    if !plain || tensor.data_ptr().is_null() {
        return (plain && tensor.numel() == 0).then_some(&[]);
    }
    // SAFETY: a contiguous tensor of this type in the memory of the CPU has `numel` values from its pointer on, aligned by torch.
    // They live as long as the tensor, which is borrowed for that long. Nothing writes to them meanwhile: towers hand to kernels
    // the result of an operator, or a weight that stays as it is, which only operators of this thread may change, and none of
    // those runs before the kernel returns.
    Some(unsafe { std::slice::from_raw_parts(tensor.data_ptr().cast::<T>(), tensor.numel()) })
}

/// A new tensor `[rows, columns]`, written by `fill`.
#[expect(unsafe_code, reason = "writes a tensor where it lies")]
pub(in super::super) fn filled<T: Element, E: From<TchError>>(
    rows: usize,
    columns: usize,
    fill: impl FnOnce(&mut [T]) -> Result<(), E>,
) -> Result<Tensor, E> {
    let tensor = Tensor::f_empty([rows as i64, columns as i64], (T::KIND, Device::Cpu))?;
    if tensor.numel() == 0 {
        fill(&mut [])?;
        return Ok(tensor);
    }
    // SAFETY: a tensor just made has `numel` values of this type from its pointer on, aligned by torch and known to nobody else.
    // It is filled for whole numbers and floats alone, for which every pattern of bits is a value, so what stands there before
    // may be anything: torch's allocator hands out memory that the process owns.
    fill(unsafe { std::slice::from_raw_parts_mut(tensor.data_ptr().cast::<T>(), tensor.numel()) })?;
    Ok(tensor)
}

#[cfg(test)]
mod tests {
    use tch::Kind;

    use super::*;

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
        let tensor = filled::<f32, TchError>(2, 2, |values| {
            values.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
            Ok(())
        });
        assert_eq!(tensor.unwrap(), Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0]).view([2, 2]));
        assert_eq!(filled::<i8, TchError>(0, 3, |_| Ok(())).unwrap().size(), [0, 3]);
    }
}
