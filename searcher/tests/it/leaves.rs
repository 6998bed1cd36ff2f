//! A root over leaves answers as one process that has all shards: hit for hit and score for score.

use std::time::Duration;

use dyad_proto::access::Caller;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value;
use dyad_proto::v1::{self, Fusion, Mode};
use dyad_searcher::Engine;
use dyad_searcher::run::QueuePolicy;

use crate::fixture::{US, documents, request, write_index_of_shards, write_index_with_small_shards};
use crate::leaves_fixture::roots;

const SHARDS: usize = 7;

pub(crate) async fn answer(engine: &Engine, request: v1::SearchRequest, caller: &Caller) -> v1::SearchResponse {
    let time = Some(Duration::from_secs(20));
    let answered = engine.search(request, caller, time, QueuePolicy::Refused).await;
    answered.unwrap().0.into_response()
}

/// An answer without what differs between two runs of one engine: times, and what a cache knew.
fn comparable(mut response: v1::SearchResponse) -> v1::SearchResponse {
    response.timings = None;
    if let Some(filter) = &mut response.filter {
        filter.cached = false;
    }
    response
}

async fn assert_same(root: &Engine, whole: &Engine, asked: v1::SearchRequest, caller: &Caller) {
    let expected = comparable(answer(whole, asked.clone(), caller).await);
    let got = comparable(answer(root, asked.clone(), caller).await);
    assert_eq!(got, expected, "{asked:?}");
}

/// Questions of one, two or more words, of which some are in no document.
fn questions() -> Vec<String> {
    let mut all: Vec<String> = documents().into_iter().step_by(4).map(|(_, text)| text).collect();
    let others = [
        "river",
        "old bird",
        "number 7",
        "zebra",
        "the golden zebra metal",
        "the",
    ];
    all.extend(others.map(str::to_owned));
    all
}

/// Documents of this thing.
fn thing(thing: &str) -> v1::Filter {
    let value = Some(v1::FilterValue {
        value: Some(Value::Text(thing.to_owned())),
    });
    let field = "thing".to_owned();
    v1::Filter {
        condition: Some(Condition::Equals(v1::FieldEquals { field, value })),
    }
}

/// The same question in many forms.
fn forms(query: &str) -> Vec<v1::SearchRequest> {
    let mut forms = Vec::new();
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid, Mode::Compare] {
        forms.push(request(mode, query, 10));
    }
    for fusion in [Fusion::Rrf, Fusion::WeightedSum, Fusion::MinMax] {
        forms.push(v1::SearchRequest {
            fusion: fusion.into(),
            fusion_depth: 20,
            ..request(Mode::Hybrid, query, 7)
        });
    }
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
        forms.push(v1::SearchRequest {
            offset: 10,
            ..request(mode, query, 10)
        });
        forms.push(v1::SearchRequest {
            filter: Some(thing("bird")),
            snippet_bytes: 32,
            fields: vec!["title".into(), "thing".into(), "nonsense".into()],
            ..request(mode, query, 5)
        });
        forms.push(v1::SearchRequest {
            keys_only: true,
            score_threshold: Some(0.4),
            ..request(mode, query, 30)
        });
    }
    forms.push(v1::SearchRequest {
        exact: true,
        max_text_bytes: 16,
        ..request(Mode::Dense, query, 60)
    });
    for (mode, field, hits) in [
        (Mode::Dense, "thing", 1),
        (Mode::Bm25, "thing", 3),
        (Mode::Hybrid, "place.hundred", 2),
        (Mode::Hybrid, "thing", 2),
        (Mode::Hybrid, "nonsense", 1),
    ] {
        forms.push(v1::SearchRequest {
            group_by: Some(v1::GroupBy {
                field: field.into(),
                hits,
            }),
            ..request(mode, query, 4)
        });
    }
    forms.push(v1::SearchRequest {
        target_recall: Some(0.9),
        ..request(Mode::Hybrid, query, 10)
    });
    forms.push(v1::SearchRequest {
        ef: 64,
        ..request(Mode::Dense, query, 10)
    });
    forms
}

/// Calls that read documents without a question.
async fn assert_reads_are_same(root: &Engine, whole: &Engine) {
    let all: Vec<String> = documents().into_iter().map(|(key, _)| key).collect();
    let wanted = v1::GetDocumentsRequest {
        keys: ["doc-41", "absent", "doc-03", "doc-41"].map(str::to_owned).to_vec(),
        fields: vec!["text".into()],
        ..v1::GetDocumentsRequest::default()
    };
    let got = root.documents(wanted.clone(), &US, None).await.unwrap().0;
    assert_eq!(got, whole.documents(wanted, &US, None).await.unwrap().0);
    for filter in [None, Some(thing("bird"))] {
        let count = v1::CountDocumentsRequest {
            filter: filter.clone(),
            ..v1::CountDocumentsRequest::default()
        };
        let got = root.count(count.clone(), &US, None).await.unwrap();
        assert_eq!(got, whole.count(count, &US, None).await.unwrap());
        for page_size in [1, 7, 60, 100] {
            let mut scroll = v1::ScrollDocumentsRequest {
                page_size,
                filter: filter.clone(),
                with_vectors: page_size == 7,
                ..v1::ScrollDocumentsRequest::default()
            };
            loop {
                let got = root.scroll(scroll.clone(), &US, None).await.unwrap().0;
                let expected = whole.scroll(scroll.clone(), &US, None).await.unwrap().0;
                assert_eq!(got, expected, "{scroll:?}");
                if !got.has_more {
                    break;
                }
                scroll.after_key = got.next_after_key;
            }
        }
        let sample = v1::SampleDocumentsRequest {
            count: 20,
            seed: 7,
            filter: filter.clone(),
            ..v1::SampleDocumentsRequest::default()
        };
        let got = root.sample(sample.clone(), &US, None).await.unwrap().0;
        assert_eq!(
            got,
            root.sample(sample.clone(), &US, None).await.unwrap().0,
            "the same seed"
        );
        let expected = whole.sample(sample, &US, None).await.unwrap().0;
        assert_eq!((got.of, got.documents.len()), (expected.of, expected.documents.len()));
        let distinct: std::collections::BTreeSet<&str> =
            got.documents.iter().map(|document| document.key.as_str()).collect();
        assert!(distinct.len() == got.documents.len() && distinct.iter().all(|key| all.iter().any(|one| one == key)));
    }
    let fields = v1::ListFieldsRequest::default();
    let got = root.fields(fields.clone(), &US, None).await.unwrap();
    assert_eq!(got, whole.fields(fields, &US, None).await.unwrap());
}

