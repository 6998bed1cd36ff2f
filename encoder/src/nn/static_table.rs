//! Rows of a table as token vectors: a static model (sentence-transformers' `StaticEmbedding`, Model2Vec, WordLlama).
//!
//! Where nothing is learned and the table is f32 on the CPU, it is plain memory: the mean of the rows of a question
//! takes about a microsecond, and an operator of torch takes several only to begin. Elsewhere torch gathers the rows.

use std::sync::Arc;

use tch::{Device, Kind, TchError, Tensor};

use super::packed::Packed;
use super::parameters::Parameters;
use super::shared_tensor::SharedTensor;
use crate::config::StaticConfig;
use crate::error::{Error, torch};
use crate::tokenize::TokenBatch;

/// Below this length a vector counts as zero, as in `torch.nn.functional.normalize`.
const SMALLEST_NORM: f64 = 1e-12;

/// The vector of each token. An id that has none stands for no token: that of a text without any, whose vector is zero.
#[derive(Debug, Clone)]
pub(crate) enum StaticTable {
    Memory(TableRows),
    Tensor(SharedTensor),
}

/// A table in memory: rows one after another.
#[derive(Debug, Clone)]
pub(crate) struct TableRows {
    values: Arc<[f32]>,
    width: usize,
}

impl StaticTable {
    pub(crate) fn load(parameters: &mut dyn Parameters, config: &StaticConfig) -> Result<Self, Error> {
        let stored = parameters.take(config.table(), &config.table_shape())?;
        let mapping = config
            .mapping()
            .map(|(name, shape)| parameters.constant(name, &shape, Kind::Int64));
        let weights = config
            .weights()
            .map(|(name, shape)| parameters.constant(name, &shape, stored.kind()));
        let table = folded(stored, mapping.transpose()?, weights.transpose()?).map_err(torch("reading a table"))?;
        let in_memory = table.kind() == Kind::Float && table.device() == Device::Cpu;
        if parameters.form().is_learned() || !in_memory {
            return Ok(Self::Tensor(table.into()));
        }
        let mut values = vec![0.0_f32; table.numel()];
        let count = values.len();
        table
            .f_contiguous()
            .and_then(|table| table.f_copy_data(&mut values, count))
            .map_err(torch("reading a table"))?;
        Ok(Self::Memory(TableRows {
            values: values.into(),
            width: config.hidden_size,
        }))
    }

    /// `[t]` ids to `[t, h]`.
    pub(super) fn forward(&self, packed: &Packed) -> Result<Tensor, TchError> {
        match self {
            Self::Memory(rows) => {
                let ids = Vec::<i64>::try_from(&packed.ids)?;
                let mut values = Vec::with_capacity(ids.len() * rows.width);
                for id in &ids {
                    match rows.row(*id) {
                        Some(row) => values.extend_from_slice(row),
                        None => values.resize(values.len() + rows.width, 0.0),
                    }
                }
                Tensor::f_from_slice(&values)?.f_view([ids.len() as i64, rows.width as i64])
            }
            Self::Tensor(table) => {
                let rows = table.size2()?.0;
                let known = packed.ids.f_lt(rows)?;
                let ids = packed.ids.f_clamp_max(rows - 1)?;
                let vectors = Tensor::f_embedding(table, &ids, -1, false, false)?;
                if known.f_all()?.f_int64_value(&[])? == 1 {
                    return Ok(vectors);
                }
                vectors.f_mul(&known.f_unsqueeze(1)?.f_to_kind(vectors.kind())?)
            }
        }
    }
}

/// `[rows, h]` to a row for each token: `stored[mapping[i]] * weights[i]`.
fn folded(stored: Tensor, mapping: Option<Tensor>, weights: Option<Tensor>) -> Result<Tensor, TchError> {
    let of_tokens = match mapping {
        Some(mapping) => stored.f_index_select(0, &mapping)?,
        None => stored,
    };
    match weights {
        Some(weights) => of_tokens.f_mul(&weights.f_unsqueeze(1)?),
        None => Ok(of_tokens),
    }
}

impl TableRows {
    /// The vector of a token.
    fn row(&self, id: i64) -> Option<&[f32]> {
        let begin = usize::try_from(id).ok()?.checked_mul(self.width)?;
        self.values.get(begin..begin.checked_add(self.width)?)
    }

    /// The means of the rows of each text of a batch, or of each of its spans: the first `dim` values, of unit length
    /// where `unit` says so. Row-major, in the order of the texts.
    pub(super) fn embed(&self, batch: &TokenBatch, dim: usize, unit: bool) -> Vec<f32> {
        let mut left = batch.ids();
        let mut parts: Vec<&[i64]> = Vec::with_capacity(batch.vectors());
        for (row, length) in batch.lengths().iter().enumerate() {
            let Some((ids, others)) = left.split_at_checked(*length as usize) else {
                break;
            };
            left = others;
            match batch.spans().get(row) {
                Some(spans) => parts.extend(spans.iter().map(|span| ids.get(span.clone()).unwrap_or_default())),
                None => parts.push(ids),
            }
        }
        let mut vectors = vec![0.0; parts.len() * dim];
        for (vector, place) in vectors.chunks_exact_mut(dim).zip(batch.vector_places()) {
            self.mean(parts.get(place as usize).copied().unwrap_or_default(), vector);
            if unit {
                to_unit_length(vector);
            }
        }
        vectors
    }

