//! What a transformer's folder holds, without loading it.

use std::collections::BTreeSet;
use std::path::Path;

use super::architecture::Architecture;
use super::weights::WeightsFile;
use crate::device::Compute;
use crate::error::{Error, torch};
use crate::tower::Parameters;

/// A table of token vectors, and how long an input its transformer has positions for.
pub(crate) struct TokenTable {
    pub(crate) rows: usize,
    pub(crate) width: usize,
    /// Row-major.
    pub(crate) values: Vec<f32>,
    pub(crate) max_positions: usize,
}

/// The table of token vectors in f32.
pub(crate) fn token_table(folder: &Path) -> Result<TokenTable, Error> {
    let architecture = Architecture::read(&folder.join("config.json"))?;
    let mut weights = WeightsFile::open(folder, Compute::default(), |name| architecture.tensor_name(name))?;
    let (rows, width) = (architecture.vocab_size(), architecture.table_width());
    let table = weights.take(architecture.token_table(), &[rows, width])?;
    let values = table.f_flatten(0, 1).and_then(|table| Vec::<f32>::try_from(&table));
    let values = values.map_err(torch("reading the token table"))?;
    Ok(TokenTable { rows, width, values, max_positions: architecture.max_positions() })
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
