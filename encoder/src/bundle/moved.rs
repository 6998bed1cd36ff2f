//! A transformer's tensors into another folder: by the architecture's names, of one folder or of two, a DPR encoder as the BERT
//! that it is, and its projection as a `Dense` module.

use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError};
use serde_json::json;

use super::architecture::Architecture;
use super::json::read_value;
use super::weights::WeightsFile;
use crate::device::Compute;
use crate::error::Error;

/// DPR's projection in a transformer's own file.
const PROJECTION: &str = "encode_proj.";

/// Name, number type, shape and bytes where they lie.
type Raw<'a> = (String, Dtype, &'a [usize], &'a [u8]);

/// Whether a folder holds DPR's form of BERT, which sentence-transformers does not run.
pub(crate) fn is_dpr(folder: &Path) -> Result<bool, Error> {
    Ok(
        matches!(Architecture::read(&folder.join("config.json"))?, Architecture::Bert(config) if config.model_type == "dpr"),
    )
}

/// Writes `config.json` and weights of the transformer in `from` to `to`, with the token table of the one in `table`, which
/// must be of the same sizes.
pub(crate) fn transformer(from: &Path, table: &Path, to: &Path) -> Result<(), Error> {
    let path = from.join("config.json");
    let [architecture, other] = [&path, &table.join("config.json")].map(|path| Architecture::read(path));
    let (architecture, other) = (architecture?, other?);
    if architecture != other {
        return Err(Error::Unsupported {
            path: table.join("config.json"),
            what: "a tensor that two towers share",
            supported: "towers of one architecture and the same sizes",
            got: format!("another `config.json` than `{}`", path.display()),
        });
    }
    let open = |folder: &Path| WeightsFile::open(folder, Compute::default(), |name| architecture.tensor_name(name));
    let (weights, tables) = (open(from)?, open(table)?);
    let used = |name: &&str| !Architecture::is_unused(name) && !name.starts_with(PROJECTION);
    let names: Vec<String> = weights.names().filter(used).map(ToOwned::to_owned).collect();
    let tensors = names.into_iter().map(|name| {
        let source = if name == architecture.token_table() { &tables } else { &weights };
        let (dtype, shape, bytes) = source.raw(&name)?;
        Ok((name, dtype, shape, bytes))
    });
    write(to, &tensors.collect::<Result<Vec<Raw<'_>>, Error>>()?)?;
    config(from, to)
}

/// Writes the `config.json` in `from` to `to`, a DPR encoder's as the BERT that it is.
pub(crate) fn config(from: &Path, to: &Path) -> Result<(), Error> {
    let path = from.join("config.json");
    let mut config = read_value(&path)?.unwrap_or_default();
    if let Some(fields) = config.as_object_mut().filter(|fields| fields.get("model_type") == Some(&json!("dpr"))) {
        fields.insert("model_type".to_owned(), json!("bert"));
        fields.insert("architectures".to_owned(), json!(["BertModel"]));
        fields.shift_remove("projection_dim");
    }
    Ok(fs_err::write(to.join("config.json"), format!("{config:#}\n"))?)
}

/// Writes DPR's projection of the transformer in `from` as the weights of a `Dense` module.
pub(crate) fn projection(from: &Path, to: &Path) -> Result<(), Error> {
    let architecture = Architecture::read(&from.join("config.json"))?;
    let weights = WeightsFile::open(from, Compute::default(), |name| architecture.tensor_name(name))?;
    let tensors = ["weight", "bias"].map(|part| {
        let (dtype, shape, bytes) = weights.raw(&format!("{PROJECTION}{part}"))?;
        Ok((format!("linear.{part}"), dtype, shape, bytes))
    });
    write(to, &tensors.into_iter().collect::<Result<Vec<Raw<'_>>, Error>>()?)
}

fn write(folder: &Path, tensors: &[Raw<'_>]) -> Result<(), Error> {
    let path = folder.join("model.safetensors");
    let failed = |error: SafeTensorError| Error::Weights { path: path.clone(), reason: error.to_string() };
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        Ok((name.as_str(), TensorView::new(*dtype, shape.to_vec(), bytes).map_err(failed)?))
    });
    let views = views.collect::<Result<Vec<_>, Error>>()?;
    safetensors::serialize_to_file(views, None, &path).map_err(failed)
}
