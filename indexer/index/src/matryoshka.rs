//! The first values of a model's vectors in place of all of them ("Matryoshka representations": Kusupati et al. 2022,
//! arXiv:2205.13147; `truncate_dim` of sentence-transformers). Models that were trained for it lose little by it.
//!
//! Here alone vectors are cut: those of documents when they are indexed, and those of questions before they are
//! compared. Which values an index keeps is part of its [`ModelRecord`], so that it meets no vectors that were cut
//! otherwise.

use crate::error::{Error, Result};
use crate::model::{Metric, ModelRecord};

/// The shortest length by which a vector is divided, as in sentence-transformers: of zeros alone no direction is left,
/// and none is invented.
const SHORTEST: f64 = 1e-12;

/// Keeps the first `dim` values of a vector, brought to length 1 again where [`Metric::Cosine`] compares them. A vector
/// that has no more is left as it is.
fn keep_leading(vector: &mut Vec<f32>, dim: usize, metric: Metric) {
    if vector.len() <= dim {
        return;
    }
    vector.truncate(dim);
    if metric != Metric::Cosine {
        return;
    }
    // In f64, so that the squares of large values cannot overflow, nor those of small ones vanish.
    let squares = vector.iter().map(|value| f64::from(*value).powi(2));
    let length = squares.sum::<f64>().sqrt().max(SHORTEST);
    for value in vector {
        *value = (f64::from(*value) / length) as f32;
    }
}

impl ModelRecord {
    /// Values of the model's own vectors: more than [`Self::dim`] where only the first are kept.
    pub fn own_dim(&self) -> usize {
        self.full_dim.unwrap_or(self.dim)
    }

    /// The same model with the first `dimensions` of its own values. An error where it has none or fewer.
    pub fn leading(&self, dimensions: usize) -> Result<Self> {
        let own = self.own_dim();
        if !(1..=own).contains(&dimensions) {
            return Err(Error::Mismatch {
                what: "`dimensions`",
                expected: format!("1 to {own}, the values of the vectors of `{}`", self.name),
                got: dimensions.to_string(),
            });
        }
        Ok(Self {
            dim: dimensions,
            full_dim: (dimensions < own).then_some(own),
            ..self.clone()
        })
    }

    /// The same model with the values that an index keeps. Another model than that of the index stays as it is; vectors
    /// that have no more values than the index keeps are taken to be cut already.
    #[must_use]
    pub fn like(&self, index: &Self) -> Self {
        let is_same = (&self.fingerprint, self.metric) == (&index.fingerprint, index.metric);
        let (dim, full_dim) = if is_same && self.full_dim.is_none() && index.takes(self.dim) {
            (index.dim, index.full_dim)
        } else {
            (self.dim, self.full_dim)
        };
        Self {
            dim,
            full_dim,
            ..self.clone()
        }
    }

    /// Cuts a vector of the model to the values that are kept. A vector that has only these is left as it is; an error
    /// for any other length.
    pub fn cut(&self, vector: &mut Vec<f32>) -> Result<()> {
        if !self.takes(vector.len()) {
            return Err(Error::Mismatch {
                what: "values of a vector",
                expected: self.lengths(),
                got: vector.len().to_string(),
            });
        }
        keep_leading(vector, self.dim, self.metric);
        Ok(())
    }

    /// Whether vectors of this length can be cut to those that are kept, or are so already.
    pub fn takes(&self, length: usize) -> bool {
        length == self.dim || length == self.own_dim()
    }

    /// The lengths that [`Self::takes`], for errors: `384`, or `384 or 128`.
    pub fn lengths(&self) -> String {
        match self.full_dim {
            Some(full) => format!("{full} or {}", self.dim),
            None => self.dim.to_string(),
        }
    }

    /// The name of the space of its vectors, by which what was learned for them is known: the fingerprint, and how many
    /// values are kept where not all are.
    pub fn space(&self) -> String {
        match self.full_dim {
            Some(_) => format!("{}/{}", self.fingerprint, self.dim),
            None => self.fingerprint.clone(),
        }
    }

    /// How long its vectors are, for people: `384 values`, or `128 of 384 values`.
    pub fn values(&self) -> String {
        match self.full_dim {
            Some(full) => format!("{} of {full} values", self.dim),
            None => format!("{} values", self.dim),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn model(dim: usize, metric: Metric) -> ModelRecord {
        ModelRecord {
            name: "m".into(),
            fingerprint: "f00d".into(),
            dim,
            full_dim: None,
            metric,
            max_tokens: 8,
        }
    }

    proptest! {
        /// By the definition, value by value.
        #[test]
        fn the_first_values_are_kept_and_have_length_1_where_lengths_do_not_count(
            values in proptest::collection::vec(-1.0f32..1.0, 1..70),
            part in 0.0f64..1.0,
        ) {
            let kept = 1 + (part * (values.len() - 1) as f64) as usize;
            for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
                let record = model(values.len(), metric).leading(kept).unwrap();
                let mut cut = values.clone();
                record.cut(&mut cut).unwrap();
                let mut length = 1.0;
                if metric == Metric::Cosine && kept < values.len() {
                    let mut squares = 0.0;
                    for value in &values[..kept] {
                        squares += f64::from(*value) * f64::from(*value);
                    }
                    length = squares.sqrt();
                }
                prop_assume!(length > 1e-6);
                prop_assert_eq!(cut.len(), kept);
                for (at, value) in cut.iter().enumerate() {
                    let expected = f64::from(values[at]) / length;
                    prop_assert!((f64::from(*value) - expected).abs() < 1e-6, "{:?}, value {}", metric, at);
                }
                let again = cut.clone();
                record.cut(&mut cut).unwrap();
                prop_assert_eq!(cut, again, "those that are kept are left as they are");
            }
        }
    }

    #[test]
    fn what_is_kept_is_part_of_the_record() {
        let full = model(384, Metric::Cosine);
        let short = full.leading(128).unwrap();
        assert_eq!((short.dim, short.full_dim, short.own_dim()), (128, Some(384), 384));
        assert!(!short.same_space(&full) && !short.same_space(&model(128, Metric::Cosine)));
        assert_eq!(short.leading(64).unwrap(), full.leading(64).unwrap());
        assert_eq!(short.leading(384).unwrap(), full);
        assert_eq!((short.space(), full.space()), ("f00d/128".into(), "f00d".into()));
        assert_eq!(
            (short.values(), full.values()),
            ("128 of 384 values".into(), "384 values".into())
        );
        for wrong in [0, 385, usize::MAX] {
            let error = short.leading(wrong).unwrap_err().to_string();
            assert!(
                error.contains("1 to 384") && error.ends_with(&format!("got {wrong}")),
                "{error}"
            );
        }
    }

    #[test]
    fn other_lengths_are_refused_and_zeros_have_no_direction() {
        let short = model(4, Metric::Cosine).leading(2).unwrap();
        for wrong in [0, 1, 3, 5] {
            let error = short.cut(&mut vec![1.0; wrong]).unwrap_err().to_string();
            assert_eq!(error, format!("values of a vector: expected 4 or 2, got {wrong}"));
        }
        let mut zeros = vec![0.0, 0.0, 1.0, 0.0];
        short.cut(&mut zeros).unwrap();
        assert_eq!(zeros, [0.0, 0.0]);
    }
}
