//! Filters, wanted recall and batches, through gRPC.

use dyad_index::{Certificate, FilteredRecall, QuerySource, RecallPoint};
use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value;

use dyad_searcher::run::EngineConfig;

use crate::fixture::{keys, one_rank, request, searcher, searcher_over, write_certified_index};

fn number(number: f64) -> v1::FilterValue {
    v1::FilterValue {
        value: Some(Value::Number(number)),
    }
}

fn from_condition(condition: Condition) -> v1::Filter {
    v1::Filter {
        condition: Some(condition),
    }
}

/// Documents `min..=max` by their metadata field `place.number`.
fn between(min: usize, max: usize) -> v1::Filter {
    let (min, max) = (Some(number(min as f64)), Some(number(max as f64)));
    from_condition(Condition::Range(v1::FieldRange {
        field: "place.number".into(),
        min,
        max,
        ..Default::default()
    }))
}

fn filtered(mode: Mode, query: &str, k: u32, filter: v1::Filter) -> v1::SearchRequest {
    v1::SearchRequest {
        filter: Some(filter),
        ..request(mode, query, k)
    }
}

#[tokio::test]
async fn a_filtered_ranking_is_the_whole_ranking_without_the_others() {
    let server = searcher().await;
    let query = "the bright planet number 20";
    let passes = |key: &str| ("doc-10".."doc-30").contains(&key);
    for mode in [Mode::Dense, Mode::Bm25] {
        let whole = server.client.search(request(mode, query, 60)).await.unwrap();
        for k in [5, 60] {
            let reply = server
                .client
                .search(filtered(mode, query, k, between(10, 29)))
                .await
                .unwrap();
            let expected: Vec<(&str, f32)> = whole.hits.iter().map(|hit| (hit.key.as_str(), hit.score)).collect();
            let expected: Vec<_> = expected
                .into_iter()
                .filter(|(key, _)| passes(key))
                .take(k as usize)
                .collect();
            assert_eq!(
                reply
                    .hits
                    .iter()
                    .map(|hit| (hit.key.as_str(), hit.score))
                    .collect::<Vec<_>>(),
                expected
            );
            assert!(!reply.hits.is_empty());
        }
    }
    let exact = v1::SearchRequest {
        exact: true,
        ..filtered(Mode::Dense, query, 60, between(10, 29))
    };
    let reply = server.client.search(exact).await.unwrap();
    assert_eq!((reply.hits.len(), reply.distance_computations), (20, 20));
    assert_eq!(
        reply.filter,
        Some(v1::FilterExecution {
            documents: 20,
            scanned_shards: 2,
            graph_shards: 0,
            cached: false
        })
    );
    let bm25 = server
        .client
        .search(filtered(Mode::Bm25, query, 5, between(10, 29)))
        .await
        .unwrap();
    assert_eq!(
        bm25.filter,
        Some(v1::FilterExecution {
            documents: 20,
            scanned_shards: 0,
            graph_shards: 0,
            cached: false
        })
    );
    assert_eq!(
        server
            .client
            .search(request(Mode::Dense, query, 5))
            .await
            .unwrap()
            .filter,
        None
    );
    let hybrid = server
        .client
        .search(filtered(Mode::Hybrid, query, 60, between(10, 29)))
        .await
        .unwrap();
    assert_eq!(hybrid.hits.len(), 20);
    let ranks = |part: fn(&v1::Hit) -> Option<v1::Placement>| {
        let mut ranks: Vec<u32> = hybrid
            .hits
            .iter()
            .filter_map(|hit| part(hit).map(|place| place.rank))
            .collect();
        ranks.sort_unstable();
        ranks
    };
    assert_eq!(
        ranks(|hit| hit.dense),
        (1..=20).collect::<Vec<_>>(),
        "ranks are those among what passes"
    );
    let compared = server
        .client
        .search(filtered(Mode::Compare, query, 7, between(10, 29)))
        .await
        .unwrap();
    let all = compared.comparison.unwrap();
    assert_eq!(keys(&all.hybrid), keys(&hybrid.hits)[..7]);
    assert!(
        [&all.dense, &all.bm25]
            .iter()
            .all(|hits| hits.iter().all(|hit| passes(&hit.key)))
    );
    assert!(compared.timings.unwrap().filter_us > 0);
}

