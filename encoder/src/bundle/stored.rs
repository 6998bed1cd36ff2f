//! What a transformer's folder holds, without loading it.

use std::collections::BTreeSet;
use std::path::Path;

use super::architecture::Architecture;
use super::weights::WeightsFile;
use crate::device::Compute;
use crate::error::Error;

/// Values of a token vector.
pub(crate) fn hidden_size(folder: &Path) -> Result<usize, Error> {
    Ok(Architecture::read(&folder.join("config.json"))?.hidden_size())
}

/// The name of the table of token vectors, and the names of all other tensors that the transformer uses.
pub(crate) fn tensors_used(folder: &Path) -> Result<(String, BTreeSet<String>), Error> {
    let architecture = Architecture::read(&folder.join("config.json"))?;
    let weights = WeightsFile::open(folder, Compute::default(), |name| architecture.tensor_name(name))?;
    let table = architecture.token_table();
    let others = weights.names().filter(|name| *name != table && !Architecture::is_unused(name));
    Ok((table.to_owned(), others.map(ToOwned::to_owned).collect()))
}
