//! What a request leaves out: its fields get the defaults of the `.proto` files before they are checked.

use crate::v1;

include!(concat!(env!("OUT_DIR"), "/dyad.v1.defaults.rs"));

impl v1::SearchRequest {
    /// The request with what it has left out. A vector without a question is for the dense ranking.
    #[must_use]
    pub fn with_defaults(mut self) -> Self {
        // An unknown mode is not one that was left out, though its accessor says so.
        let has_mode = self.mode != v1::Mode::Unspecified as i32;
        if !has_mode && self.query.is_empty() && !self.vector.is_empty() {
            self.set_mode(v1::Mode::Dense);
        }
        self.set_field_defaults();
        self
    }
}

impl v1::ScrollDocumentsRequest {
    /// The request with what it has left out.
    #[must_use]
    pub fn with_defaults(mut self) -> Self {
        self.set_field_defaults();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate;

    #[test]
    fn a_question_alone_is_a_hybrid_search_for_ten_hits_and_a_vector_alone_a_dense_one() {
        let question = v1::SearchRequest {
            query: "why".into(),
            ..v1::SearchRequest::default()
        };
        assert!(
            validate::search_request(&question).is_err(),
            "before it has its defaults"
        );
        let question = question.with_defaults();
        validate::search_request(&question).unwrap();
        assert_eq!((question.mode(), question.k), (v1::Mode::Hybrid, 10));
        let vector = v1::SearchRequest {
            vector: vec![1.0],
            fingerprint: "f".into(),
            ..v1::SearchRequest::default()
        };
        let vector = vector.with_defaults();
        validate::search_request(&vector).unwrap();
        assert_eq!((vector.mode(), vector.k), (v1::Mode::Dense, 10));
        let both = v1::SearchRequest {
            query: "why".into(),
            ..vector.clone()
        };
        assert_eq!(both.with_defaults().mode(), v1::Mode::Dense, "what is given stays");
        let wrong = v1::SearchRequest { mode: 9, ..vector };
        assert!(validate::search_request(&wrong.with_defaults()).is_err());
    }
}
