//! Tensors out of safetensors files, one or several: mapped, checked, each one digested for the fingerprint.
//!
//! The map is the page cache's memory: a tensor is copied from it to where the network has it, and the map goes when all are taken.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use fs_err::File;
use memmap2::{Advice, Mmap, MmapOptions};
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tch::{Kind, Tensor};

use super::fingerprint::{self, Hex};
use super::json::JsonFile;
use crate::device::Compute;
use crate::error::{Error, torch};
use crate::tower::Parameters;

/// Names listed in one error message at most.
const NAMES_SHOWN: usize = 5;

/// The weights of a module.
pub(super) const WEIGHTS: &str = "model.safetensors";
/// Where large ones are split: which tensor lies in which file.
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// Bytes of a header at most, as the format's own reader has it.
const LONGEST_HEADER: u64 = 100_000_000;

/// The first field of a safetensors file: the header's length as a little-endian `u64`.
const LENGTH_BYTES: u64 = 8;

#[derive(Debug, Clone)]
struct Stored {
    /// Which of the files.
    file: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    /// From the beginning of the file; within it, as [`header`] has checked.
    start: usize,
    bytes: usize,
}

/// The weights of one folder, which hand out each of their tensors once.
#[derive(Debug)]
pub(crate) struct WeightsFile {
    /// The file, or the index of several.
    path: PathBuf,
    files: Vec<(PathBuf, Mmap)>,
    stored: BTreeMap<String, Stored>,
    taken: BTreeSet<String>,
    digests: Vec<fingerprint::TensorRecord>,
    compute: Compute,
}

impl WeightsFile {
    /// Opens `model.safetensors` of a folder, or the files that `model.safetensors.index.json` names.
    ///
    /// `rename` maps a stored name to the name that the architecture uses.
    pub(crate) fn open(folder: &Path, compute: Compute, rename: impl Fn(&str) -> String) -> Result<Self, Error> {
        let path = folder.join(WEIGHTS);
        let index = folder.join(INDEX);
        let mut weights = Self {
            path: path.clone(),
            files: Vec::new(),
            stored: BTreeMap::new(),
            taken: BTreeSet::new(),
            digests: Vec::new(),
            compute,
        };
        if path.is_file() {
            weights.add(&path, &rename)?;
        } else if index.is_file() {
            for shard in shards(&index)? {
                weights.add(&folder.join(shard), &rename)?;
            }
            weights.path = index;
        } else {
            let fix = if folder.join("pytorch_model.bin").is_file() {
                "Only `pytorch_model.bin` is there: load the model in Python and save it with `safe_serialization=True`"
            } else {
                "Fetch the model again, for example with `deploy/model.sh NAME DIR`"
            };
            return Err(Error::MissingFile { path, fix });
        }
        Ok(weights)
    }

    /// Notes what one file holds.
    fn add(&mut self, path: &Path, rename: &impl Fn(&str) -> String) -> Result<(), Error> {
        let mut file = File::open(path)?;
        let (metadata, data) = header(path, &mut file)?;
        let broken = |reason: String| Error::Weights { path: path.to_owned(), reason };
        let number = self.files.len();
        self.files.push((path.to_owned(), mapped(path, &file)?));
        for name in metadata.offset_keys() {
            let Some(info) = metadata.info(&name) else { continue };
            let (start, end) = info.data_offsets;
            let tensor = Stored {
                file: number,
                dtype: info.dtype,
                shape: info.shape.clone(),
                start: usize::try_from(data).unwrap_or(usize::MAX).saturating_add(start),
                bytes: end - start,
            };
            let renamed = rename(&name);
            // A table under both of its names is one table.
            if let Some(known) = self.stored.get(&renamed).cloned()
                && (known.dtype != tensor.dtype
                    || known.shape != tensor.shape
                    || self.bytes(&known)? != self.bytes(&tensor)?)
            {
                return Err(broken(format!("it holds tensor `{name}` under two names, and they differ")));
            }
            self.stored.insert(renamed, tensor);
        }
        Ok(())
    }

    /// A tensor where it lies.
    fn bytes(&self, stored: &Stored) -> Result<&[u8], Error> {
        let end = stored.start.saturating_add(stored.bytes);
        let (path, map) = self.files.get(stored.file).map_or((&self.path, &[][..]), |(path, map)| (path, &map[..]));
        map.get(stored.start..end).ok_or_else(|| Error::Weights {
            path: path.clone(),
            reason: format!("a tensor should end at byte {end}, it has {}", map.len()),
        })
    }

    /// Has the system read all of it while the first tensors are taken.
    pub(crate) fn read_ahead(&self) {
        for (_, map) in &self.files {
            // A hint, and as good as none where the system does not take it.
            let _ = map.advise(Advice::WillNeed);
        }
    }

