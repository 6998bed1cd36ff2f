//! Tensors out of a safetensors file: streamed, checked, each one digested for the fingerprint.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use fs_err::File;
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use sha2::{Digest, Sha256};
use tch::{Kind, Tensor};

use super::fingerprint::{self, Hex};
use crate::device::Compute;
use crate::error::{Error, torch};

/// Names listed in one error message at most.
const NAMES_SHOWN: usize = 5;

/// The first field of a safetensors file: the header's length as a little-endian `u64`.
const LENGTH_BYTES: u64 = 8;

#[derive(Debug, Clone)]
struct Stored {
    dtype: Dtype,
    shape: Vec<usize>,
    /// From the beginning of the file.
    start: u64,
    bytes: usize,
}

/// An open weights file, which hands out each of its tensors once.
#[derive(Debug)]
pub(crate) struct WeightsFile {
    path: PathBuf,
    file: File,
    stored: BTreeMap<String, Stored>,
    taken: BTreeSet<String>,
    digests: Vec<fingerprint::TensorRecord>,
    compute: Compute,
}

impl WeightsFile {
    /// Reads the header and checks that the file is as long as it says.
    ///
    /// `rename` maps a stored name to the name that the architecture uses.
    pub(crate) fn open(path: &Path, compute: Compute, rename: impl Fn(&str) -> String) -> Result<Self, Error> {
        let mut file = File::open(path)?;
        let file_bytes = file.metadata()?.len();
        let broken = |reason: String| Error::Weights { path: path.to_owned(), reason };
        let mut length = [0; LENGTH_BYTES as usize];
        if file_bytes < LENGTH_BYTES {
            return Err(broken(format!("it has {file_bytes} bytes")));
        }
        file.read_exact(&mut length)?;
        let header_bytes = u64::from_le_bytes(length);
        if header_bytes > file_bytes - LENGTH_BYTES {
            return Err(broken(format!("its header should have {header_bytes} bytes, the file has {file_bytes}")));
        }
        let mut header = vec![0; header_bytes as usize];
        file.read_exact(&mut header)?;
        let metadata: Metadata =
            serde_json::from_slice(&header).map_err(|error| broken(format!("its header cannot be read: {error}")))?;
        let data = LENGTH_BYTES + header_bytes;
        let expected = data.saturating_add(metadata.data_len() as u64);
        if expected != file_bytes {
            return Err(broken(format!("it should have {expected} bytes, it has {file_bytes}")));
        }
        let mut stored = BTreeMap::new();
        for name in metadata.offset_keys() {
            let Some(info) = metadata.info(&name) else { continue };
            let (start, end) = info.data_offsets;
            let tensor =
                Stored { dtype: info.dtype, shape: info.shape.clone(), start: data + start as u64, bytes: end - start };
            if stored.insert(rename(&name), tensor).is_some() {
                return Err(broken(format!("it holds tensor `{name}` under two names")));
            }
        }
        Ok(Self { path: path.to_owned(), file, stored, taken: BTreeSet::new(), digests: Vec::new(), compute })
    }

    /// Reads one tensor of exactly this shape onto the device, in the dtype that the model runs in.
    pub(crate) fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
        let Some(stored) = self.stored.get(name).cloned() else {
            return Err(Error::MissingTensor { path: self.path.clone(), tensor: name.to_owned() });
        };
        let kind = match stored.dtype {
            Dtype::F32 => Kind::Float,
            Dtype::F16 => Kind::Half,
            Dtype::BF16 => Kind::BFloat16,
            other => {
                return Err(Error::TensorDtype {
                    path: self.path.clone(),
                    tensor: name.to_owned(),
                    got: other.to_string(),
                });
            }
        };
        if stored.shape != shape {
            return Err(Error::TensorShape {
                path: self.path.clone(),
                tensor: name.to_owned(),
                expected: shape_text(shape),
                got: shape_text(&stored.shape),
            });
        }
        let mut bytes = vec![0; stored.bytes];
        self.file.seek(SeekFrom::Start(stored.start))?;
        self.file.read_exact(&mut bytes)?;
        self.digests.push(fingerprint::TensorRecord {
            name: name.to_owned(),
            dtype: stored.dtype.to_string(),
            shape: shape.to_vec(),
            sha256: Hex(Sha256::digest(&bytes).into()).to_string(),
        });
        self.taken.insert(name.to_owned());
        let size: Vec<i64> = shape.iter().map(|&length| length as i64).collect();
        Tensor::f_from_data_size(&bytes, &size, kind)
            .and_then(|tensor| tensor.f_to_kind(self.compute.dtype.kind()))
            .and_then(|tensor| tensor.f_to_device(self.compute.torch_device()))
            .map_err(torch("reading weights"))
    }

    /// Refuses tensors that nothing took, except those that `ignore` accepts; gives the digests of those taken.
    pub(crate) fn finish(self, ignore: impl Fn(&str) -> bool) -> Result<Vec<fingerprint::TensorRecord>, Error> {
        let tensors: Vec<String> = self
            .stored
            .into_keys()
            .filter(|name| !self.taken.contains(name) && !ignore(name))
            .take(NAMES_SHOWN)
            .map(|name| format!("`{name}`"))
            .collect();
        if tensors.is_empty() { Ok(self.digests) } else { Err(Error::UnexpectedTensors { path: self.path, tensors }) }
    }
}

fn shape_text(shape: &[usize]) -> String {
    let lengths: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", lengths.join(", "))
}
