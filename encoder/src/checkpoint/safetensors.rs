//! safetensors files: opened without reading their tensors, written with one tensor in memory at a time.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err::File;
use safetensors::tensor::{Metadata, TensorInfo};

use super::tensor::{MappedFile, TensorData};
use crate::config::weights_header;
use crate::error::Error;

/// The header's length is a multiple of this, so that the data are aligned for every number type.
const ALIGNMENT: usize = 8;

/// The tensors of one file, by their stored names.
#[derive(Debug, Clone, Default)]
pub(crate) struct WeightFile {
    /// Path of the file, for errors.
    pub(crate) path: PathBuf,
    /// Remarks that its writer left in it.
    pub(crate) metadata: Option<HashMap<String, String>>,
    pub(crate) tensors: Vec<(String, TensorData)>,
}

impl WeightFile {
    /// Reads the header and maps the rest.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let mut file = File::open(path)?;
        let (metadata, data) = weights_header(path, &mut file)?;
        let map = Arc::new(MappedFile::open(path, &file)?);
        let data = usize::try_from(data).unwrap_or(usize::MAX);
        let tensor = |name: String| {
            let info = metadata.info(&name)?;
            let (start, end) = info.data_offsets;
            let range = data.saturating_add(start)..data.saturating_add(end);
            Some((name, TensorData::mapped(info.dtype, info.shape.clone(), &map, range)))
        };
        let tensors = metadata.offset_keys().into_iter().filter_map(tensor).collect();
        Ok(Self {
            path: path.to_owned(),
            metadata: metadata.metadata().clone(),
            tensors,
        })
    }

    /// Bytes of all tensors.
    pub(crate) fn size(&self) -> usize {
        self.tensors.iter().map(|(_, tensor)| tensor.size()).sum()
    }

    /// Writes it to `to`, and waits until the disk has it. The same tensors give the same bytes.
    pub(crate) fn write(&self, to: &Path) -> Result<(), Error> {
        let mut tensors: Vec<&(String, TensorData)> = self.tensors.iter().collect();
        // Wide types first, so that all of them are aligned; then by name.
        tensors.sort_by(|(a, x), (b, y)| y.dtype().bitsize().cmp(&x.dtype().bitsize()).then_with(|| a.cmp(b)));
        let (mut infos, mut end) = (Vec::new(), 0);
        for (name, tensor) in &tensors {
            let data_offsets = (end, end + tensor.size());
            infos.push((
                name.clone(),
                TensorInfo {
                    dtype: tensor.dtype(),
                    shape: tensor.shape().to_vec(),
                    data_offsets,
                },
            ));
            end += tensor.size();
        }
        let broken = |reason: String| Error::Weights {
            path: self.path.clone(),
            reason,
        };
        let metadata =
            Metadata::new(self.metadata.clone(), infos).map_err(|error| broken(format!("its layout: {error}")))?;
        let mut header = serde_json::to_vec(&metadata).map_err(|source| Error::Json {
            path: to.to_owned(),
            source,
        })?;
        header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
        let mut output = BufWriter::new(File::create(to)?);
        output.write_all(&(header.len() as u64).to_le_bytes())?;
        output.write_all(&header)?;
        for (name, tensor) in tensors {
            let bytes = tensor.bytes()?;
            if bytes.len() != tensor.size() {
                return Err(broken(format!(
                    "tensor `{name}` should have {} bytes, it has {}",
                    tensor.size(),
                    bytes.len()
                )));
            }
            output.write_all(&bytes)?;
        }
        Ok(output
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?
            .sync_all()?)
    }
}

#[cfg(test)]
mod tests {
    use safetensors::{Dtype, SafeTensors};

    use super::*;

    #[test]
    fn a_file_comes_back_to_the_bit_and_other_readers_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        let metadata = Some(HashMap::from([("format".to_owned(), "pt".to_owned())]));
        let places = |dtype, shape: &[usize], bytes: Vec<u8>| {
            TensorData::computed(dtype, shape.to_vec(), move || Ok(bytes.clone()))
        };
        let tensors = vec![
            ("half".to_owned(), places(Dtype::F16, &[3], vec![1, 2, 3, 4, 5, 6])),
            ("whole".to_owned(), places(Dtype::I64, &[1], vec![7; 8])),
            (
                "floats".to_owned(),
                TensorData::floats(vec![2, 2], || Ok(vec![1.5, -0.0, f32::NAN, 3e-39])),
            ),
            ("empty".to_owned(), places(Dtype::F32, &[0, 4], Vec::new())),
        ];
        WeightFile {
            path: path.clone(),
            metadata: metadata.clone(),
            tensors: tensors.clone(),
        }
        .write(&path)
        .unwrap();
        let bytes = fs_err::read(&path).unwrap();
        let theirs = SafeTensors::deserialize(&bytes).unwrap();
        let ours = WeightFile::open(&path).unwrap();
        assert_eq!((ours.metadata.clone(), ours.tensors.len()), (metadata, 4));
        for (name, tensor) in &tensors {
            let (_, back) = ours.tensors.iter().find(|(other, _)| other == name).unwrap();
            assert_eq!((back.dtype(), back.shape()), (tensor.dtype(), tensor.shape()), "{name}");
            assert_eq!(back.bytes().unwrap(), tensor.bytes().unwrap(), "{name}");
            assert_eq!(theirs.tensor(name).unwrap().data(), &*tensor.bytes().unwrap(), "{name}");
        }
        // In another order they are the same file.
        let again = folder.path().join("b.safetensors");
        let reversed = ours.tensors.iter().rev().cloned().collect();
        WeightFile {
            tensors: reversed,
            ..ours
        }
        .write(&again)
        .unwrap();
        assert_eq!(fs_err::read(again).unwrap(), bytes);
    }

    #[test]
    fn a_tensor_of_another_size_than_it_says_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        let short = TensorData::computed(Dtype::F32, vec![2], || Ok(vec![0; 4]));
        let file = WeightFile {
            path: path.clone(),
            metadata: None,
            tensors: vec![("w".to_owned(), short)],
        };
        let message = file.write(&path).unwrap_err().to_string();
        assert!(message.contains("`w` should have 8 bytes, it has 4"), "{message}");
    }

    #[test]
    fn damaged_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        let tensors = vec![("w".to_owned(), TensorData::floats(vec![2], || Ok(vec![1.0, 2.0])))];
        WeightFile {
            path: path.clone(),
            metadata: None,
            tensors,
        }
        .write(&path)
        .unwrap();
        let bytes = fs_err::read(&path).unwrap();
        for (damaged, reason) in [
            (&bytes[..7], "it has 7 bytes"),
            (&bytes[..bytes.len() - 1], "it should have"),
            (&[&u64::MAX.to_le_bytes()[..], b"{}"].concat(), "its header should have"),
            (&[&2u64.to_le_bytes()[..], b"[]"].concat(), "its header cannot be read"),
        ] {
            fs_err::write(&path, damaged).unwrap();
            let message = WeightFile::open(&path).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }
}
