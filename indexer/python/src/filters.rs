//! What a search may find: the documents of some keys, those of a mask, or those that match conditions.

use dyad_filter::{document_filter, message_json};
use dyad_index::Never;
use dyad_index::Snapshot;
use dyad_index::lexical::DocumentFilter;
use dyad_index::search::NodeSet;
use dyad_proto::{v1, validate};
use numpy::{PyArray1, PyArrayMethods as _};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::problem::{of_index, refused};

const EXPECTED: &str = "keys, an array of booleans with one for each number of a document, or a dict of conditions";

/// What a filter asks for.
pub(crate) enum GivenFilter {
    Conditions(DocumentFilter),
    Keys(Vec<String>),
    /// The documents whose keys are the numbers of those that are true.
    Mask(Vec<bool>),
}

impl GivenFilter {
    /// Reads a filter: a dict or a text of conditions, an array of booleans, or keys.
    pub(crate) fn new(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        if given.is_instance_of::<PyDict>() || given.is_instance_of::<PyString>() {
            return conditions(given).map(Self::Conditions);
        }
        if let Ok(mask) = given.cast::<PyArray1<bool>>() {
            return Ok(Self::Mask(mask.to_vec()?));
        }
        let mut keys = Vec::new();
        for (number, key) in given
            .try_iter()
            .map_err(|_| PyTypeError::new_err(format!("`filter`: expected {EXPECTED}")))?
            .enumerate()
        {
            keys.push(key_of(&format!("filter[{number}]"), &key?)?);
        }
        Ok(Self::Keys(keys))
    }

    /// The nodes that it allows, for each shard.
    pub(crate) fn allowed(&self, snapshot: &Snapshot) -> PyResult<Vec<NodeSet>> {
        match self {
            Self::Conditions(filter) => {
                let allowed = snapshot.allowed(filter, &Never).map_err(of_index)?;
                Ok(allowed.unwrap_or_default())
            }
            Self::Keys(keys) => of_keys(snapshot, keys.iter().map(String::as_str)),
            Self::Mask(mask) => of_mask(snapshot, mask),
        }
    }
}

/// A key: a text, or a whole number.
pub(crate) fn key_of(field: &str, given: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = given.extract::<String>() {
        return Ok(text);
    }
    let number: i64 = given
        .extract()
        .map_err(|_| PyTypeError::new_err(format!("`{field}`: expected a text or a whole number")))?;
    Ok(number.to_string())
}

/// Conditions, in the forms of the searcher's requests.
fn conditions(given: &Bound<'_, PyAny>) -> PyResult<DocumentFilter> {
    let py = given.py();
    let text: String = py.import("json")?.call_method1("dumps", (given,))?.extract()?;
    let problem = |problem: String| PyValueError::new_err(problem.replace("invalid request: ", ""));
    let json = message_json().map_err(|error| problem(error.to_string()))?;
    let request: v1::CountDocumentsRequest = json
        .read(format!("{{\"filter\": {text}}}").as_bytes())
        .map_err(|error| problem(error.to_string()))?;
    validate::count_documents_request(&request).map_err(|violations| problem(violations.to_string()))?;
    request
        .filter
        .as_ref()
        .map(document_filter)
        .ok_or_else(|| refused("filter", "at least one condition", "none"))
}

fn none_allowed(snapshot: &Snapshot) -> Vec<NodeSet> {
    let shards = snapshot.shards().iter();
    shards.map(|shard| NodeSet::new(shard.dense.len())).collect()
}

/// The nodes of these keys; those that no document has allow nothing.
fn of_keys<'a>(snapshot: &Snapshot, keys: impl Iterator<Item = &'a str>) -> PyResult<Vec<NodeSet>> {
    let mut allowed = none_allowed(snapshot);
    for key in keys {
        if let Some((shard, node)) = snapshot.find(key).map_err(of_index)?
            && let Some(nodes) = allowed.get_mut(shard)
        {
            nodes.insert(node);
        }
    }
    Ok(allowed)
}

/// The nodes whose keys are numbers that the mask has as true.
fn of_mask(snapshot: &Snapshot, mask: &[bool]) -> PyResult<Vec<NodeSet>> {
    let mut allowed = none_allowed(snapshot);
    for (at, (shard, nodes)) in snapshot.shards().iter().zip(&mut allowed).enumerate() {
        for node in 0..shard.dense.len() as u32 {
            let key = snapshot.key(at, node).unwrap_or_default();
            let number: usize = key.parse().map_err(|_| {
                refused(
                    "filter",
                    "keys, since those of this index are texts",
                    "an array of booleans",
                )
            })?;
            if !shard.is_live(node) {
                continue;
            }
            match mask.get(number) {
                Some(true) => drop(nodes.insert(node)),
                Some(false) => {}
                None => {
                    let expected = format!("a boolean for each number, {} or more", number + 1);
                    return Err(refused("filter", &expected, mask.len()));
                }
            }
        }
    }
    Ok(allowed)
}