#[tokio::test]
async fn a_filter_that_nothing_passes_gives_no_hits_and_a_bad_one_is_named() {
    let server = searcher().await;
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
        let reply = server
            .client
            .search(filtered(mode, "river", 5, between(100, 200)))
            .await
            .unwrap();
        assert!(reply.hits.is_empty() && !reply.degraded);
    }
    let keys = from_condition(Condition::Keys(v1::FilterKeys {
        keys: vec!["doc-07".into(), "absent".into()],
    }));
    let reply = server
        .client
        .search(filtered(Mode::Dense, "river", 5, keys))
        .await
        .unwrap();
    assert_eq!(crate::fixture::keys(&reply.hits), ["doc-07"]);
    let bad = from_condition(Condition::All(v1::FilterList {
        filters: vec![between(1, 2), v1::Filter::default()],
    }));
    let error = server
        .client
        .search(filtered(Mode::Dense, "river", 5, bad.clone()))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("`filter.all.filters[1]`: expected one of"), "{error}");
    let requests = vec![request(Mode::Dense, "river", 5), filtered(Mode::Dense, "river", 5, bad)];
    let error = server
        .client
        .search_batch(v1::SearchBatchRequest { requests })
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("`requests[1].filter.all.filters[1]`"), "{error}");
}

#[tokio::test]
async fn ends_may_be_left_out_and_what_no_document_has_is_told() {
    let server = searcher().await;
    let (above, below) = (Some(number(9.0)), Some(number(12.0)));
    let range = v1::FieldRange {
        field: "place.number".into(),
        above,
        below,
        ..Default::default()
    };
    let ask = |filter| server.client.search(filtered(Mode::Dense, "river", 60, filter));
    let reply = ask(from_condition(Condition::Range(range))).await.unwrap();
    let mut found = keys(&reply.hits);
    found.sort_unstable();
    assert_eq!((found, reply.notes.len()), (vec!["doc-10", "doc-11"], 0));
    let equals = |field: &str, value: Value| {
        let value = Some(v1::FilterValue { value: Some(value) });
        from_condition(Condition::Equals(v1::FieldEquals {
            field: field.into(),
            value,
        }))
    };
    let exists = |field: &str| from_condition(Condition::Exists(v1::FieldExists { field: field.into() }));
    for (filter, hits, notes) in [
        (exists("place"), 60, 0),
        (exists("place.number"), 60, 0),
        (exists("place.name"), 0, 1),
        (from_condition(Condition::Not(Box::new(exists("lang")))), 0, 0),
    ] {
        let reply = ask(filter.clone()).await.unwrap();
        assert_eq!((reply.hits.len(), reply.notes.len()), (hits, notes), "{filter:?}");
    }
    let wrong = from_condition(Condition::Any(v1::FilterList {
        filters: vec![
            equals("nofield", Value::Number(3.0)),
            equals("place.number", Value::Text("7".into())),
            equals("lang", Value::Text("none".into())),
        ],
    }));
    let told = [
        "no document has a field `nofield`",
        "no document has a text in field `place.number`, which holds numbers",
    ];
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid, Mode::Compare] {
        let reply = server
            .client
            .search(filtered(mode, "river", 5, wrong.clone()))
            .await
            .unwrap();
        assert_eq!((reply.hits.len(), reply.notes), (0, told.map(String::from).to_vec()));
    }
    let requests = vec![
        request(Mode::Dense, "river", 5),
        filtered(Mode::Bm25, "river", 5, wrong),
    ];
    let batch = server
        .client
        .search_batch(v1::SearchBatchRequest { requests })
        .await
        .unwrap()
        .responses;
    assert_eq!((batch[0].notes.len(), batch[1].notes.len()), (0, 2));
}

#[tokio::test]
async fn a_batch_of_many_kinds_answers_as_single_requests_do() {
    let server = searcher().await;
    let modes = [Mode::Dense, Mode::Bm25, Mode::Hybrid, Mode::Compare];
    let requests: Vec<_> = (0..96u64)
        .map(|id| {
            let n = id as usize;
            v1::SearchRequest {
                id,
                filter: [None, Some(between(10, 29)), Some(between(0, 57))][n % 3].clone(),
                exact: n.is_multiple_of(7),
                ef: if n.is_multiple_of(5) { 40 } else { 0 },
                target_recall: (!n.is_multiple_of(7) && !n.is_multiple_of(5) && n.is_multiple_of(2)).then_some(0.9),
                ..request(
                    modes[n / 3 % 4],
                    &format!("quick golden bird number {id}"),
                    3 + (id % 2) as u32,
                )
            }
        })
        .collect();
    let batch = v1::SearchBatchRequest {
        requests: requests.clone(),
    };
    let batch = server.client.search_batch(batch).await.unwrap().responses;
    assert_eq!(batch.len(), requests.len());
    for (request, batched) in requests.into_iter().zip(batch) {
        let alone = v1::SearchBatchRequest {
            requests: vec![request.clone()],
        };
        let alone = server.client.search_batch(alone).await.unwrap().responses.remove(0);
        let single = server.client.search(request).await.unwrap();
        let timings = single.timings;
        assert_eq!(v1::SearchResponse { timings, ..batched }, single);
        assert_eq!(v1::SearchResponse { timings, ..alone }, single);
    }
}

