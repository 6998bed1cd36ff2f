//! Converts the weights of a model to another data type.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use safetensors::Dtype;
use serde_json::{Value, json};

use crate::checkpoint::{Checkpoint, Content, TensorData, WeightFile};
use crate::error::Error;

/// The end of the name of a file that lists the file of each tensor.
const INDEX_NAME: &str = ".safetensors.index.json";

/// The types that are converted, and those that they may become.
const FLOATS: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16];

/// All numbers with a fraction become `dtype` (f32, f16 or bf16), rounded to the nearest; all others stay, and so do
/// names, shapes and the files' own remarks.
///
/// A number that `dtype` has no value for (beyond 65,504 in f16) is refused with its tensor's name when that is read.
pub(crate) fn cast(mut checkpoint: Checkpoint, dtype: Dtype) -> Result<Checkpoint, Error> {
    for (path, content) in &mut checkpoint.files {
        if let Content::Weights(file) = content {
            for (name, tensor) in &mut file.tensors {
                *tensor = converted(&file.path, name, tensor, dtype);
            }
        } else if path.file_name().is_some_and(|name| name == "config.json")
            && let Some(mut config) = content.json()?
            && name_type(&mut config, dtype)
        {
            *content = Content::Json(config);
        }
    }
    recount(&mut checkpoint.files)?;
    Ok(checkpoint)
}

/// A tensor in another type, converted when it is read.
fn converted(path: &Path, name: &str, tensor: &TensorData, dtype: Dtype) -> TensorData {
    if !FLOATS.contains(&tensor.dtype()) || tensor.dtype() == dtype {
        return tensor.clone();
    }
    let (source, path, name) = (tensor.clone(), path.to_owned(), name.to_owned());
    TensorData::computed(dtype, tensor.shape().to_vec(), move || {
        let values = source.to_floats()?;
        let (bytes, lost): (Vec<u8>, bool) = match dtype {
            Dtype::F16 => pairs(
                &values,
                |value| f16::from_f32(value).to_bits(),
                |bits| f16::from_bits(bits).is_finite(),
            ),
            Dtype::BF16 => pairs(
                &values,
                |value| bf16::from_f32(value).to_bits(),
                |bits| bf16::from_bits(bits).is_finite(),
            ),
            _ => (values.iter().flat_map(|value| value.to_le_bytes()).collect(), false),
        };
        if lost || source.exceeds_f32()? {
            return Err(Error::Unsupported {
                path: path.clone(),
                what: "dtype",
                supported: "a type that has the numbers (`f32` and `bf16` reach to 3e38, f16 to 65,504)",
                got: format!("{dtype} for tensor `{name}`"),
            });
        }
        Ok(bytes)
    })
}

/// Numbers of two bytes, and whether one that was finite is not any more.
fn pairs(values: &[f32], to: impl Fn(f32) -> u16, finite: impl Fn(u16) -> bool) -> (Vec<u8>, bool) {
    let bits: Vec<u16> = values.iter().map(|&value| to(value)).collect();
    let lost = values
        .iter()
        .zip(&bits)
        .any(|(value, &bits)| value.is_finite() && !finite(bits));
    (bits.into_iter().flat_map(u16::to_le_bytes).collect(), lost)
}

/// Writes the type of the weights into a `config.json` that says one: transformers loads them in it. False where it
/// says none.
pub(super) fn name_type(config: &mut Value, dtype: Dtype) -> bool {
    let name = match dtype {
        Dtype::F16 => "float16",
        Dtype::BF16 => "bfloat16",
        _ => "float32",
    };
    let mut named = false;
    for field in ["torch_dtype", "dtype"] {
        if let Some(value) = config.get_mut(field).filter(|value| value.is_string()) {
            *value = json!(name);
            named = true;
        }
    }
    named
}

