//! A safetensors file once more, its floating-point tensors in another number type: one tensor in memory at a time.

use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use fs_err::File;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use tch::{Kind, TchError, Tensor};

use super::weights::header;
use crate::error::{Error, torch};

/// The header's length is a multiple of this, so that the data are aligned for every number type.
const ALIGNMENT: usize = 8;

/// Writes the tensors of `from` to `to`: numbers of 16, 32 and 64 bits with a fraction become `target`, all others stay;
/// names, shapes and the file's own remarks stay. Gives the bytes of all tensors together.
///
/// A number that `target` has no value for (beyond 65,504 in f16) is refused with the tensor's name.
pub(super) fn rewrite(from: &Path, to: &Path, target: Kind) -> Result<u64, Error> {
    rewrite_with(from, to, target, |_| None)
}

/// The same with the values that `given` has for a name, of the stored tensor's shape, in the place of the stored ones.
pub(super) fn rewrite_with(
    from: &Path,
    to: &Path,
    target: Kind,
    mut given: impl FnMut(&str) -> Option<Tensor>,
) -> Result<u64, Error> {
    let mut source = File::open(from)?;
    let (metadata, data) = header(from, &mut source)?;
    let broken = |reason: String| Error::Weights { path: from.to_owned(), reason };
    let dtype = dtype_of(target).ok_or_else(|| beyond(from, "f32, bf16 and f16", format!("{target:?}")))?;
    let mut tensors: Vec<(String, TensorInfo)> =
        metadata.tensors().into_iter().map(|(name, info)| (name, info.clone())).collect();
    let becomes = |info: &TensorInfo| if kind_of(info.dtype).is_some() { dtype } else { info.dtype };
    // Wide types first, so that all of them are aligned; then by name, so that a file is the same each time.
    tensors.sort_by(|(a, x), (b, y)| becomes(y).bitsize().cmp(&becomes(x).bitsize()).then_with(|| a.cmp(b)));

    let (mut laid_out, mut end) = (Vec::new(), 0);
    for (name, info) in &tensors {
        let (start, stop) = info.data_offsets;
        let bytes = match kind_of(info.dtype) {
            Some(_) => (stop - start) / (info.dtype.bitsize() / 8) * (dtype.bitsize() / 8),
            None => stop - start,
        };
        let data_offsets = (end, end + bytes);
        laid_out.push((name.clone(), TensorInfo { dtype: becomes(info), shape: info.shape.clone(), data_offsets }));
        end += bytes;
    }
    let laid_out =
        Metadata::new(metadata.metadata().clone(), laid_out).map_err(|error| broken(format!("its layout: {error}")))?;
    let mut text = serde_json::to_vec(&laid_out).map_err(|source| Error::Json { path: to.to_owned(), source })?;
    text.resize(text.len().next_multiple_of(ALIGNMENT), b' ');

    let mut output = BufWriter::new(File::create(to)?);
    output.write_all(&(text.len() as u64).to_le_bytes())?;
    output.write_all(&text)?;
    for (name, info) in &tensors {
        let (start, stop) = info.data_offsets;
        if let Some(tensor) = given(name) {
            let shape: Vec<usize> = tensor.size().iter().map(|&length| length as usize).collect();
            if shape != info.shape || kind_of(info.dtype).is_none() {
                return Err(Error::TensorShape {
                    path: from.to_owned(),
                    tensor: name.clone(),
                    expected: format!("{:?}", info.shape),
                    got: format!("{shape:?}"),
                });
            }
            output.write_all(&bytes_of(&tensor, target).map_err(torch("copying weights"))?)?;
            continue;
        }
        let mut bytes = vec![0; stop - start];
        source.seek(SeekFrom::Start(data + start as u64))?;
        source.read_exact(&mut bytes)?;
        if let Some(kind) = kind_of(info.dtype)
            && kind != target
            && !bytes.is_empty()
        {
            let (converted, lost) = convert(&bytes, kind, target).map_err(torch("converting weights"))?;
            if lost {
                let got = format!("{dtype} for tensor `{name}`");
                return Err(beyond(from, "`f32` and `bf16`, where numbers exceed the range of f16", got));
            }
            bytes = converted;
        }
        output.write_all(&bytes)?;
    }
    output.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
    Ok(end as u64)
}

/// The same numbers in `target`, rounded to the nearest, and whether one that was finite is not any more.
fn convert(bytes: &[u8], kind: Kind, target: Kind) -> Result<(Vec<u8>, bool), TchError> {
    let count = bytes.len() / kind.elt_size_in_bytes();
    let before = Tensor::f_from_data_size(bytes, &[count as i64], kind)?;
    let after = before.f_to_kind(target)?;
    let lost = before.f_isfinite()?.f_logical_and(&after.f_isfinite()?.f_logical_not()?)?.f_any()?;
    let mut converted = vec![0; count * target.elt_size_in_bytes()];
    after.f_copy_data_u8(&mut converted, count)?;
    Ok((converted, bool::try_from(lost)?))
}