#[tokio::test]
async fn a_wanted_recall_chooses_ef_and_says_what_is_not_measured() {
    let server = searcher().await;
    let wanted = |target, mode, k| v1::SearchRequest {
        target_recall: Some(target),
        ..request(mode, "river", k)
    };
    // One shard measured 0.9 at 48 and 0.99 at 200, the other 0.9 at 64 and 0.98 at 300.
    let reply = server.client.search(wanted(0.9, Mode::Dense, 10)).await.unwrap();
    assert_eq!((reply.ef, reply.recall_note.as_str()), (64, ""));
    let reply = server.client.search(wanted(0.97, Mode::Dense, 10)).await.unwrap();
    assert_eq!((reply.ef, reply.recall_note.as_str()), (300, ""));
    let reply = server.client.search(wanted(0.985, Mode::Dense, 10)).await.unwrap();
    assert_eq!(reply.ef, 300);
    assert!(
        reply
            .recall_note
            .contains("1 of 2 shards measured less than a recall of 0.985"),
        "{}",
        reply.recall_note
    );
    let reply = server.client.search(wanted(0.9, Mode::Bm25, 10)).await.unwrap();
    assert_eq!((reply.ef, reply.recall_note.as_str()), (0, ""));
    let both = v1::SearchRequest {
        ef: 5,
        ..wanted(0.9, Mode::Dense, 10)
    };
    let error = server.client.search(both).await.unwrap_err().to_string();
    assert!(
        error.contains("`target_recall`: expected neither `ef` nor `exact`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_wanted_recall_holds_for_filters_and_the_note_follows_how_they_were_run() {
    let points = |points: &[(usize, f64)]| -> Vec<RecallPoint> {
        let point = |&(ef, recall_at_10): &(usize, f64)| RecallPoint {
            ef,
            recall_at_10,
            recall_at_100: None,
            distance_computations: 0.0,
            scored: 0.0,
        };
        points.iter().map(point).collect()
    };
    let certificate = |part: usize, vectors: usize| Certificate {
        vectors: vectors as u64,
        source: QuerySource::HeldOut,
        calibration: one_rank(),
        adaptive: points(&[(18, 0.95), (19, 0.99)]),
        filtered: [
            Some(vec![FilteredRecall {
                share: 0.5,
                recall: points(&[(18, 0.8), (20, 0.95)]),
            }]),
            None,
        ][part]
            .clone(),
        ..Certificate::default()
    };
    // Enough that the graph is searched where all of them are allowed.
    let documents: Vec<(String, String)> = (0..14_600)
        .map(|i| (format!("doc-{i:02}"), format!("number {i} of hill {}", i * 7 % 501)))
        .collect();
    let index = tempfile::tempdir().unwrap();
    write_certified_index(&documents, index.path(), 1, "f00d", certificate);
    let server = searcher_over(index, EngineConfig::default()).await;
    let ask = |filter| {
        let query = v1::SearchRequest {
            target_recall: Some(0.9),
            filter,
            ..request(Mode::Dense, "hill 77", 1)
        };
        let client = &server.client;
        async move { client.search(query).await.unwrap() }
    };
    let plain = ask(None).await;
    assert_eq!((plain.ef, plain.recall_note.as_str(), plain.filter), (18, "", None));
    let all = ask(Some(between(0, 14_600))).await;
    assert_eq!((all.ef, all.filter.unwrap().graph_shards), (20, 2));
    let note = &all.recall_note;
    assert!(
        note.starts_with("1 of 2 shards measured recall without filters only") && note.contains("by chance"),
        "{note}"
    );
    let few = ask(Some(between(0, 300))).await;
    assert_eq!(
        (
            few.filter.unwrap().scanned_shards,
            few.recall_note.as_str(),
            few.hits.len()
        ),
        (2, "", 1)
    );
}
