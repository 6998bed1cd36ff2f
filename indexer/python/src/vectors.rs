//! Arrays of vectors: float32 in rows one after another are read where they lie, all others are converted by NumPy.

use dyad_corpus::PassageContext;
use dyad_index::ModelRecord;
use dyad_indexer::source::RowSource;
use numpy::{PyArray2, PyArrayMethods as _, PyReadonlyArray2, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::problem::refused;

/// Vectors that were given, as rows; a single vector is one row.
#[derive(Debug)]
pub(crate) struct PythonVectors<'py> {
    array: PyReadonlyArray2<'py, f32>,
    /// Whether one vector was given, and not rows of them.
    pub(crate) is_one: bool,
    /// How many there are.
    pub(crate) count: usize,
    /// Values of each.
    pub(crate) dim: usize,
}

impl<'py> PythonVectors<'py> {
    /// Takes an array of rows, or one vector. `field` names it in errors.
    pub(crate) fn new(field: &str, given: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = given.py();
        let options = PyDict::new(py);
        options.set_item("dtype", "float32")?;
        // The same array where it is what is wanted.
        let array = py
            .import("numpy")?
            .call_method("ascontiguousarray", (given,), Some(&options))?;
        let dimensions: usize = array.getattr("ndim")?.extract()?;
        let is_one = given
            .getattr("ndim")
            .and_then(|ndim| ndim.extract())
            .unwrap_or(dimensions)
            == 1;
        let rows = match dimensions {
            1 => array.call_method1("reshape", (1, -1))?,
            2 => array,
            _ => {
                let shape = array.getattr("shape")?;
                return Err(refused(field, "rows of numbers, or one row", format!("shape {shape}")));
            }
        };
        let array: PyReadonlyArray2<'py, f32> = rows.cast::<PyArray2<f32>>()?.try_readonly()?;
        let [count, dim] = *array.shape() else {
            return Err(refused(field, "rows of numbers", "another shape"));
        };
        Ok(Self {
            array,
            is_one,
            count,
            dim,
        })
    }

    /// All values, one row after another.
    pub(crate) fn values(&self) -> PyResult<&[f32]> {
        Ok(self.array.as_slice()?)
    }

    /// Refuses vectors of another dimension, and values that are not finite.
    pub(crate) fn check(&self, field: &str, dim: usize) -> PyResult<()> {
        if self.dim != dim {
            return Err(refused(
                field,
                &format!("vectors of {dim} values, as those of the index"),
                self.dim,
            ));
        }
        if let Some(at) = self.values()?.iter().position(|value| !value.is_finite()) {
            let got = self.values()?.get(at).copied().unwrap_or_default();
            return Err(refused(
                field,
                "finite numbers",
                format!("{got} in row {}", at / dim.max(1)),
            ));
        }
        Ok(())
    }
}

/// The rows of a matrix, each copied when it is asked for, as vectors of a model, whose dimension is not 0.
pub(crate) fn row_source(model: ModelRecord, values: &[f32]) -> RowSource<impl ExactSizeIterator<Item = Vec<f32>>> {
    let rows = values.chunks_exact(model.dim.max(1)).map(<[f32]>::to_vec);
    RowSource::new(model, PassageContext::default(), rows)
}
