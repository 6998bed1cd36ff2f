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
mod tests {
    use super::*;

    fn search(change: impl FnOnce(&mut v1::SearchRequest)) -> String {
        let mut request = v1::SearchRequest {
            query: "why".into(),
            mode: 1,
            k: 10,
            ..Default::default()
        };
        change(&mut request);
        search_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".into())
    }

    #[test]
    fn every_bad_field_of_a_search_is_named() {
        assert_eq!(search(|_| ()), "fine");
        assert_eq!(search(|r| r.k = 0), "invalid request: `k`: expected 1 to 10000, got 0");
        assert_eq!(
            search(|r| r.k = 1_000_000),
            "invalid request: `k`: expected 1 to 10000, got 1000000"
        );
        assert!(search(|r| r.mode = 77).contains("`mode`: expected MODE_DENSE (1)"));
        assert!(search(|r| r.fusion = 5).contains("`fusion`: expected FUSION_UNSPECIFIED (0)"));
        assert!(search(|r| (r.fusion, r.rrf_k) = (2, 60)).contains("`rrf_k`: expected 0 with FUSION_WEIGHTED_SUM"));
        assert!(
            search(|r| r.dense_weight = Some(1.01)).contains("`dense_weight`: expected a number from 0 to 1, got 1.01")
        );
        assert!(
            search(|r| r.dense_weight = Some(f64::NAN))
                .contains("`dense_weight`: expected a number from 0 to 1, got NaN")
        );
        for weight in [-0.1, 10.1, f64::NAN] {
            let said = format!("`document_weight`: expected a number from 0 to 10, got {weight}");
            assert!(search(|r| r.document_weight = Some(weight)).contains(&said));
        }
        assert_eq!(search(|r| r.document_weight = Some(10.0)), "fine");
        assert!(search(|r| r.mode = 0).contains("got 0"));
        assert!(search(|r| r.query = "  ".into()).contains("`query`: expected text, got none"));
        assert!(search(|r| r.query = "x".repeat(1_000_000)).contains("expected at most 32768 bytes, got 1000000"));
        assert!(search(|r| r.ef = 1_000_000).contains("`ef`"));
        assert_eq!(search(|r| r.fingerprint = "f00d".into()), "fine");
        assert!(search(|r| r.fingerprint = "x".repeat(1025)).contains("`fingerprint`: expected at most 1024 bytes"));
        assert_eq!(search(|r| r.target_recall = Some(0.99)), "fine");
        for target in [0.0, 1.0, -0.5, f64::NAN] {
            assert!(
                search(|r| r.target_recall = Some(target))
                    .contains("`target_recall`: expected a number above 0 and below 1")
            );
        }
        assert!(
            search(|r| (r.target_recall, r.ef) = (Some(0.9), 64)).contains("`target_recall`: expected neither `ef`")
        );
        assert!(search(|r| (r.target_recall, r.exact) = (Some(0.9), true)).contains("nor `exact`"));
        assert_eq!(search(|r| (r.offset, r.k) = (9_990, 10)), "fine");
        assert!(
            search(|r| (r.offset, r.k) = (9_991, 10))
                .contains("`offset`: expected at most 10000 together with `k`, got 9991")
        );
        assert!(search(|r| r.offset = u32::MAX).contains("`offset`"));
        assert!(search(|r| (r.offset, r.mode) = (1, 4)).contains("`offset`: expected 0 in MODE_COMPARE"));
        assert_eq!(search(|r| r.score_threshold = Some(-3.5)), "fine");
        assert!(search(|r| r.score_threshold = Some(f32::NAN)).contains("`score_threshold`: expected a finite number"));
        assert!(search(|r| (r.score_threshold, r.mode) = (Some(0.5), 4)).contains("`score_threshold`: expected none"));
        assert_eq!(search(|r| r.snippet_bytes = 16), "fine");
        for bytes in [1, 15, 4097, u32::MAX] {
            assert!(
                search(|r| r.snippet_bytes = bytes).contains("`snippet_bytes`: expected 0 for none, or 16 to 4096")
            );
        }
        assert_eq!(
            search(|r| r.fields = vec!["title".into(), "author.name".into()]),
            "fine"
        );
        assert!(search(|r| r.fields = vec!["a".into(), " ".into()]).contains("`fields[1]`: expected text, got none"));
        assert!(search(|r| r.fields = vec!["a".into(); 65]).contains("`fields`: expected at most 64 entries, got 65"));
        assert!(
            search(|r| (r.fields, r.keys_only) = (vec!["a".into()], true)).contains("`fields`: expected none with")
        );
        let both = search(|r| {
            r.k = 0;
            r.mode = 9;
        });
        assert!(both.contains("`k`") && both.contains("`mode`"));
    }

