//! One tensor of a checkpoint: number type, shape, and bytes that are read or computed when they are asked for.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err::File;
use memmap2::{Advice, Mmap, MmapOptions};
use safetensors::Dtype;

use crate::error::Error;

/// A safetensors file in memory, read where it is looked at.
#[derive(Debug)]
pub(crate) struct MappedFile {
    path: PathBuf,
    map: Mmap,
}

impl MappedFile {
    #[expect(unsafe_code, reason = "maps a file")]
    pub(super) fn open(path: &Path, file: &File) -> Result<Self, Error> {
        // SAFETY: the map is private and only read; any bytes are valid numbers. A file that is changed in place
        // meanwhile may be digested before the change and copied after it, and one that is cut short ends the program
        // (SIGBUS): we write models to a directory of their own and rename it; with others' tools, do not write over a
        // model that is being opened.
        let map = unsafe { MmapOptions::new().map_copy_read_only(file.file()) };
        let map = map.map_err(|error| {
            let reason = format!("mapping `{}`: {error}. Copy the model to a local disk", path.display());
            std::io::Error::new(error.kind(), reason)
        })?;
        // The system reads ahead while the first tensors are taken: a hint, and as good as none where it is not heard.
        let _ = map.advise(Advice::WillNeed);
        Ok(Self {
            path: path.to_owned(),
            map,
        })
    }

    fn bytes(&self, range: &Range<usize>) -> Result<&[u8], Error> {
        self.map.get(range.clone()).ok_or_else(|| Error::Weights {
            path: self.path.clone(),
            reason: format!("a tensor should end at byte {}, it has {}", range.end, self.map.len()),
        })
    }
}

/// Computes the bytes of a tensor.
type ComputeTensor = dyn Fn() -> Result<Vec<u8>, Error> + Send + Sync;

/// Source of the bytes of a tensor.
#[derive(Clone)]
enum TensorBytes {
    Mapped(Arc<MappedFile>, Range<usize>),
    Computed(Arc<ComputeTensor>),
}

/// A tensor: row-major numbers of one type, little-endian.
#[derive(Clone)]
pub(crate) struct TensorData {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: TensorBytes,
}

impl TensorData {
    pub(super) fn mapped(dtype: Dtype, shape: Vec<usize>, file: &Arc<MappedFile>, range: Range<usize>) -> Self {
        Self {
            dtype,
            shape,
            bytes: TensorBytes::Mapped(Arc::clone(file), range),
        }
    }

    /// The result of `compute`, computed at each use.
    pub(crate) fn computed(
        dtype: Dtype,
        shape: Vec<usize>,
        compute: impl Fn() -> Result<Vec<u8>, Error> + Send + Sync + 'static,
    ) -> Self {
        Self {
            dtype,
            shape,
            bytes: TensorBytes::Computed(Arc::new(compute)),
        }
    }

    /// Numbers in f32 that `compute` gives.
    pub(crate) fn floats(
        shape: Vec<usize>,
        compute: impl Fn() -> Result<Vec<f32>, Error> + Send + Sync + 'static,
    ) -> Self {
        let bytes = move || Ok(compute()?.iter().flat_map(|value| value.to_le_bytes()).collect());
        Self::computed(Dtype::F32, shape, bytes)
    }

    pub(crate) fn dtype(&self) -> Dtype {
        self.dtype
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Numbers; shapes of files and configurations do not overflow.
    pub(crate) fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// How many bytes there are.
    pub(crate) fn size(&self) -> usize {
        match &self.bytes {
            TensorBytes::Mapped(_, range) => range.len(),
            TensorBytes::Computed(_) => self.count() * (self.dtype.bitsize() / 8),
        }
    }

    /// The bytes, read or computed now.
    pub(crate) fn bytes(&self) -> Result<Cow<'_, [u8]>, Error> {
        match &self.bytes {
            TensorBytes::Mapped(file, range) => file.bytes(range).map(Cow::Borrowed),
            TensorBytes::Computed(compute) => compute().map(Cow::Owned),
        }
    }

    /// The numbers of one that is f32, f16 or bf16, as f32.
    pub(crate) fn to_floats(&self) -> Result<Vec<f32>, Error> {
        let bytes = self.bytes()?;
        let pair = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
        Ok(match self.dtype {
            Dtype::F16 => bytes
                .chunks_exact(2)
                .map(|two| half::f16::from_bits(pair(two)).to_f32())
                .collect(),
            Dtype::BF16 => bytes
                .chunks_exact(2)
                .map(|two| half::bf16::from_bits(pair(two)).to_f32())
                .collect(),
            Dtype::F64 => {
                let wide = |eight: &[u8]| eight.try_into().map_or(f64::NAN, f64::from_le_bytes);
                bytes.chunks_exact(8).map(|eight| wide(eight) as f32).collect()
            }
            _ => bytes
                .chunks_exact(4)
                .map(|four| four.try_into().map_or(f32::NAN, f32::from_le_bytes))
                .collect(),
        })
    }
}

impl TensorData {
    /// Whether a finite value of it is not finite in f32.
    pub(crate) fn exceeds_f32(&self) -> Result<bool, Error> {
        let wide = |eight: &[u8; 8]| f64::from_le_bytes(*eight);
        let beyond = |value: f64| value.is_finite() && !(value as f32).is_finite();
        Ok(self.dtype == Dtype::F64 && self.bytes()?.as_chunks::<8>().0.iter().map(wide).any(beyond))
    }
}

impl fmt::Debug for TensorData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorData")
            .field("dtype", &self.dtype)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
