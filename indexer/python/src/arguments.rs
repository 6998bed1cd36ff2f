//! Arguments of Python's methods.

use std::num::NonZero;

use dyad_index::Metric;
use dyad_index::format::RowType;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::filters::key_of;
use crate::problem::refused;

/// As many threads as there are cores, for 0.
pub(crate) fn threads_of(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    }
}

/// A metric by its name.
pub(crate) fn metric_of(name: &str) -> PyResult<Metric> {
    [Metric::Cosine, Metric::Dot, Metric::L2]
        .into_iter()
        .find(|metric| metric.to_string() == name)
        .ok_or_else(|| refused("metric", "`cosine`, `dot` or `l2`", format!("`{name}`")))
}

/// A type of stored rows by NumPy's name.
pub(crate) fn row_type_of(name: &str) -> PyResult<RowType> {
    match name {
        "float32" => Ok(RowType::F32),
        "float16" => Ok(RowType::F16),
        "int8" => Ok(RowType::Int8),
        other => Err(refused("dtype", "`float32`, `float16` or `int8`", format!("`{other}`"))),
    }
}

/// A list of texts, or nothing.
pub(crate) fn texts_of(field: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<String>>> {
    let Some(given) = given else { return Ok(None) };
    if given.is_instance_of::<PyString>() {
        return Err(refused(field, "a list of texts", "a text"));
    }
    let mut all = Vec::new();
    for (number, one) in given.try_iter()?.enumerate() {
        all.push(key_of(&format!("{field}[{number}]"), &one?)?);
    }
    Ok(Some(all))
}

/// The JSON of each of many dicts, or of None.
pub(crate) fn json_of(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<Option<String>>>> {
    let Some(given) = given else { return Ok(None) };
    let dumps = given.py().import("json")?.getattr("dumps")?;
    let mut all = Vec::new();
    for one in given.try_iter()? {
        let one = one?;
        all.push(if one.is_none() {
            None
        } else {
            Some(dumps.call1((one,))?.extract()?)
        });
    }
    Ok(Some(all))
}
