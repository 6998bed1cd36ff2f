//! Named tensors in a safetensors file, one in memory at a time while it is written.

use std::collections::BTreeMap;
use std::path::Path;

use tch::Tensor;

use crate::checkpoint::WeightFile;
use crate::error::Error;
use crate::model::{to_checkpoint, to_torch};

/// Writes tensors of any device, and waits until the disk has them.
pub(super) fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<(), Error> {
    let mut stored = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let kind = tensor.kind();
        let Some(data) = to_checkpoint(tensor, kind) else {
            return Err(Error::Weights {
                path: path.to_owned(),
                reason: format!("tensor `{name}` is of type {kind:?}, which is not stored"),
            });
        };
        stored.push((name.clone(), data));
    }
    WeightFile {
        path: path.to_owned(),
        metadata: None,
        tensors: stored,
    }
    .write(path)
}

/// Reads all of them, to the processor's memory; the error says what is wrong with the file.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Tensor>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let broken = |error: &dyn std::fmt::Display| format!("`{name}` is damaged or cut short ({error})");
    let file = WeightFile::open(path).map_err(|error| broken(&error))?;
    let mut tensors = BTreeMap::new();
    for (name, data) in &file.tensors {
        let tensor = to_torch(data).ok_or_else(|| broken(&format!("type {}", data.dtype())))?;
        tensors.insert(name.clone(), tensor.map_err(|error| broken(&error))?);
    }
    Ok(tensors)
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn tensors_come_back_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tensors.safetensors");
        let kinds = [Kind::Int64, Kind::BFloat16, Kind::Float, Kind::Double];
        let of = |kind| {
            Tensor::from_slice(&[1.5_f32, -0.0, 3e-39, 7.0, 8.0, 9.0])
                .view([2, 3])
                .to_kind(kind)
        };
        let mut given: Vec<(String, Tensor)> = kinds
            .iter()
            .enumerate()
            .map(|(at, &kind)| (format!("t{at}"), of(kind).transpose(0, 1)))
            .collect();
        given.push(("step".into(), Tensor::from(7_i64)));
        given.push(("empty".into(), Tensor::zeros([0, 4], (Kind::Float, Device::Cpu))));
        write(&path, &given).unwrap();
        let read_back = read(&path).unwrap();
        assert_eq!(read_back.len(), given.len());
        for (name, tensor) in &given {
            let back = &read_back[name];
            assert_eq!((back.kind(), back.size()), (tensor.kind(), tensor.size()), "{name}");
            let bytes = |tensor: &Tensor| {
                to_checkpoint(tensor, tensor.kind())
                    .unwrap()
                    .bytes()
                    .unwrap()
                    .into_owned()
            };
            assert_eq!(bytes(back), bytes(tensor), "{name}");
        }
        let bytes = fs_err::read(&path).unwrap();
        fs_err::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(read(&path).unwrap_err().contains("damaged or cut short"));
        fs_err::write(&path, b"").unwrap();
        assert!(read(&path).unwrap_err().contains("tensors.safetensors"));
        assert!(
            write(&path, &[("b".into(), Tensor::from(true))])
                .unwrap_err()
                .to_string()
                .contains("`b`")
        );
    }
}
