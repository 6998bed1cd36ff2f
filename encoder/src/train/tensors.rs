//! Named tensors in a safetensors file, one in memory at a time while it is written.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensors};
use tch::{Device, Kind, TchError, Tensor};

/// The header's length is a multiple of this, so that the data are aligned for every number type.
const ALIGNMENT: usize = 8;

/// Writes tensors of any device, and waits until the disk has them.
pub(super) fn write(path: &Path, tensors: &[(String, Tensor)]) -> io::Result<()> {
    let mut sorted: Vec<&(String, Tensor)> = tensors.iter().collect();
    // Wide types first, so that all of them are aligned.
    sorted.sort_by_key(|(name, tensor)| (std::cmp::Reverse(tensor.kind().elt_size_in_bytes()), name.as_str()));
    let (mut laid_out, mut end) = (Vec::new(), 0);
    for (name, tensor) in &sorted {
        let kind = tensor.kind();
        let dtype = dtype_of(kind).ok_or_else(|| io::Error::other(format!("tensor `{name}` is of type {kind:?}")))?;
        let shape: Vec<usize> = tensor.size().iter().map(|&length| length as usize).collect();
        let bytes = tensor.numel() * kind.elt_size_in_bytes();
        laid_out.push((name.clone(), TensorInfo { dtype, shape, data_offsets: (end, end + bytes) }));
        end += bytes;
    }
    let header = Metadata::new(None, laid_out).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    let mut file = BufWriter::new(fs_err::File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)?;
    for (_, tensor) in sorted {
        file.write_all(&bytes_of(tensor).map_err(io::Error::other)?)?;
    }
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Reads all of them, to the processor's memory; the error says what is wrong with the file.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Tensor>, String> {
    let bytes = fs_err::read(path).map_err(|error| error.to_string())?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let broken = |error: &dyn std::fmt::Display| format!("`{name}` is damaged or cut short ({error})");
    let file = SafeTensors::deserialize(&bytes).map_err(|error| broken(&error))?;
    let mut tensors = BTreeMap::new();
    for (tensor_name, view) in file.tensors() {
        let Some(kind) = kind_of(view.dtype()) else { return Err(broken(&format!("type {}", view.dtype()))) };
        let shape: Vec<i64> = view.shape().iter().map(|&length| length as i64).collect();
        let tensor = Tensor::f_from_data_size(view.data(), &shape, kind).map_err(|error| broken(&error))?;
        tensors.insert(tensor_name, tensor);
    }
    Ok(tensors)
}

fn bytes_of(tensor: &Tensor) -> Result<Vec<u8>, TchError> {
    let tensor = tensor.f_detach()?.f_to_device(Device::Cpu)?.f_contiguous()?;
    let mut bytes = vec![0; tensor.numel() * tensor.kind().elt_size_in_bytes()];
    tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
    Ok(bytes)
}

const KINDS: [(Kind, Dtype); 5] = [
    (Kind::Double, Dtype::F64),
    (Kind::Float, Dtype::F32),
    (Kind::Half, Dtype::F16),
    (Kind::BFloat16, Dtype::BF16),
    (Kind::Int64, Dtype::I64),
];

fn dtype_of(kind: Kind) -> Option<Dtype> {
    KINDS.iter().find(|(known, _)| *known == kind).map(|(_, dtype)| *dtype)
}

fn kind_of(dtype: Dtype) -> Option<Kind> {
    KINDS.iter().find(|(_, known)| *known == dtype).map(|(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_come_back_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tensors.safetensors");
        let kinds = [Kind::Int64, Kind::BFloat16, Kind::Float, Kind::Double];
        let of = |kind| Tensor::from_slice(&[1.5_f32, -0.0, 3e-39, 7.0, 8.0, 9.0]).view([2, 3]).to_kind(kind);
        let mut given: Vec<(String, Tensor)> =
            kinds.iter().enumerate().map(|(at, &kind)| (format!("t{at}"), of(kind).transpose(0, 1))).collect();
        given.push(("step".into(), Tensor::from(7_i64)));
        given.push(("empty".into(), Tensor::zeros([0, 4], (Kind::Float, Device::Cpu))));
        write(&path, &given).unwrap();
        let read_back = read(&path).unwrap();
        assert_eq!(read_back.len(), given.len());
        for (name, tensor) in &given {
            let back = &read_back[name];
            assert_eq!((back.kind(), back.size()), (tensor.kind(), tensor.size()), "{name}");
            assert_eq!(bytes_of(back).unwrap(), bytes_of(tensor).unwrap(), "{name}");
        }
        let bytes = fs_err::read(&path).unwrap();
        fs_err::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(read(&path).unwrap_err().contains("damaged or cut short"));
        fs_err::write(&path, b"").unwrap();
        assert!(read(&path).unwrap_err().contains("tensors.safetensors"));
        assert!(write(&path, &[("b".into(), Tensor::from(true))]).unwrap_err().to_string().contains("`b`"));
    }
}
