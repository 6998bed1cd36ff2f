//! The vector that a request brings, checked against the index's model.

use dyad_index::{Metric, ModelRecord};
use dyad_proto::v1;

use crate::error::{Error, Result};

/// A vector whose length differs from 1 by no more is left as it is, as the indexer leaves documents'.
const EXACT: f64 = 1e-5;

/// The vector of a request that [`dyad_proto::validate`] has accepted, cut to the values that the index keeps, of
/// length 1 where vectors are compared by cosine; none where it has none. `at` is the path of the request in its call.
pub(in crate::run) fn question_vector(
    request: &v1::SearchRequest,
    model: &ModelRecord,
    at: impl FnOnce() -> String,
) -> Result<Option<Vec<f32>>> {
    let got = &request.fingerprint;
    if !got.is_empty() && *got != model.fingerprint {
        return Err(Error::OtherModel {
            index: Box::new(model.clone()),
            at: at(),
            got: got.clone(),
        });
    }
    if request.vector.is_empty() {
        return Ok(None);
    }
    let mut vector = request.vector.clone();
    if !model.takes(vector.len()) {
        return Err(Error::Dimension {
            at: at(),
            expected: model.lengths(),
            got: vector.len(),
        });
    }
    model.cut(&mut vector)?;
    if model.metric == Metric::Cosine && vector.iter().all(|value| *value == 0.0) {
        return Err(Error::NoDirection {
            at: at(),
            kept: model.dim,
        });
    }
    // In f64, so that the squares of large values cannot overflow, nor those of small ones vanish.
    let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if model.metric == Metric::Cosine && (length - 1.0).abs() > EXACT {
        for value in &mut vector {
            *value = (f64::from(*value) / length) as f32;
        }
    }
    Ok(Some(vector))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(values: &[f32], metric: Metric) -> Result<Option<Vec<f32>>> {
        let (name, fingerprint) = ("m".to_owned(), "f00d".to_owned());
        let model = ModelRecord {
            name,
            fingerprint: fingerprint.clone(),
            dim: 2,
            full_dim: None,
            metric,
            max_tokens: 8,
        };
        question_vector(
            &v1::SearchRequest {
                vector: values.to_vec(),
                fingerprint,
                ..Default::default()
            },
            &model,
            String::new,
        )
    }

    #[test]
    fn a_vector_is_scaled_for_cosine_alone_and_only_where_it_must_be() {
        assert_eq!(vector(&[], Metric::Cosine).unwrap(), None);
        assert_eq!(vector(&[3.0, -4.0], Metric::Cosine).unwrap(), Some(vec![0.6, -0.8]));
        assert_eq!(vector(&[3.0, -4.0], Metric::L2).unwrap(), Some(vec![3.0, -4.0]));
        let unit = [0.6 + 2e-6, 0.8];
        assert_eq!(vector(&unit, Metric::Cosine).unwrap(), Some(unit.to_vec()));
        for extreme in [f32::MAX, f32::MIN_POSITIVE, 1e-44] {
            let scaled = vector(&[extreme, 0.0], Metric::Cosine).unwrap();
            assert_eq!(scaled, Some(vec![1.0, 0.0]), "{extreme}");
        }
    }

    #[test]
    fn other_models_and_lengths_are_named() {
        let error = vector(&[1.0, 2.0, 3.0], Metric::Cosine).unwrap_err().to_string();
        assert_eq!(
            error,
            "`vector`: expected 2 values, as the vectors of the index have, got 3"
        );
        let (name, fingerprint) = ("m".to_owned(), "f00d".to_owned());
        let model = ModelRecord {
            name,
            fingerprint,
            dim: 2,
            full_dim: None,
            metric: Metric::Cosine,
            max_tokens: 8,
        };
        let request = v1::SearchRequest {
            fingerprint: "beef".into(),
            ..Default::default()
        };
        let error = question_vector(&request, &model, || "requests[3].".into())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("`requests[3].fingerprint`: the index was made by `m` (fingerprint f00d)")
                && error.contains("fingerprint beef"),
            "{error}"
        );
    }
}
