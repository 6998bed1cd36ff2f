//! Arrays of vectors: float32 in rows one after another are read where they lie, all others are converted by NumPy.

use dyad_corpus::PassageContext;
use dyad_index::ModelRecord;
use dyad_indexer::source::RowSource;
use numpy::{PyArray1, PyArray2, PyArrayMethods as _, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods as _};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::problem::refused;

/// The numbers of an array, whose rows follow one another.
#[derive(Debug)]
enum ArrayValues<'py> {
    One(PyReadonlyArray1<'py, f32>),
    Rows(PyReadonlyArray2<'py, f32>),
}

/// Vectors that were given, as rows; a single vector is one row.
#[derive(Debug)]
pub(crate) struct PythonVectors<'py> {
    array: ArrayValues<'py>,
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
        if let Some(as_it_is) = Self::as_it_is(given)? {
            return Ok(as_it_is);
        }
        let py = given.py();
        let options = PyDict::new(py);
        options.set_item("dtype", "float32")?;
        let array = py
            .import("numpy")?
            .call_method("ascontiguousarray", (given,), Some(&options))?;
        // NumPy makes one dimension of none.
        let is_number = given
            .getattr("ndim")
            .and_then(|ndim| ndim.extract())
            .is_ok_and(|ndim: usize| ndim == 0);
        match Self::as_it_is(&array)? {
            Some(rows) if !is_number => Ok(rows),
            _ => {
                let shape = given.getattr("shape").or_else(|_| array.getattr("shape"))?;
                Err(refused(field, "rows of numbers, or one row", format!("shape {shape}")))
            }
        }
    }

    /// Reads an array of float32 where it lies; none where it is another one, or its rows do not follow one another.
    fn as_it_is(given: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(one) = given.cast::<PyArray1<f32>>() {
            if !one.is_c_contiguous() {
                return Ok(None);
            }
            let array = one.try_readonly()?;
            let dim = array.len();
            return Ok(Some(Self {
                array: ArrayValues::One(array),
                is_one: true,
                count: 1,
                dim,
            }));
        }
        let Ok(rows) = given.cast::<PyArray2<f32>>() else {
            return Ok(None);
        };
        if !rows.is_c_contiguous() {
            return Ok(None);
        }
        let array = rows.try_readonly()?;
        let [count, dim] = *array.shape() else {
            return Ok(None);
        };
        Ok(Some(Self {
            array: ArrayValues::Rows(array),
            is_one: false,
            count,
            dim,
        }))
    }

    /// All values, one row after another.
    pub(crate) fn values(&self) -> PyResult<&[f32]> {
        Ok(match &self.array {
            ArrayValues::One(array) => array.as_slice()?,
            ArrayValues::Rows(array) => array.as_slice()?,
        })
    }

    /// Refuses vectors of other dimensions than the model's, and values that are not finite.
    pub(crate) fn check(&self, field: &str, model: &ModelRecord) -> PyResult<()> {
        if !model.takes(self.dim) {
            let expected = format!("vectors of {} values, as those of the index", model.lengths());
            return Err(refused(field, &expected, self.dim));
        }
        self.check_finite(field)
    }

    /// Refuses values that are not finite.
    pub(crate) fn check_finite(&self, field: &str) -> PyResult<()> {
        let dim = self.dim;
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

/// The rows of a matrix, each copied when it is asked for, as vectors of a model that has as many values, or whose own
/// vectors have.
pub(crate) fn row_source(
    model: ModelRecord,
    dim: usize,
    values: &[f32],
) -> RowSource<impl ExactSizeIterator<Item = Vec<f32>>> {
    let rows = values.chunks_exact(dim.max(1)).map(<[f32]>::to_vec);
    let full_dim = model.full_dim.filter(|full| *full != dim);
    let model = ModelRecord { dim, full_dim, ..model };
    RowSource::new(model, PassageContext::default(), rows)
}
