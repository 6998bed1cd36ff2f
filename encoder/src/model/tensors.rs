//! Between the tensors of a checkpoint and those of libtorch.

use std::sync::{Arc, Mutex, PoisonError};

use safetensors::Dtype;
use tch::{Device, Kind, TchError, Tensor};

use crate::checkpoint::TensorData;
use crate::error::torch;

/// Number types that both know.
const KINDS: [(Kind, Dtype); 7] = [
    (Kind::Double, Dtype::F64),
    (Kind::Float, Dtype::F32),
    (Kind::Half, Dtype::F16),
    (Kind::BFloat16, Dtype::BF16),
    (Kind::Int64, Dtype::I64),
    (Kind::Int, Dtype::I32),
    (Kind::Int8, Dtype::I8),
];

/// A tensor of libtorch as one of a checkpoint, in the type `kind`: copied from its device when it is read. `None` for
/// other types.
pub(crate) fn to_checkpoint(tensor: &Tensor, kind: Kind) -> Option<TensorData> {
    let (_, dtype) = KINDS.iter().find(|(known, _)| *known == kind)?;
    let shape: Vec<usize> = tensor.size().iter().map(|&length| length as usize).collect();
    // A tensor may be used by one thread at a time.
    let tensor = Arc::new(Mutex::new(tensor.shallow_clone()));
    Some(TensorData::computed(*dtype, shape, move || {
        let tensor = tensor.lock().unwrap_or_else(PoisonError::into_inner);
        bytes(&tensor, kind).map_err(torch("copying weights"))
    }))
}

fn bytes(tensor: &Tensor, kind: Kind) -> Result<Vec<u8>, TchError> {
    let tensor = tensor
        .f_detach()?
        .f_to_device(Device::Cpu)?
        .f_to_kind(kind)?
        .f_contiguous()?;
    let mut bytes = vec![0; tensor.numel() * kind.elt_size_in_bytes()];
    tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
    Ok(bytes)
}

/// A tensor of a checkpoint in the processor's memory, in its own type. `None` for types that libtorch is not given.
pub(crate) fn to_torch(data: &TensorData) -> Option<Result<Tensor, crate::Error>> {
    let (kind, _) = KINDS.iter().find(|(_, known)| *known == data.dtype())?;
    let size: Vec<i64> = data.shape().iter().map(|&length| length as i64).collect();
    let copied = |bytes: &[u8]| Tensor::f_from_data_size(bytes, &size, *kind).map_err(torch("reading weights"));
    Some(data.bytes().and_then(|bytes| copied(&bytes)))
}
