//! Validates requests field by field; a violation names the field, the limit and the value.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | every request |
//! | `violations.rs` | the list of violations |
//! | `filter.rs` | filters of any depth |

mod filter;
mod violations;

use std::collections::HashSet;

use self::violations::Check;
use crate::limits;
use crate::v1;

pub use violations::{Violation, Violations};

/// Checks a batch of texts to embed.
pub fn encode_request(request: &v1::EncodeRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    if !matches!(v1::Tower::try_from(request.tower), Ok(v1::Tower::Question | v1::Tower::Answer)) {
        check.fail("tower", format!("expected TOWER_QUESTION (1) or TOWER_ANSWER (2), got {}", request.tower));
    }
    check.count("texts", request.texts.len(), limits::MAX_TEXTS);
    for (i, text) in request.texts.iter().enumerate().take(limits::MAX_TEXTS) {
        check.text(&format!("texts[{i}]"), text, limits::MAX_TEXT_BYTES);
    }
    if v1::Truncation::try_from(request.truncation).is_err() {
        let values = "TRUNCATION_TRUNCATE (0) or TRUNCATION_REFUSE (1)";
        check.fail("truncation", format!("expected {values}, got {}", request.truncation));
    }
    check.done()
}

fn search_fields(check: &mut Check, at: &str, request: &v1::SearchRequest) {
    let needs_text = request.vector.is_empty() || request.mode() != v1::Mode::Dense;
    if needs_text || !request.query.is_empty() {
        check.text(&format!("{at}query"), &request.query, limits::MAX_QUERY_BYTES);
    }
    if !request.vector.is_empty() {
        question_vector(check, at, request);
    }
    if request.fingerprint.len() > limits::MAX_FINGERPRINT_BYTES {
        let (most, got) = (limits::MAX_FINGERPRINT_BYTES, request.fingerprint.len());
        check.fail(format!("{at}fingerprint"), format!("expected at most {most} bytes, got {got}"));
    }
    if !matches!(v1::Mode::try_from(request.mode), Ok(mode) if mode != v1::Mode::Unspecified) {
        let modes = "MODE_DENSE (1), MODE_BM25 (2), MODE_HYBRID (3) or MODE_COMPARE (4)";
        check.fail(format!("{at}mode"), format!("expected {modes}, got {}", request.mode));
    }
    if request.k == 0 || request.k > limits::MAX_K {
        check.fail(format!("{at}k"), format!("expected 1 to {}, got {}", limits::MAX_K, request.k));
    }
    page(check, at, request);
    fields(check, at, &request.fields);
    if request.keys_only && !request.fields.is_empty() {
        check.fail(format!("{at}fields"), "expected none with `keys_only`, which leaves all of them out");
    }
    check.at_most(&format!("{at}ef"), request.ef, limits::MAX_EF);
    check.at_most(&format!("{at}rrf_k"), request.rrf_k, limits::MAX_RRF_K);
    if v1::Fusion::try_from(request.fusion).is_err() {
        let fusions = "FUSION_UNSPECIFIED (0), FUSION_RRF (1) or FUSION_WEIGHTED_SUM (2)";
        check.fail(format!("{at}fusion"), format!("expected {fusions}, got {}", request.fusion));
    }
    if request.rrf_k > 0 && request.fusion() == v1::Fusion::WeightedSum {
        check.fail(format!("{at}rrf_k"), "expected 0 with FUSION_WEIGHTED_SUM, which has no such constant");
    }
    if let Some(weight) = request.dense_weight.filter(|weight| !(0.0..=1.0).contains(weight)) {
        check.fail(format!("{at}dense_weight"), format!("expected a number from 0 to 1, got {weight}"));
    }
    check.at_most(&format!("{at}fusion_depth"), request.fusion_depth, limits::MAX_K);
    target_recall(check, &format!("{at}target_recall"), request.target_recall, request.ef > 0 || request.exact);
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
    } else if request.k.saturating_add(offset) > limits::MAX_K && request.k <= limits::MAX_K {
        check.fail(field, format!("expected at most {} together with `k`, got {offset}", limits::MAX_K));
    }
    let field = format!("{at}score_threshold");
    match request.score_threshold {
        Some(least) if !least.is_finite() => check.fail(field, format!("expected a finite number, got {least}")),
        Some(_) if compares => {
            check.fail(field, "expected none in MODE_COMPARE, whose rankings have scores of three units");
        }
        _ => {}
    }
}

