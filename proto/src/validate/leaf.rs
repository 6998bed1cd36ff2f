//! Requests of roots to leaves.

use super::{Check, CheckFields as _, Violations};
use crate::v1;

/// Checks a search of a root. Its filters are those of clients and API keys, which were checked when they came.
pub fn leaf_search_request(request: &v1::LeafSearchRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    request.check_fields(&mut check, "");
    if let Some(dense) = &request.dense {
        finite(&mut check, "dense.vector", &dense.vector);
        let rounds = dense
            .searches
            .iter()
            .enumerate()
            .filter_map(|(number, search)| Some((number, search.round?)));
        for (number, round) in rounds {
            if !round.margin.is_finite() || round.score.is_some_and(f32::is_nan) {
                let got = format!("{} and {:?}", round.margin, round.score);
                let expected = "expected a margin that is finite, and a score that is a number";
                check.fail(
                    format!("dense.searches[{number}].round"),
                    format!("{expected}, got {got}"),
                );
            }
        }
    }
    check.done()
}

/// Checks a request to explain a document.
pub fn leaf_explain_request(request: &v1::LeafExplainRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    request.check_fields(&mut check, "");
    finite(&mut check, "vector", &request.vector);
    check.done()
}

fn finite(check: &mut Check, field: &str, vector: &[f32]) {
    let mut values = vector.iter().enumerate();
    if let Some((at, value)) = values.find(|(_, value)| !value.is_finite()) {
        check.fail(field, format!("expected finite values, got {value} at position {at}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(vector: Vec<f32>, margin: f32) -> v1::LeafSearchRequest {
        let search = v1::LeafVectorSearch {
            k: 10,
            mode: v1::LeafSearchMode::Adaptive.into(),
            ef: 64,
            out_of_distribution_ef: 0,
            round: Some(v1::SmallShardRound {
                most_documents: 7,
                margin,
                score: Some(f32::NEG_INFINITY),
            }),
        };
        v1::LeafSearchRequest {
            generation: Some(v1::GenerationName {
                index: "wiki".into(),
                generation: 3,
                pointer: "manifest".into(),
            }),
            shards: vec![0, 2],
            dense: Some(v1::LeafDenseSearch {
                vector,
                searches: vec![search],
            }),
            ..v1::LeafSearchRequest::default()
        }
    }

    #[test]
    fn numbers_that_are_none_are_refused_with_their_places() {
        assert_eq!(leaf_search_request(&request(vec![0.5, 0.1], 0.2)), Ok(()));
        let refused = |request| leaf_search_request(&request).unwrap_err().to_string();
        let vector = refused(request(vec![0.5, f32::NAN], 0.2));
        assert!(
            vector.contains("`dense.vector`: expected finite values, got NaN at position 1"),
            "{vector}"
        );
        let round = refused(request(vec![0.5], f32::INFINITY));
        assert!(
            round.contains("`dense.searches[0].round`: expected a margin that is finite"),
            "{round}"
        );
        let unnamed = v1::LeafSearchRequest {
            generation: None,
            ..request(vec![0.5], 0.1)
        };
        assert!(refused(unnamed).contains("`generation`"));
    }
}