/// Corrects the sizes that the indexes of split weights tell.
fn recount(files: &mut BTreeMap<PathBuf, Content>) -> Result<(), Error> {
    let mut sizes: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for (path, content) in files.iter() {
        if let Content::Weights(file) = content {
            sizes.insert(path.clone(), WeightFile::size(file));
        }
    }
    for (path, content) in files
        .iter_mut()
        .filter(|(path, _)| path.to_string_lossy().ends_with(INDEX_NAME))
    {
        let Some(mut index) = content.json()? else { continue };
        let named = index.get("weight_map").and_then(Value::as_object);
        let parts: BTreeSet<&str> = named
            .into_iter()
            .flatten()
            .filter_map(|(_, file)| file.as_str())
            .collect();
        let total: usize = parts
            .iter()
            .filter_map(|part| sizes.get(&path.with_file_name(part)))
            .sum();
        if let Some(size) = index
            .get_mut("metadata")
            .and_then(|metadata| metadata.get_mut("total_size"))
        {
            *size = json!(total);
            *content = Content::Json(index);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast_one(dtype: Dtype, tensor: &TensorData) -> TensorData {
        converted(Path::new("model.safetensors"), "large.weight", tensor, dtype)
    }

    fn floats(values: &[f32]) -> TensorData {
        let values = values.to_vec();
        TensorData::floats(vec![values.len()], move || Ok(values.clone()))
    }

    #[test]
    fn numbers_are_rounded_to_even_and_all_else_is_kept() {
        // 1 + 2^-8 lies between two bf16 values and goes to the even one, 1 + 3 * 2^-8 up to the next even one.
        let values = floats(&[
            1.0,
            1.0 + 2f32.powi(-8),
            1.0 + 3.0 * 2f32.powi(-8),
            -3e38,
            f32::NAN,
            0.0,
        ]);
        let narrow = cast_one(Dtype::BF16, &values);
        assert_eq!(
            (narrow.dtype(), narrow.shape(), narrow.size()),
            (Dtype::BF16, &[6][..], 12)
        );
        let read = narrow.to_floats().unwrap();
        assert_eq!(read[..3], [1.0, 1.0, 1.0 + 2f32.powi(-6)]);
        assert!(
            (read[3] / -3e38 - 1.0).abs() < 2f32.powi(-8) && read[4].is_nan() && read[5] == 0.0,
            "{read:?}"
        );
        // Back in f32 nothing more is lost.
        let again = cast_one(Dtype::BF16, &cast_one(Dtype::F32, &narrow));
        assert_eq!(again.bytes().unwrap(), narrow.bytes().unwrap());
        let whole = TensorData::computed(Dtype::I64, vec![1], || Ok(vec![7; 8]));
        let kept = cast_one(Dtype::F16, &whole);
        assert_eq!(
            (kept.dtype(), kept.bytes().unwrap()),
            (Dtype::I64, whole.bytes().unwrap())
        );
        let empty = cast_one(Dtype::F16, &TensorData::floats(vec![0, 4], || Ok(Vec::new())));
        assert_eq!((empty.shape(), empty.bytes().unwrap().len()), (&[0, 4][..], 0));
    }

    #[test]
    fn a_number_beyond_f16_is_refused_by_its_tensor() {
        let large = floats(&[1.0, 70_000.0]);
        let message = cast_one(Dtype::F16, &large).bytes().unwrap_err().to_string();
        assert!(
            message.contains("`large.weight`") && message.contains("`bf16`"),
            "{message}"
        );
        assert!(cast_one(Dtype::BF16, &large).bytes().is_ok());
        assert!(
            cast_one(Dtype::F16, &floats(&[f32::INFINITY])).bytes().is_ok(),
            "it was infinite before"
        );
        let wide = |value: f64| TensorData::computed(Dtype::F64, vec![1], move || Ok(value.to_le_bytes().to_vec()));
        for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
            assert!(cast_one(dtype, &wide(1e300)).bytes().is_err(), "{dtype}");
            assert!(cast_one(dtype, &wide(1.5)).bytes().is_ok() && cast_one(dtype, &wide(f64::NAN)).bytes().is_ok());
        }
    }
}
