//! Checks that the tensors of a checkpoint are those of its configuration, and computes their digests.

use rayon::prelude::*;
use safetensors::Dtype;

use super::fingerprint::{ModuleRecords, TensorRecord};
use super::manifest::MANIFEST;
use super::read::{Checkpoint, ModuleTensors};
use super::tensor::TensorData;
use crate::config::{Module, sha256};
use crate::error::Error;

/// Names listed in one error message at most.
const NAMES_SHOWN: usize = 5;

impl Checkpoint {
    /// Refuses a checkpoint that lacks a tensor or has one of another shape or type, one that nothing uses, and tied
    /// tensors that differ. Gives the digests of those that are used, of each module that has some.
    pub(crate) fn records(&self) -> Result<Vec<ModuleRecords>, Error> {
        let mut records = Vec::new();
        for (at, placed) in self.layout.modules.iter().enumerate() {
            if self.weights.get(at).is_none_or(Vec::is_empty) && placed.module.tensors().next().is_none() {
                continue;
            }
            let tensors = self.tensors(at)?;
            let used = used_tensors(&placed.module, &tensors)?;
            let digests: Result<Vec<TensorRecord>, Error> = used
                .into_par_iter()
                .map(|(name, tensor)| digest_tensor(name, tensor))
                .collect();
            records.push((at, digests?));
        }
        self.check_ties(&records)?;
        Ok(records)
    }

    /// Refuses weights that are NaN or infinite.
    pub(crate) fn check_finite(&self) -> Result<(), Error> {
        for (at, placed) in self.layout.modules.iter().enumerate() {
            let tensors = self.tensors(at)?;
            let used: Vec<_> = tensors
                .tensors
                .iter()
                .filter(|(name, _)| !placed.module.may_hold(name))
                .collect();
            let bad = used.into_par_iter().map(|(name, tensor)| {
                let floats = matches!(tensor.dtype(), Dtype::F32 | Dtype::F16 | Dtype::BF16);
                if floats && !tensor.to_floats()?.iter().all(|value| value.is_finite()) {
                    return Err(Error::WeightNotFinite {
                        path: tensors.path.clone(),
                        tensor: name.clone(),
                    });
                }
                Ok(())
            });
            bad.collect::<Result<(), Error>>()?;
        }
        Ok(())
    }

    /// The record of a tensor of the module in this folder.
    fn find_record<'a>(&self, records: &'a [ModuleRecords], module: &str, tensor: &str) -> Option<&'a TensorRecord> {
        let is_module = |at: usize| self.layout.modules.get(at).is_some_and(|placed| placed.id == module);
        let (_, records) = records.iter().find(|(at, _)| is_module(*at))?;
        records.iter().find(|record| record.name == tensor)
    }

    /// Ties name tensors that are there, and that are equal.
    fn check_ties(&self, records: &[ModuleRecords]) -> Result<(), Error> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let path = || self.layout.root.join(MANIFEST);
        for tie in &manifest.shared_tensors {
            let of_module = |module: &String| self.find_record(records, module, &tie.tensor);
            let found: Vec<&TensorRecord> = tie.modules.iter().filter_map(of_module).collect();
            if found.len() != tie.modules.len() {
                return Err(Error::Field {
                    path: path(),
                    field: "shared_tensors",
                    expected: format!("tensor `{}` in each of the modules {:?}", tie.tensor, tie.modules),
                    got: format!("{} of them", found.len()),
                });
            }
            if found.windows(2).any(|pair| pair[0].sha256 != pair[1].sha256) {
                return Err(Error::TiedTensors {
                    path: path(),
                    tensor: tie.tensor.clone(),
                    modules: tie.modules.clone(),
                });
            }
        }
        Ok(())
    }
}

/// The tensors that a module takes, in its order.
fn used_tensors<'a>(module: &Module, tensors: &ModuleTensors<'a>) -> Result<Vec<(String, &'a TensorData)>, Error> {
    let mut used = Vec::new();
    for (name, shape) in module.tensors() {
        let tensor = tensors.get(&name)?;
        check_tensor(tensors, &name, &shape, tensor, module.number_types(&name))?;
        used.push((name, tensor));
    }
    let known: std::collections::BTreeSet<&str> = used.iter().map(|(name, _)| name.as_str()).collect();
    let unexpected: Vec<String> = tensors
        .tensors
        .keys()
        .filter(|name| !known.contains(name.as_str()) && !module.may_hold(name))
        .take(NAMES_SHOWN)
        .map(|name| format!("`{name}`"))
        .collect();
    if unexpected.is_empty() {
        return Ok(used);
    }
    Err(Error::UnexpectedTensors {
        path: tensors.path.clone(),
        tensors: unexpected,
    })
}

fn check_tensor(
    tensors: &ModuleTensors<'_>,
    name: &str,
    shape: &[usize],
    tensor: &TensorData,
    types: &[Dtype],
) -> Result<(), Error> {
    let (path, tensor_name) = (tensors.path.clone(), name.to_owned());
    if !types.contains(&tensor.dtype()) {
        return Err(Error::TensorDtype {
            path,
            tensor: tensor_name,
            got: tensor.dtype().to_string(),
        });
    }
    if tensor.shape() != shape {
        let (expected, got) = (format!("{shape:?}"), format!("{:?}", tensor.shape()));
        return Err(Error::TensorShape {
            path,
            tensor: tensor_name,
            expected,
            got,
        });
    }
    Ok(())
}

fn digest_tensor(name: String, tensor: &TensorData) -> Result<TensorRecord, Error> {
    let (dtype, shape) = (tensor.dtype().to_string(), tensor.shape().to_vec());
    Ok(TensorRecord {
        name,
        dtype,
        shape,
        sha256: sha256(&tensor.bytes()?),
    })
}
