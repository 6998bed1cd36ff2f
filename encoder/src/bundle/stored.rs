//! What a transformer's folder holds, without loading it.

use std::collections::BTreeSet;
use std::path::Path;

use super::architecture::Architecture;
use super::weights::WeightsFile;
use crate::device::Compute;
use crate::error::{Error, torch};
use crate::tower::Parameters;

/// Sizes of a table of token vectors, and how long an input its transformer has positions for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenTable {
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) max_positions: usize,
}

/// The sizes by `config.json`.
pub(crate) fn token_table(folder: &Path) -> Result<TokenTable, Error> {
    let architecture = Architecture::read(&folder.join("config.json"))?;
    let (rows, width) = (architecture.vocab_size(), architecture.table_width());
    Ok(TokenTable { rows, width, max_positions: architecture.max_positions() })
}

/// The table of token vectors in f32, row-major.
pub(crate) fn token_vectors(folder: &Path) -> Result<Vec<f32>, Error> {
    let architecture = Architecture::read(&folder.join("config.json"))?;
    let mut weights = WeightsFile::open(folder, Compute::default(), |name| architecture.tensor_name(name))?;
    let table = weights.take(architecture.token_table(), &[architecture.vocab_size(), architecture.table_width()])?;
    let values = table.f_flatten(0, 1).and_then(|table| Vec::<f32>::try_from(&table));
    values.map_err(torch("reading the token table"))
}

/// Values of a token vector.
pub(crate) fn hidden_size(folder: &Path) -> Result<usize, Error> {
    Ok(Architecture::read(&folder.join("config.json"))?.hidden_size())
}

/// Values after a projection in the transformer's own file.
pub(crate) fn projection(folder: &Path) -> Result<Option<usize>, Error> {
    Ok(Architecture::read(&folder.join("config.json"))?.projection())
}

/// The name of the table of token vectors, and the names of all other tensors that the transformer uses.
pub(crate) fn tensors_used(folder: &Path) -> Result<(String, BTreeSet<String>), Error> {
    let architecture = Architecture::read(&folder.join("config.json"))?;
    let weights = WeightsFile::open(folder, Compute::default(), |name| architecture.tensor_name(name))?;
    let table = architecture.token_table();
    let others = weights.names().filter(|name| *name != table && !Architecture::is_unused(name));
    Ok((table.to_owned(), others.map(ToOwned::to_owned).collect()))
}
