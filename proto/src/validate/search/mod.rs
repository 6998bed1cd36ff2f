//! Searches, alone and in batches.

use super::fields::CheckFields as _;
use super::violations::{Check, Violations};
use super::{filter, index, rerank};
use crate::limits;
use crate::v1;

/// Hits that are read for each one that is wanted of a group, to begin with: groups are of different sizes.
const GROUP_FACTOR: u32 = 4;
/// Hits that are read at least, where they are grouped.
const MIN_GROUPED: u32 = 100;

/// Checks one question.
pub fn search_request(request: &v1::SearchRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    search_fields(&mut check, "", request);
    check.done()
}

/// Checks a batch of questions.
pub fn search_batch_request(request: &v1::SearchBatchRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    request.check_fields(&mut check, "");
    for (i, one) in request.requests.iter().enumerate().take(limits::MAX_BATCH) {
        search_fields(&mut check, &format!("requests[{i}]."), one);
    }
    // They are searched together, in one generation.
    let valid = |one: &v1::SearchRequest| one.index.is_empty() || index::index_name(&one.index).is_ok();
    let said = |one: &v1::SearchRequest| {
        if one.index.is_empty() {
            "none".to_owned()
        } else {
            format!("`{}`", one.index)
        }
    };
    if let Some((first, others)) = request.requests.split_first().filter(|(first, _)| valid(first)) {
        for (i, other) in (1..)
            .zip(others)
            .filter(|(_, other)| other.index != first.index && valid(other))
        {
            let (expected, got) = (said(first), said(other));
            check.fail(
                format!("requests[{i}].index"),
                format!("expected {expected}, as `requests[0]` has, got {got}. Send a batch for each index"),
            );
        }
    }
    // A batch is answered as a whole: its hits are in memory together.
    let lists = |one: &v1::SearchRequest| if one.mode() == v1::Mode::Compare { 3 } else { 1 };
    // A fused ranking holds all hits of both rankings before the best k are kept.
    let depth = |one: &v1::SearchRequest| {
        let wanted = ranking_depth(one);
        if one.mode().fuses() {
            wanted.max(one.fusion_depth)
        } else {
            wanted
        }
    };
    let hits: u64 = request
        .requests
        .iter()
        .map(|one| u64::from(depth(one)) * lists(one))
        .sum();
    if hits > limits::MAX_BATCH_HITS {
        let limit = limits::MAX_BATCH_HITS;
        check.fail(
            "requests",
            format!("expected at most {limit} hits in all, got {hits}. Send smaller batches, or a stream"),
        );
    }
    let pairs: u64 = request.requests.iter().map(|one| u64::from(one.rerank_depth)).sum();
    if pairs > limits::MAX_BATCH_RERANK {
        let limit = limits::MAX_BATCH_RERANK;
        check.fail(
            "requests",
            format!(
                "expected a `rerank_depth` of at most {limit} in all, got {pairs}. Send smaller batches, or a stream"
            ),
        );
    }
    check.done()
}

pub(super) fn search_fields(check: &mut Check, at: &str, request: &v1::SearchRequest) {
    request.check_fields(check, at);
    let needs_text = request.vector.is_empty() || request.mode() != v1::Mode::Dense;
    if (needs_text || !request.query.is_empty()) && request.query.trim().is_empty() {
        check.fail(format!("{at}query"), "expected text, got none");
    }
    if !request.vector.is_empty() {
        question_vector(check, at, request);
    }
    page(check, at, request);
    if request.keys_only && !request.fields.is_empty() {
        check.fail(
            format!("{at}fields"),
            "expected none with `keys_only`, which leaves all of them out",
        );
    }
    if request.snippet_bytes > 0 && request.query.is_empty() {
        check.fail(
            format!("{at}snippet_bytes"),
            "expected 0 without `query`, whose words snippets are chosen by",
        );
    }
    if let Some(group_by) = &request.group_by {
        if request.mode() == v1::Mode::Compare {
            check.fail(
                format!("{at}group_by"),
                "expected none in MODE_COMPARE, which compares rankings of documents",
            );
        }
        group_by.check_fields(check, &format!("{at}group_by."));
    }
    rerank::check(check, at, request);
    if request.rrf_k > 0 && !matches!(request.fusion(), v1::Fusion::Unspecified | v1::Fusion::Rrf) {
        let fusion = request.fusion().as_str_name();
        check.fail(
            format!("{at}rrf_k"),
            format!("expected 0 with {fusion}, which has no such constant"),
        );
    }
    if request.target_recall.is_some() && (request.ef > 0 || request.exact) {
        check.fail(
            format!("{at}target_recall"),
            "expected neither `ef` nor `exact` with it: it chooses `ef` itself",
        );
    }
    if let Some(filter) = &request.filter {
        filter::check(check, &format!("{at}filter"), filter);
    }
}

/// The part of the ranking that is wanted.
fn page(check: &mut Check, at: &str, request: &v1::SearchRequest) {
    let (offset, field) = (request.offset, format!("{at}offset"));
    let compares = request.mode() == v1::Mode::Compare;
    if offset > 0 && compares {
        check.fail(
            field,
            format!("expected 0 in MODE_COMPARE, which compares rankings from their beginning, got {offset}"),
        );
    } else if offset < limits::MAX_K && request.k <= limits::MAX_K && request.k + offset > limits::MAX_K {
        check.fail(
            field,
            format!("expected at most {} together with `k`, got {offset}", limits::MAX_K),
        );
    }
    let field = format!("{at}score_threshold");
    match request.score_threshold {
        Some(least) if !least.is_finite() => check.fail(field, format!("expected a finite number, got {least}")),
        Some(_) if compares => {
            check.fail(
                field,
                "expected none in MODE_COMPARE, whose rankings have scores of three units",
            );
        }
        _ => {}
    }
}

/// Hits that each ranking of a search is first asked for, at most: more are read where they are in too few groups.
pub fn ranking_depth(request: &v1::SearchRequest) -> u32 {
    let wanted = request.offset.saturating_add(request.k).max(request.rerank_depth);
    let Some(group_by) = &request.group_by else {
        return wanted;
    };
    let members = wanted.saturating_mul(group_by.hits.max(1));
    members
        .saturating_mul(GROUP_FACTOR)
        .clamp(MIN_GROUPED, limits::MAX_K.max(wanted))
}

/// What can be said of a vector without the index.
fn question_vector(check: &mut Check, at: &str, request: &v1::SearchRequest) {
    let field = format!("{at}vector");
    let values = &request.vector;
    if request.mode() == v1::Mode::Bm25 {
        check.fail(&field, "expected none in MODE_BM25, which compares no vectors");
    } else if let Some(position) = values.iter().position(|value| !value.is_finite()) {
        check.fail(
            &field,
            format!("expected finite values, got another at position {position}"),
        );
    } else if values.iter().all(|value| *value == 0.0) {
        check.fail(&field, "expected a direction, got zeros alone");
    }
    if request.fingerprint.is_empty() {
        let told = "`EncodeResponse` and `StatusResponse.index_model` tell it";
        check.fail(
            format!("{at}fingerprint"),
            format!("expected that of the model that made `vector`, got none. {told}"),
        );
    }
}

#[cfg(test)]
mod tests;
