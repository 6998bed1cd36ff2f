//! What a cross encoder scores of a search, and how much that counts.

use super::violations::Check;
use crate::v1;

/// What a weight of a cross encoder's score needs.
const ADDS_NATS: &str = "a logit is added to scores of MODE_HYBRID by FUSION_LOG_ODDS, which alone are in its unit";

/// Checks what a cross encoder is to score of a search at `at`.
pub(super) fn check(check: &mut Check, at: &str, request: &v1::SearchRequest) {
    weight(check, at, request);
    let (depth, field) = (request.rerank_depth, format!("{at}rerank_depth"));
    if depth == 0 {
        return;
    }
    if request.mode() == v1::Mode::Compare {
        check.fail(
            field,
            "expected 0 in MODE_COMPARE, which compares the rankings as they are",
        );
    } else if request.group_by.is_some() {
        check.fail(
            field,
            "expected 0 with `group_by`, whose groups are made of the ranking as it is",
        );
    } else if request.query.is_empty() {
        check.fail(
            field,
            "expected 0 without `query`, which a cross encoder reads with each text",
        );
    }
}

fn weight(check: &mut Check, at: &str, request: &v1::SearchRequest) {
    let Some(weight) = request.rerank_weight else { return };
    let (field, fusion) = (format!("{at}rerank_weight"), request.fusion());
    let is_rrf = request.rrf_k > 0;
    let adds = matches!(fusion, v1::Fusion::Unspecified | v1::Fusion::LogOdds) && !is_rrf;
    if request.rerank_depth == 0 {
        check.fail(field, "expected none without `rerank_depth`, whose hits it orders");
    } else if weight < 1.0 && request.mode() != v1::Mode::Hybrid {
        check.fail(
            field,
            format!("expected 1 or none in {}: {ADDS_NATS}", request.mode().as_str_name()),
        );
    } else if weight < 1.0 && !adds {
        let other = if is_rrf { "`rrf_k`" } else { fusion.as_str_name() };
        check.fail(field, format!("expected 1 or none with {other}: {ADDS_NATS}"));
    }
}
