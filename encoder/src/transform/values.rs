//! Writes a model with new values of its tensors, after training.

use std::collections::{BTreeMap, BTreeSet};

use safetensors::Dtype;

use super::cast::cast;
use crate::checkpoint::{Checkpoint, Content, SharedTensorRecord, TensorData};
use crate::error::Error;

/// The checkpoint with `values`, by module and tensor (`shared_2_Dense/linear.weight`), in the place of its own, and
/// weights in f32. Each of `values` must have its place; a tied tensor gets the value of any of its modules.
pub(crate) fn with_values(checkpoint: Checkpoint, values: &BTreeMap<String, TensorData>) -> Result<Checkpoint, Error> {
    let mut checkpoint = cast(checkpoint, Dtype::F32)?;
    let ties = checkpoint
        .manifest
        .as_ref()
        .map(|manifest| manifest.shared_tensors.clone())
        .unwrap_or_default();
    let mut used = BTreeSet::new();
    for (placed, files) in checkpoint.layout.modules.iter().zip(&checkpoint.weights) {
        for path in files {
            let Some(Content::Weights(file)) = checkpoint.files.get_mut(path) else {
                continue;
            };
            for (stored, tensor) in &mut file.tensors {
                let name = placed.module.tensor_name(stored);
                let Some((key, value)) = value(values, &ties, &placed.id, &name) else {
                    continue;
                };
                if tensor.dtype() != Dtype::F32 || tensor.shape() != value.shape() {
                    return Err(Error::TensorShape {
                        path: file.path.clone(),
                        tensor: name,
                        expected: format!("{:?}", tensor.shape()),
                        got: format!("{:?}", value.shape()),
                    });
                }
                *tensor = value.clone();
                used.insert(key);
            }
        }
    }
    match values.keys().find(|name| !used.contains(*name)) {
        Some(lost) => Err(Error::MissingTensor {
            path: checkpoint.layout.root,
            tensor: lost.clone(),
        }),
        None => Ok(checkpoint),
    }
}

/// The value of a module's tensor: its own, or that of a module which it shares the tensor with.
fn value<'a>(
    values: &'a BTreeMap<String, TensorData>,
    ties: &[SharedTensorRecord],
    module: &str,
    tensor: &str,
) -> Option<(String, &'a TensorData)> {
    let has = |tie: &&SharedTensorRecord| tie.tensor == tensor && tie.modules.iter().any(|known| known == module);
    let others = ties
        .iter()
        .find(has)
        .map(|tie| tie.modules.as_slice())
        .unwrap_or_default();
    let modules = std::iter::once(module).chain(others.iter().map(String::as_str));
    let mut names = modules.map(|module| format!("{module}/{tensor}"));
    names.find_map(|name| values.get(&name).map(|value| (name, value)))
}