    /// The names of all tensors, as the architecture has them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.stored.keys().map(String::as_str)
    }

    /// One tensor as it is stored.
    pub(super) fn raw(&self, name: &str) -> Result<(Dtype, &[usize], &[u8]), Error> {
        let Some(stored) = self.stored.get(name) else {
            return Err(Error::MissingTensor { path: self.path.clone(), tensor: name.to_owned() });
        };
        Ok((stored.dtype, &stored.shape, self.bytes(stored)?))
    }

    /// Refuses tensors with NaN or infinity among those that `used` accepts.
    pub(super) fn finite(self, used: impl Fn(&str) -> bool) -> Result<(), Error> {
        let names: Vec<String> = self.names().filter(|name| used(name)).map(ToOwned::to_owned).collect();
        for tensor in names {
            let (dtype, shape, bytes) = self.raw(&tensor)?;
            let kind = match dtype {
                Dtype::F32 => Kind::Float,
                Dtype::F16 => Kind::Half,
                Dtype::BF16 => Kind::BFloat16,
                _ => continue,
            };
            let values = [shape.iter().product::<usize>() as i64];
            let finite = Tensor::f_from_data_size(bytes, &values, kind)
                .and_then(|values| values.f_isfinite()?.f_all())
                .and_then(bool::try_from)
                .map_err(torch("looking for weights that are no numbers"))?;
            if !finite {
                return Err(Error::WeightNotFinite { path: self.path, tensor });
            }
        }
        Ok(())
    }

    /// The digest of the tensor that was taken last.
    pub(super) fn last_digest(&self) -> Option<&str> {
        self.digests.last().map(|record| record.sha256.as_str())
    }

    /// Reads one tensor of exactly this shape onto the device, in the dtype that the model runs in.
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
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
        let bytes = self.bytes(&stored)?;
        let record = fingerprint::TensorRecord {
            name: name.to_owned(),
            dtype: stored.dtype.to_string(),
            shape: shape.to_vec(),
            sha256: Hex(Sha256::digest(bytes).into()).to_string(),
        };
        let size: Vec<i64> = shape.iter().map(|&length| length as i64).collect();
        let tensor = Tensor::f_from_data_size(bytes, &size, kind)
            .and_then(|tensor| tensor.f_to_kind(self.compute.dtype.kind()))
            .and_then(|tensor| tensor.f_to_device(self.compute.torch_device()))
            .map_err(torch("reading weights"))?;
        self.digests.push(record);
        self.taken.insert(name.to_owned());
        Ok(tensor)
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

impl Parameters for WeightsFile {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
        self.tensor(name, shape)
    }

    fn int8(&self) -> bool {
        self.compute.dtype == crate::device::Dtype::Int8
    }
}

/// A file in memory, read where it is looked at.
#[expect(unsafe_code, reason = "maps a file")]
fn mapped(path: &Path, file: &File) -> Result<Mmap, Error> {
    // SAFETY: the map is private and only read, for as long as a model is opened; any bytes are sound numbers. A file that is changed
    // in place meanwhile may be digested before the change and copied behind it, and one that is cut short ends the program (SIGBUS):
    // we write models to a directory of their own and rename it; with others' tools, do not write over a model that is being opened.
    let map = unsafe { MmapOptions::new().map_copy_read_only(file.file()) };
    map.map_err(|error| {
        let reason = format!("mapping `{}`: {error}. Copy the model to a local disk", path.display());
        std::io::Error::new(error.kind(), reason).into()
    })
}

/// The header of a safetensors file and where its data begin; the file is as long as the header says.
pub(super) fn header(path: &Path, file: &mut File) -> Result<(Metadata, u64), Error> {
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
    if header_bytes > LONGEST_HEADER {
        return Err(broken(format!("its header should have {header_bytes} bytes, and none has over {LONGEST_HEADER}")));
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
    Ok((metadata, data))
}

/// The files that an index names, each once, none outside of the folder.
pub(super) fn shards(index: &Path) -> Result<BTreeSet<String>, Error> {
    let settings = JsonFile::open(index, "Fetch the whole model directory again")?;
    let wrong = || settings.wrong("weight_map", "an object from tensors to files of the same folder");
    let map = settings.get("weight_map").and_then(Value::as_object).ok_or_else(wrong)?;
    let plain = |name: &str| Path::new(name).file_name().is_some_and(|file| file == name);
    map.values().map(|file| file.as_str().filter(|name| plain(name)).map(ToOwned::to_owned).ok_or_else(wrong)).collect()
}

fn shape_text(shape: &[usize]) -> String {
    let lengths: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", lengths.join(", "))
}