    /// The mean of the first values of some rows; of none it is zero.
    fn mean(&self, ids: &[i64], mean: &mut [f32]) {
        for row in ids.iter().filter_map(|id| self.row(*id)) {
            for (sum, value) in mean.iter_mut().zip(row) {
                *sum += value;
            }
        }
        let count = ids.len().max(1) as f32;
        for value in mean {
            *value /= count;
        }
    }
}

fn to_unit_length(vector: &mut [f32]) {
    let squares: f64 = vector.iter().map(|value| f64::from(*value).powi(2)).sum();
    let length = squares.sqrt().max(SMALLEST_NORM);
    for value in vector {
        *value = (f64::from(*value) / length) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::super::exec::Exec;
    use super::super::product::Padding;
    use super::*;
    use crate::tokenize::Tokens;

    fn table(rows: i64, width: i64) -> (TableRows, SharedTensor) {
        let tensor = Tensor::randn([rows, width], (Kind::Float, Device::Cpu));
        let values = Vec::<f32>::try_from(tensor.flatten(0, -1)).unwrap();
        let rows = TableRows {
            values: values.into(),
            width: width as usize,
        };
        (rows, tensor.into())
    }

    fn text(ids: &[u32]) -> Tokens {
        Tokens {
            ids: ids.to_vec(),
            ..Tokens::default()
        }
    }

    #[test]
    fn memory_and_operators_give_the_same_rows() {
        tch::manual_seed(3);
        let (rows, tensor) = table(9, 5);
        // 9 is the id of no token.
        let texts = [text(&[3, 8, 0]), text(&[9]), text(&[1, 1])];
        let batch = TokenBatch::new(&texts.each_ref(), 0);
        let packed = Packed::new(&batch, Device::Cpu, Padding::No, Exec::ONE_THREAD, None).unwrap();
        let [ours, theirs] = [StaticTable::Memory(rows), StaticTable::Tensor(tensor)]
            .map(|table| Vec::<Vec<f32>>::try_from(table.forward(&packed).unwrap()).unwrap());
        assert_eq!(ours, theirs);
        assert!(ours[5].iter().all(|value| *value == 0.0), "{ours:?}");
    }

    #[test]
    fn means_are_those_of_the_formula_in_the_order_of_the_texts() {
        tch::manual_seed(4);
        let (rows, tensor) = table(9, 5);
        let values = Vec::<Vec<f32>>::try_from(&*tensor).unwrap();
        let mut spans = text(&[4, 5, 6, 7]);
        spans.spans = vec![1..3, 2..2, 0..4];
        let slow = |ids: &[usize], dim: usize, unit: bool| -> Vec<f64> {
            let mut mean: Vec<f64> = (0..dim)
                .map(|at| ids.iter().map(|id| f64::from(values[*id][at])).sum::<f64>() / ids.len().max(1) as f64)
                .collect();
            let length = mean.iter().map(|value| value * value).sum::<f64>().sqrt().max(1e-12);
            if unit {
                for value in &mut mean {
                    *value /= length;
                }
            }
            mean
        };
        for (dim, unit) in [(5, false), (5, true), (3, true)] {
            let near = |got: &[f32], expected: &[&[usize]]| {
                let expected = expected.iter().flat_map(|ids| slow(ids, dim, unit));
                assert_eq!(got.len(), dim * expected.clone().count() / dim);
                for (got, expected) in got.iter().zip(expected) {
                    assert!(
                        (f64::from(*got) - expected).abs() < 1e-6,
                        "{dim}, {unit}: {got} {expected}"
                    );
                }
            };
            let batch = TokenBatch::new(&[&text(&[2]), &text(&[3, 8, 0]), &text(&[1, 1])], 0);
            near(&rows.embed(&batch, dim, unit), &[&[2], &[3, 8, 0], &[1, 1]]);
            near(
                &rows.embed(&TokenBatch::new(&[&spans], 0), dim, unit),
                &[&[5, 6], &[], &[4, 5, 6, 7]],
            );
        }
    }

    #[test]
    fn a_quantised_vocabulary_is_folded() {
        let stored = Tensor::from_slice2(&[[1.0_f32, 2.0], [3.0, 4.0]]);
        let mapping = Tensor::from_slice(&[1_i64, 0, 1]);
        let weights = Tensor::from_slice(&[2.0_f32, 1.0, 0.5]);
        let table = folded(stored, Some(mapping), Some(weights)).unwrap();
        let expected = [[6.0_f32, 8.0], [1.0, 2.0], [1.5, 2.0]].map(|row| row.to_vec());
        assert_eq!(Vec::<Vec<f32>>::try_from(table).unwrap(), expected);
    }
}