    #[test]
    fn a_vector_is_finite_and_signed() {
        let with = |values: &[f32], change: fn(&mut v1::SearchRequest)| {
            search(|r| {
                (r.vector, r.fingerprint) = (values.to_vec(), "f00d".into());
                change(r);
            })
        };
        assert_eq!(with(&[0.5, -2.0], |_| ()), "fine");
        assert_eq!(with(&[0.5, -2.0], |r| r.query.clear()), "fine");
        assert_eq!(with(&[0.5, -2.0], |r| r.mode = 3), "fine");
        let hybrid = with(&[0.5, -2.0], |r| (r.mode, r.query) = (3, String::new()));
        assert!(hybrid.contains("`query`: expected text, got none"), "{hybrid}");
        let silent = with(&[0.5], |r| (r.query, r.snippet_bytes) = (String::new(), 100));
        assert!(
            silent.contains("`snippet_bytes`: expected 0 without `query`"),
            "{silent}"
        );
        assert!(with(&[1.0], |r| r.mode = 2).contains("`vector`: expected none in MODE_BM25"));
        assert!(with(&[1.0], |r| r.fingerprint.clear()).contains("`fingerprint`: expected that of the model"));
        assert!(with(&[1.0, f32::NAN], |_| ()).contains("`vector`: expected finite values, got another at position 1"));
        assert!(with(&[0.0, -0.0], |_| ()).contains("`vector`: expected a direction, got zeros alone"));
        let long = with(&vec![1.0; limits::MAX_DIM + 1], |_| ());
        assert!(
            long.contains("`vector`: expected at most 65536 entries, got 65537"),
            "{long}"
        );
    }

    #[test]
    fn groups_have_a_field_and_few_hits() {
        let grouped = |field: &str, hits, mode: v1::Mode| {
            let field = field.to_owned();
            search(|r| (r.group_by, r.mode) = (Some(v1::GroupBy { field, hits }), mode.into()))
        };
        assert_eq!(grouped("document", 0, v1::Mode::Hybrid), "fine");
        assert_eq!(grouped("a.b", 100, v1::Mode::Dense), "fine");
        assert!(grouped(" ", 1, v1::Mode::Dense).contains("`group_by.field`: expected text, got none"));
        assert!(grouped(&"x".repeat(257), 1, v1::Mode::Dense).contains("`group_by.field`: expected at most 256 bytes"));
        assert!(grouped("a", 101, v1::Mode::Dense).contains("`group_by.hits`"));
        assert!(grouped("a", 1, v1::Mode::Compare).contains("`group_by`: expected none in MODE_COMPARE"));
    }

    #[test]
    fn more_is_read_where_hits_are_grouped() {
        let depth = |k, offset, hits: Option<u32>| {
            let group_by = hits.map(|hits| v1::GroupBy {
                field: "a".into(),
                hits,
            });
            ranking_depth(&v1::SearchRequest {
                k,
                offset,
                group_by,
                ..Default::default()
            })
        };
        assert_eq!(depth(10, 5, None), 15);
        assert_eq!(depth(10, 0, Some(0)), 100);
        assert_eq!(depth(40, 10, Some(2)), 400);
        assert_eq!(depth(10_000, 0, Some(100)), 10_000);
    }

    #[test]
    fn a_batch_is_of_one_index() {
        let of = |index: &str| v1::SearchRequest {
            query: "why".into(),
            mode: 2,
            k: 10,
            index: index.into(),
            ..Default::default()
        };
        let batch = |names: &[&str]| {
            let requests = names.iter().map(|name| of(name)).collect();
            search_batch_request(&v1::SearchBatchRequest { requests })
                .map_or_else(|violations| violations.to_string(), |()| "fine".into())
        };
        assert_eq!(
            (batch(&["", ""]), batch(&["a", "a"])),
            ("fine".to_owned(), "fine".to_owned())
        );
        let mixed = batch(&["a", "a", "b"]);
        assert!(
            mixed.contains("`requests[2].index`: expected `a`, as `requests[0]` has, got `b`"),
            "{mixed}"
        );
        assert!(batch(&["", "a"]).contains("`requests[1].index`: expected none, as"));
        assert!(batch(&["a/b"]).contains("`requests[0].index`: expected the name of an index"));
        assert!(search(|r| r.index = "..".into()).contains("`index`: expected the name of an index"));
        // A path that is long is not repeated by every request.
        let long = "x".repeat(100_000);
        assert!(batch(&["a", &long]).len() < 1000);
    }

    #[test]
    fn a_batch_names_the_request() {
        let request = v1::SearchRequest {
            query: "why".into(),
            mode: 2,
            k: 10,
            ..Default::default()
        };
        let requests = vec![request.clone(), v1::SearchRequest { k: 0, ..request }];
        let error = search_batch_request(&v1::SearchBatchRequest { requests }).unwrap_err();
        assert_eq!(error.0[0].field, "requests[1].k");
        assert!(search_batch_request(&v1::SearchBatchRequest::default()).is_err());
        let large = v1::SearchRequest {
            query: "why".into(),
            mode: 4,
            k: 10_000,
            ..Default::default()
        };
        let error = search_batch_request(&v1::SearchBatchRequest {
            requests: vec![large; 7],
        })
        .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("`requests`: expected at most 200000 hits in all, got 210000"),
            "{error}"
        );
        let late = v1::SearchRequest {
            query: "why".into(),
            mode: 1,
            k: 10,
            offset: 9_990,
            ..Default::default()
        };
        let error = search_batch_request(&v1::SearchBatchRequest {
            requests: vec![late; 21],
        })
        .unwrap_err();
        assert!(error.to_string().contains("got 210000"), "{error}");
        let deep = v1::SearchRequest {
            query: "why".into(),
            mode: 3,
            k: 10,
            fusion_depth: 10_000,
            ..Default::default()
        };
        let error = search_batch_request(&v1::SearchBatchRequest {
            requests: vec![deep; 21],
        })
        .unwrap_err();
        assert!(error.to_string().contains("got 210000"), "{error}");
    }
}