/// Names of stored fields.
fn fields(check: &mut Check, at: &str, fields: &[String]) {
    if fields.len() > limits::MAX_FIELDS {
        check.fail(
            format!("{at}fields"),
            format!("expected at most {} names, got {}", limits::MAX_FIELDS, fields.len()),
        );
    }
    for (i, name) in fields.iter().enumerate().take(limits::MAX_FIELDS) {
        check.text(&format!("{at}fields[{i}]"), name, limits::MAX_FILTER_FIELD_BYTES);
    }
}

/// What can be said of a vector without the index.
fn question_vector(check: &mut Check, at: &str, request: &v1::SearchRequest) {
    let field = format!("{at}vector");
    let values = &request.vector;
    if request.mode() == v1::Mode::Bm25 {
        check.fail(&field, "expected none in MODE_BM25, which compares no vectors");
    } else if values.len() > limits::MAX_DIM {
        check.fail(&field, format!("expected at most {} values, got {}", limits::MAX_DIM, values.len()));
    } else if let Some(position) = values.iter().position(|value| !value.is_finite()) {
        check.fail(&field, format!("expected finite values, got another at position {position}"));
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

/// `chosen`: the request sets `ef` or `exact`.
fn target_recall(check: &mut Check, field: &str, target: Option<f64>, chosen: bool) {
    let Some(target) = target else { return };
    if !(target > 0.0 && target < 1.0) {
        check.fail(field, format!("expected a number above 0 and below 1, got {target}"));
    } else if chosen {
        check.fail(field, "expected neither `ef` nor `exact` with it: it chooses `ef` itself");
    }
}

/// Checks one question.
pub fn search_request(request: &v1::SearchRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    search_fields(&mut check, "", request);
    check.done()
}

/// Checks a batch of questions.
pub fn search_batch_request(request: &v1::SearchBatchRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    check.count("requests", request.requests.len(), limits::MAX_BATCH);
    for (i, one) in request.requests.iter().enumerate().take(limits::MAX_BATCH) {
        search_fields(&mut check, &format!("requests[{i}]."), one);
    }
    // A batch is answered as a whole: its hits are in memory together.
    let lists = |one: &v1::SearchRequest| if one.mode() == v1::Mode::Compare { 3 } else { 1 };
    // A fused ranking holds all hits of both rankings before the best k are kept.
    let fuses = |one: &v1::SearchRequest| matches!(one.mode(), v1::Mode::Hybrid | v1::Mode::Compare);
    let depth = |one: &v1::SearchRequest| {
        let wanted = one.offset.saturating_add(one.k);
        if fuses(one) { wanted.max(one.fusion_depth) } else { wanted }
    };
    let hits: u64 = request.requests.iter().map(|one| u64::from(depth(one)) * lists(one)).sum();
    if hits > limits::MAX_BATCH_HITS {
        let limit = limits::MAX_BATCH_HITS;
        check.fail(
            "requests",
            format!("expected at most {limit} hits in all, got {hits}. Send smaller batches, or a stream"),
        );
    }
    check.done()
}

/// Checks a list of keys.
pub fn get_documents_request(request: &v1::GetDocumentsRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    check.count("keys", request.keys.len(), limits::MAX_KEYS);
    // A key that is repeated a thousand times would return its document a thousand times.
    let mut seen = HashSet::new();
    for (i, key) in request.keys.iter().enumerate().take(limits::MAX_KEYS) {
        if !seen.insert(key) {
            check.fail(format!("keys[{i}]"), format!("expected each key once, got `{key}` again"));
        }
    }
    fields(&mut check, "", &request.fields);
    check.done()
}

/// Checks a request to explain a document.
pub fn explain_request(request: &v1::ExplainRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    check.key("key", &request.key);
    match &request.search {
        None => check.fail("search", "expected the search to explain, got none"),
        Some(search) if search.mode() == v1::Mode::Compare => {
            let modes = "MODE_DENSE (1), MODE_BM25 (2) or MODE_HYBRID (3)";
            check.fail("search.mode", format!("expected {modes}: a comparison is of all three, explain each"));
        }
        Some(search) => search_fields(&mut check, "search.", search),
    }
    check.done()
}

/// Checks documents to add or replace, but for their metadata, which are left to who parses them.
pub fn upsert_request(request: &v1::UpsertRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    check.count("documents", request.documents.len(), limits::MAX_CHANGED);
    for (i, document) in request.documents.iter().enumerate().take(limits::MAX_CHANGED) {
        check.key(&format!("documents[{i}].key"), &document.key);
        let text = if document.text.trim().is_empty() { &document.title } else { &document.text };
        check.text(&format!("documents[{i}].text"), text, limits::MAX_TEXT_BYTES);
        let bytes = document.title.len() + document.text.len();
        if bytes > limits::MAX_TEXT_BYTES {
            let limit = limits::MAX_TEXT_BYTES;
            check.fail(
                format!("documents[{i}]"),
                format!("expected title and text of at most {limit} bytes, got {bytes}"),
            );
        }
    }
    check.done()
}

/// Checks keys of documents to delete.
pub fn delete_request(request: &v1::DeleteRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    check.count("keys", request.keys.len(), limits::MAX_CHANGED);
    for (i, key) in request.keys.iter().enumerate().take(limits::MAX_CHANGED) {
        check.key(&format!("keys[{i}]"), key);
    }
    check.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(change: impl FnOnce(&mut v1::SearchRequest)) -> String {
        let mut request = v1::SearchRequest { query: "why".into(), mode: 1, k: 10, ..Default::default() };
        change(&mut request);
        search_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".into())
    }

    #[test]
    fn every_bad_field_of_a_search_is_named() {
        assert_eq!(search(|_| ()), "fine");
        assert_eq!(search(|r| r.k = 0), "invalid request: `k`: expected 1 to 10000, got 0");
        assert_eq!(search(|r| r.k = 1_000_000), "invalid request: `k`: expected 1 to 10000, got 1000000");
        assert!(search(|r| r.mode = 77).contains("`mode`: expected MODE_DENSE (1)"));
        assert!(search(|r| r.fusion = 3).contains("`fusion`: expected FUSION_UNSPECIFIED (0)"));
        assert!(search(|r| (r.fusion, r.rrf_k) = (2, 60)).contains("`rrf_k`: expected 0 with FUSION_WEIGHTED_SUM"));
        assert!(
            search(|r| r.dense_weight = Some(1.01)).contains("`dense_weight`: expected a number from 0 to 1, got 1.01")
        );
        assert!(
            search(|r| r.dense_weight = Some(f64::NAN))
                .contains("`dense_weight`: expected a number from 0 to 1, got NaN")
        );
        assert!(search(|r| r.mode = 0).contains("got 0"));
        assert!(search(|r| r.query = "  ".into()).contains("`query`: expected text, got none"));
        assert!(search(|r| r.query = "x".repeat(1_000_000)).contains("expected at most 32768 bytes, got 1000000"));
        assert!(search(|r| r.ef = 1_000_000).contains("`ef`"));
        assert_eq!(search(|r| r.fingerprint = "f00d".into()), "fine");
        assert!(search(|r| r.fingerprint = "x".repeat(1025)).contains("`fingerprint`: expected at most 1024 bytes"));
        assert_eq!(search(|r| r.target_recall = Some(0.99)), "fine");
        for target in [0.0, 1.0, -0.5, f64::NAN] {
            assert!(search(|r| r.target_recall = Some(target)).contains("`target_recall`: expected a number above 0"));
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
        assert_eq!(search(|r| r.fields = vec!["title".into(), "author.name".into()]), "fine");
        assert!(search(|r| r.fields = vec!["a".into(), " ".into()]).contains("`fields[1]`: expected text, got none"));
        assert!(search(|r| r.fields = vec!["a".into(); 65]).contains("`fields`: expected at most 64 names, got 65"));
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
        assert!(with(&[1.0], |r| r.mode = 2).contains("`vector`: expected none in MODE_BM25"));
        assert!(with(&[1.0], |r| r.fingerprint.clear()).contains("`fingerprint`: expected that of the model"));
        assert!(with(&[1.0, f32::NAN], |_| ()).contains("`vector`: expected finite values, got another at position 1"));
        assert!(with(&[0.0, -0.0], |_| ()).contains("`vector`: expected a direction, got zeros alone"));
        let long = with(&vec![1.0; limits::MAX_DIM + 1], |_| ());
        assert!(long.contains("`vector`: expected at most 65536 values, got 65537"), "{long}");
    }

    #[test]
    fn a_batch_names_the_request() {
        let request = v1::SearchRequest { query: "why".into(), mode: 2, k: 10, ..Default::default() };
        let requests = vec![request.clone(), v1::SearchRequest { k: 0, ..request }];
        let error = search_batch_request(&v1::SearchBatchRequest { requests }).unwrap_err();
        assert_eq!(error.0[0].field, "requests[1].k");
        assert!(search_batch_request(&v1::SearchBatchRequest::default()).is_err());
        let large = v1::SearchRequest { query: "why".into(), mode: 4, k: 10_000, ..Default::default() };
        let error = search_batch_request(&v1::SearchBatchRequest { requests: vec![large; 7] }).unwrap_err();
        assert!(error.to_string().contains("`requests`: expected at most 200000 hits in all, got 210000"), "{error}");
        let late = v1::SearchRequest { query: "why".into(), mode: 1, k: 10, offset: 9_990, ..Default::default() };
        let error = search_batch_request(&v1::SearchBatchRequest { requests: vec![late; 21] }).unwrap_err();
        assert!(error.to_string().contains("got 210000"), "{error}");
        let deep =
            v1::SearchRequest { query: "why".into(), mode: 3, k: 10, fusion_depth: 10_000, ..Default::default() };
        let error = search_batch_request(&v1::SearchBatchRequest { requests: vec![deep; 21] }).unwrap_err();
        assert!(error.to_string().contains("got 210000"), "{error}");
    }

    #[test]
    fn keys_are_asked_for_once() {
        let keys = |keys: &[&str]| v1::GetDocumentsRequest {
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            ..Default::default()
        };
        assert!(get_documents_request(&keys(&["a", "b"])).is_ok());
        let error = get_documents_request(&keys(&["a", "b", "a"])).unwrap_err().to_string();
        assert_eq!(error, "invalid request: `keys[2]`: expected each key once, got `a` again");
    }

    #[test]
    fn every_bad_field_of_an_explanation_is_named() {
        let explain = |change: fn(&mut v1::ExplainRequest)| {
            let search = v1::SearchRequest { query: "why".into(), mode: 3, k: 10, ..Default::default() };
            let mut request = v1::ExplainRequest { key: "k".into(), search: Some(search) };
            change(&mut request);
            explain_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".into())
        };
        assert_eq!(explain(|_| ()), "fine");
        assert!(explain(|r| r.key.clear()).contains("`key`: expected text, got none"));
        assert!(explain(|r| r.search = None).contains("`search`: expected the search to explain, got none"));
        let search = |change: fn(&mut v1::SearchRequest)| {
            let mut search = v1::SearchRequest { query: "why".into(), mode: 1, k: 10, ..Default::default() };
            change(&mut search);
            let request = v1::ExplainRequest { key: "k".into(), search: Some(search) };
            explain_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".into())
        };
        assert!(search(|r| r.k = 10_001).contains("`search.k`: expected 1 to 10000, got 10001"));
        assert!(search(|r| r.mode = 4).contains("`search.mode`: expected MODE_DENSE (1), MODE_BM25 (2) or"));
        assert!(
            search(|r| (r.ef, r.target_recall) = (9, Some(0.9))).contains("`search.target_recall`: expected neither")
        );
    }

    #[test]
    fn texts_to_embed_are_checked_one_by_one() {
        let request = v1::EncodeRequest { tower: 2, texts: vec!["a".into(), " ".into()], ..Default::default() };
        let error = encode_request(&request).unwrap_err();
        assert_eq!(error.to_string(), "invalid request: `texts[1]`: expected text, got none");
        let many = v1::EncodeRequest { tower: 0, texts: vec![String::new(); 5000], ..Default::default() };
        assert_eq!(encode_request(&many).unwrap_err().0.len(), 16);
        let torn = v1::EncodeRequest { tower: 2, texts: vec!["a".into()], truncation: 2, ..Default::default() };
        let message = encode_request(&torn).unwrap_err().to_string();
        assert!(message.contains("`truncation`: expected TRUNCATION_TRUNCATE (0)") && message.ends_with("got 2"));
        let status = tonic::Status::from(error);
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
    }
}