/// Values as they are stored, in `kind`.
fn bytes_of(tensor: &Tensor, kind: Kind) -> Result<Vec<u8>, TchError> {
    let tensor = tensor.f_detach()?.f_to_device(tch::Device::Cpu)?.f_to_kind(kind)?.f_contiguous()?;
    let mut bytes = vec![0; tensor.numel() * kind.elt_size_in_bytes()];
    tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
    Ok(bytes)
}

/// The stored types that are converted.
fn kind_of(dtype: Dtype) -> Option<Kind> {
    match dtype {
        Dtype::F64 => Some(Kind::Double),
        Dtype::F32 => Some(Kind::Float),
        Dtype::F16 => Some(Kind::Half),
        Dtype::BF16 => Some(Kind::BFloat16),
        _ => None,
    }
}

/// The types that weights are stored in.
fn dtype_of(kind: Kind) -> Option<Dtype> {
    match kind {
        Kind::Float => Some(Dtype::F32),
        Kind::Half => Some(Dtype::F16),
        Kind::BFloat16 => Some(Dtype::BF16),
        _ => None,
    }
}

fn beyond(path: &Path, supported: &'static str, got: String) -> Error {
    Error::Unsupported { path: path.to_owned(), what: "dtype", supported, got }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use safetensors::SafeTensors;
    use safetensors::tensor::TensorView;

    use super::*;

    fn write(path: &Path, tensors: &[(&str, Dtype, Vec<usize>, Vec<u8>)]) {
        let views =
            tensors.iter().map(|(name, dtype, shape, bytes)| (*name, TensorView::new(*dtype, shape.clone(), bytes)));
        let views: Vec<_> = views.map(|(name, view)| (name, view.unwrap())).collect();
        let remarks = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        fs_err::write(path, safetensors::serialize(views, Some(remarks)).unwrap()).unwrap();
    }

    fn stored(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn numbers_are_rounded_to_even_and_all_else_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        // 1 + 2^-8 lies between two bf16 values and goes to the even one, 1 + 3 * 2^-8 up to the next even one.
        let values = [1.0, 1.0 + 2f32.powi(-8), 1.0 + 3.0 * 2f32.powi(-8), -3e38, f32::NAN, 0.0];
        let places: Vec<u8> = (0..3i64).flat_map(i64::to_le_bytes).collect();
        let tensors = [
            ("weight", Dtype::F32, vec![2, 3], stored(&values)),
            ("places", Dtype::I64, vec![3], places.clone()),
            ("empty", Dtype::F32, vec![0, 4], Vec::new()),
            ("odd", Dtype::BOOL, vec![1], vec![1]),
        ];
        write(&from, &tensors);
        assert_eq!(rewrite(&from, &to, Kind::BFloat16).unwrap(), 6 * 2 + 24 + 1);
        let bytes = fs_err::read(&to).unwrap();
        let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
        assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
        let file = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!((file.len(), file.tensor("places").unwrap().data()), (4, places.as_slice()));
        assert_eq!(file.tensor("empty").unwrap().shape(), [0, 4]);
        let weight = file.tensor("weight").unwrap();
        assert_eq!((weight.dtype(), weight.shape()), (Dtype::BF16, &[2, 3][..]));
        let halves: Vec<u16> = weight.data().as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
        let read: Vec<f32> = halves.iter().map(|half| f32::from_bits(u32::from(*half) << 16)).collect();
        assert_eq!(read[..3], [1.0, 1.0, 1.0 + 2f32.powi(-6)]);
        assert!((read[3] / -3e38 - 1.0).abs() < 2f32.powi(-8) && read[4].is_nan() && read[5] == 0.0, "{read:?}");

        // Back in f32 nothing more is lost, and a file in its own type is the same file.
        let (back, again) = (folder.path().join("c"), folder.path().join("d"));
        rewrite(&to, &back, Kind::Float).unwrap();
        rewrite(&back, &again, Kind::Float).unwrap();
        assert_eq!(fs_err::read(&back).unwrap(), fs_err::read(&again).unwrap());
        rewrite(&again, &back, Kind::BFloat16).unwrap();
        assert_eq!(fs_err::read(&back).unwrap(), bytes);
    }

    #[test]
    fn a_number_beyond_f16_is_refused_by_its_tensor() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        write(&from, &[("large.weight", Dtype::F32, vec![2], stored(&[1.0, 70_000.0]))]);
        let message = rewrite(&from, &to, Kind::Half).unwrap_err().to_string();
        assert!(message.contains("`large.weight`") && message.contains("`bf16`"), "{message}");
        assert!(rewrite(&from, &to, Kind::BFloat16).is_ok());
        fs_err::write(&from, b"short").unwrap();
        let message = rewrite(&from, &to, Kind::BFloat16).unwrap_err().to_string();
        assert!(message.contains("not a whole safetensors file"), "{message}");
    }
}
