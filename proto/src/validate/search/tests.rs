//! Requests that may be answered, and the fields of others that are named.

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
        search(|r| r.dense_weight = Some(f64::NAN)).contains("`dense_weight`: expected a number from 0 to 1, got NaN")
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
    assert!(search(|r| (r.target_recall, r.ef) = (Some(0.9), 64)).contains("`target_recall`: expected neither `ef`"));
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
        assert!(search(|r| r.snippet_bytes = bytes).contains("`snippet_bytes`: expected 0 for none, or 16 to 4096"));
    }
    assert_eq!(
        search(|r| r.fields = vec!["title".into(), "author.name".into()]),
        "fine"
    );
    assert!(search(|r| r.fields = vec!["a".into(), " ".into()]).contains("`fields[1]`: expected text, got none"));
    assert!(search(|r| r.fields = vec!["a".into(); 65]).contains("`fields`: expected at most 64 entries, got 65"));
    assert!(search(|r| (r.fields, r.keys_only) = (vec!["a".into()], true)).contains("`fields`: expected none with"));
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