/// Explanations of documents of every kind: hits, others, and one that is not there.
async fn assert_explanations_are_same(root: &Engine, whole: &Engine, query: &str) {
    for (mode, filter, group_by) in [
        (Mode::Dense, None, None),
        (Mode::Bm25, Some(thing("bird")), None),
        (Mode::Hybrid, None, Some("thing")),
        (Mode::Hybrid, Some(thing("river")), None),
    ] {
        for key in ["doc-00", "doc-17", "doc-41", "doc-59"] {
            let search = v1::SearchRequest {
                filter: filter.clone(),
                group_by: group_by.map(|field: &str| v1::GroupBy {
                    field: field.to_owned(),
                    hits: 1,
                }),
                ..request(mode, query, 5)
            };
            let time = Some(Duration::from_secs(10));
            let got = root.explain(search.clone(), key.to_owned(), &US, time).await.unwrap().0;
            let expected = whole.explain(search, key.to_owned(), &US, time).await.unwrap().0;
            assert_eq!(got, expected, "{mode:?} {key} {query}");
        }
    }
    let absent = root
        .explain(request(Mode::Hybrid, query, 5), "absent".to_owned(), &US, None)
        .await;
    assert!(matches!(absent, Err(dyad_searcher::Error::NoDocument(key)) if key == "absent"));
}

#[tokio::test(flavor = "multi_thread")]
async fn small_shards_are_searched_after_the_others_as_in_one_process() {
    let index = tempfile::tempdir().unwrap();
    write_index_with_small_shards(&documents(), index.path(), 5);
    let all = roots(index.path(), 3, 1).await;
    let mut of_small = 0;
    for query in questions() {
        for fusion in [Fusion::MinMax, Fusion::WeightedSum] {
            let asked = v1::SearchRequest {
                fusion: fusion.into(),
                fusion_depth: 20,
                ..request(Mode::Hybrid, &query, 10)
            };
            let found = answer(&all.root, asked.clone(), &US).await;
            let is_small = |hit: &&v1::Hit| documents().iter().take(10).any(|(key, _)| *key == hit.key);
            of_small += found.hits.iter().filter(is_small).count();
            assert_same(&all.root, &all.whole, asked, &US).await;
        }
        assert_same(&all.root, &all.whole, request(Mode::Dense, &query, 10), &US).await;
    }
    assert!(of_small > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_answers_as_one_process() {
    let index = tempfile::tempdir().unwrap();
    write_index_of_shards(&documents(), index.path(), 1, SHARDS);
    for (count, replicas) in [(1, 1), (4, 1), (4, 2)] {
        let all = roots(index.path(), count, replicas).await;
        assert_reads_are_same(&all.root, &all.whole).await;
        for query in questions().iter().take(4) {
            assert_explanations_are_same(&all.root, &all.whole, query).await;
        }
        for query in questions() {
            for asked in forms(&query) {
                assert_same(&all.root, &all.whole, asked, &US).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_one_ranking_come_with_the_search() {
    let index = tempfile::tempdir().unwrap();
    write_index_of_shards(&documents(), index.path(), 1, SHARDS);
    let all = roots(index.path(), 1, 1).await;
    let generation = all.root.indexes().next().unwrap().generation().name().clone();
    let status = || all.root.leaves().unwrap().status(&generation);
    let calls = || status().iter().map(|leaf| leaf.calls).sum::<u64>();
    for (asked, expected) in [
        // A search.
        (request(Mode::Dense, "old bird", 10), 1),
        // Counts of terms, and a search.
        (request(Mode::Bm25, "old bird", 10), 2),
        // Too many, so that they are fetched.
        (request(Mode::Dense, "old bird", 40), 2),
        (request(Mode::Hybrid, "old bird", 10), 3),
    ] {
        let before = calls();
        let answered = answer(&all.root, asked.clone(), &US).await;
        assert!(answered.hits.iter().all(|hit| hit.document.is_some()), "{asked:?}");
        assert_eq!(calls() - before, expected, "{asked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_leaves_are_asked_for_the_same_filter() {
    let index = tempfile::tempdir().unwrap();
    write_index_of_shards(&documents(), index.path(), 1, SHARDS);
    let all = roots(index.path(), 4, 2).await;
    let asked = v1::SearchRequest {
        filter: Some(thing("bird")),
        ..request(Mode::Dense, "old bird", 5)
    };
    let mut known = Vec::new();
    for _ in 0..20 {
        let filter = answer(&all.root, asked.clone(), &US).await.filter.unwrap();
        known.push(filter.cached);
    }
    assert!(!known[0], "{known:?}");
    // But where one of them was much slower than others for once.
    assert!(known.iter().filter(|known| **known).count() >= 15, "{known:?}");
}
