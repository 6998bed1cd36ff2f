//! Every mode against its definition.

use std::time::Duration;

use dyad_proto::v1::{self, Mode};
use dyad_searcher::run::EngineConfig;
use tokio_stream::StreamExt as _;

use crate::fields::metadata;
use crate::fixture::{MAX_TOKENS, documents, embed, keys, request, searcher, searcher_over, write_index_of};

/// Documents by inner product with a question, ties by key.
fn nearest(query: &str) -> Vec<(String, f32)> {
    let question = embed(query);
    let score = |text: &str| embed(text).iter().zip(&question).map(|(a, b)| a * b).sum::<f32>();
    let mut scored: Vec<_> = documents().into_iter().map(|(key, text)| (key, score(&text))).collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored
}

#[tokio::test]
async fn dense_hits_are_the_nearest_vectors_with_their_documents() {
    let server = searcher().await;
    let query = "the bright planet";
    for exact in [false, true] {
        let reply = server
            .client
            .search(v1::SearchRequest {
                exact,
                ..request(Mode::Dense, query, 5)
            })
            .await
            .unwrap();
        let expected = nearest(query);
        for (hit, (_, score)) in reply.hits.iter().zip(&expected) {
            assert!((hit.score - score).abs() < 1e-5);
            assert_eq!(hit.dense.unwrap().rank, hit.rank);
            assert!(hit.bm25.is_none());
            let (key, text) = documents().into_iter().find(|(key, _)| *key == hit.key).unwrap();
            let document = hit.document.as_ref().unwrap();
            assert_eq!(
                (&document.key, &document.text, document.title.as_str()),
                (&key, &text, "Title")
            );
            assert_eq!(document.metadata_json, metadata(&key));
        }
        assert_eq!(
            (reply.hits.len(), reply.generation, reply.fingerprint.as_str()),
            (5, 1, "f00d")
        );
        assert_eq!(reply.ef, if exact { 0 } else { 128 });
        // A graph search estimates a node from its sketch before it compares codes and vectors; a scan compares each
        // vector once.
        let compared = reply.distance_computations;
        assert!(if exact { compared == 60 } else { compared >= 60 }, "{compared}");
        assert!(reply.timings.unwrap().total_us > 0 && !reply.degraded);
    }
}

#[tokio::test]
async fn bm25_finds_the_word_and_needs_no_vector() {
    let server = searcher().await;
    server.encoder.broken.store(true, std::sync::atomic::Ordering::SeqCst);
    let reply = server.client.search(request(Mode::Bm25, "number 37", 3)).await.unwrap();
    assert_eq!(reply.hits[0].key, "doc-37");
    assert_eq!(reply.hits[0].bm25.unwrap().rank, 1);
    assert_eq!((reply.ef, reply.distance_computations, reply.degraded), (0, 0, false));
}

#[tokio::test]
async fn hybrid_is_the_fusion_of_both_rankings() {
    let server = searcher().await;
    let query = "silent golden composer 46";
    let ask = |mode| {
        server.client.search(v1::SearchRequest {
            keys_only: true,
            ..request(mode, query, 60)
        })
    };
    let (dense, bm25) = (ask(Mode::Dense).await.unwrap(), ask(Mode::Bm25).await.unwrap());
    let rrf = v1::SearchRequest {
        keys_only: true,
        rrf_k: 60,
        ..request(Mode::Hybrid, query, 60)
    };
    let hybrid = server.client.search(rrf).await.unwrap();
    let part = |hits: &[v1::Hit], key: &str| {
        hits.iter()
            .find(|hit| hit.key == key)
            .map_or(0.0, |hit| 1.0 / (60.0 + f64::from(hit.rank)))
    };
    let sum = |key: &str| part(&dense.hits, key) + part(&bm25.hits, key);
    let mut expected: Vec<(String, f64)> = documents()
        .into_iter()
        .map(|(key, _)| (key.clone(), sum(&key)))
        .collect();
    expected.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    assert_eq!(
        keys(&hybrid.hits),
        expected.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>()
    );
    for hit in &hybrid.hits {
        assert!((f64::from(hit.score) - sum(&hit.key)).abs() < 1e-7);
        assert!(hit.document.is_none(), "keys_only");
        assert_eq!(
            hit.dense.map(|place| place.rank),
            dense.hits.iter().find(|other| other.key == hit.key).map(|hit| hit.rank)
        );
    }
}

#[tokio::test]
async fn compare_holds_what_the_three_modes_answer() {
    let server = searcher().await;
    let query = "old river number 0";
    let reply = server.client.search(request(Mode::Compare, query, 7)).await.unwrap();
    let all = reply.comparison.unwrap();
    assert!(reply.hits.is_empty());
    for (mode, hits) in [
        (Mode::Dense, &all.dense),
        (Mode::Bm25, &all.bm25),
        (Mode::Hybrid, &all.hybrid),
    ] {
        let alone = server.client.search(request(mode, query, 7)).await.unwrap();
        assert_eq!(keys(hits), keys(&alone.hits), "{mode:?}");
    }
    let shared = keys(&all.dense)
        .iter()
        .filter(|key| keys(&all.bm25).contains(key))
        .count();
    assert!((all.overlap_dense_bm25 - shared as f32 / 7.0).abs() < 1e-6);
    let timings = reply.timings.unwrap();
    assert!(timings.total_us >= timings.dense_us.max(timings.bm25_us));
}

/// Forty documents of four texts, in two shards: the cut falls among equals of both, in another order by key than by
/// place.
#[tokio::test]
async fn ties_across_shards_are_broken_by_key_before_the_cut() {
    let texts = ["the old river", "the old bird", "the quick river", "a planet"];
    let documents: Vec<(String, String)> = (0..40)
        .map(|at| (format!("doc-{:02}", at * 7 % 40), texts[at / 2 % 4].to_owned()))
        .collect();
    let index = tempfile::tempdir().unwrap();
    write_index_of(&documents, index.path(), 1, "f00d");
    let server = searcher_over(index, EngineConfig::default()).await;
    let query = "old river";
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
        for exact in [false, mode == Mode::Dense] {
            let ask = |k| {
                server.client.search(v1::SearchRequest {
                    exact,
                    ..request(mode, query, k)
                })
            };
            let all = ask(40).await.unwrap().hits;
            // The whole ranking is a full sort by score and key, and a shorter one begins as it does. Fused sums are of
            // places, which differ.
            if mode != Mode::Hybrid {
                assert!(
                    all.is_sorted_by(|a, b| b.score.total_cmp(&a.score).then(a.key.cmp(&b.key)).is_le()),
                    "{mode:?}"
                );
                assert!(
                    all.chunk_by(|a, b| a.score.total_cmp(&b.score).is_eq())
                        .all(|tied| tied.len() >= 10)
                );
            }
            assert!(all.len() >= 30, "{mode:?}");
            for k in [1, 3, 9, 10, 11, 25] {
                assert_eq!(
                    keys(&ask(k).await.unwrap().hits),
                    keys(&all)[..k as usize],
                    "{mode:?} {k}"
                );
            }
        }
    }
}

#[tokio::test]
async fn batches_and_streams_answer_as_single_requests_do() {
    let server = searcher().await;
    let modes = [Mode::Dense, Mode::Bm25, Mode::Hybrid, Mode::Compare];
    let requests: Vec<_> = (0..40u64)
        .map(|id| v1::SearchRequest {
            id,
            ..request(modes[id as usize % 4], &format!("quick bird number {id}"), 4)
        })
        .collect();
    let batch = v1::SearchBatchRequest {
        requests: requests.clone(),
    };
    let batch = server.client.search_batch(batch).await.unwrap().responses;
    let mut stream = server
        .client
        .search_stream(tokio_stream::iter(requests.clone()), Duration::from_mins(1))
        .await
        .unwrap();
    for (request, from_batch) in requests.into_iter().zip(batch) {
        let from_stream = stream.next().await.unwrap().unwrap();
        assert_eq!(from_stream.id, request.id);
        let single = server.client.search(request).await.unwrap();
        for other in [from_batch, from_stream.response.unwrap()] {
            assert_eq!(
                (&other.hits, &other.comparison, other.mode),
                (&single.hits, &single.comparison, single.mode)
            );
        }
    }
}

#[tokio::test]
async fn pages_are_parts_of_one_ranking() {
    let server = searcher().await;
    let query = "the bright planet number 20";
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
        // With one depth of fusion, deep enough for the last page.
        let ask = |offset, k| {
            let request = v1::SearchRequest {
                offset,
                fusion_depth: 60,
                ..request(mode, query, k)
            };
            async { server.client.search(request).await.unwrap().hits }
        };
        let whole = ask(0, 60).await;
        assert!(whole.len() >= 30, "{mode:?}");
        let mut pages = Vec::new();
        for page in 0..9 {
            pages.extend(ask(page * 7, 7).await);
        }
        assert_eq!(pages, whole, "{mode:?}: ranks go on");
        assert!(ask(60, 7).await.is_empty());
        // A threshold ends a ranking where its scores fall below it, on any page.
        let least = whole[12].score;
        let passing = whole.iter().filter(|hit| hit.score >= least).count();
        for offset in [0, 5, 40] {
            let above = v1::SearchRequest {
                score_threshold: Some(least),
                offset,
                ..request(mode, query, 60)
            };
            let hits = server
                .client
                .search(v1::SearchRequest {
                    fusion_depth: 100,
                    ..above
                })
                .await
                .unwrap()
                .hits;
            assert_eq!(
                keys(&hits),
                keys(&whole[(offset as usize).min(passing)..passing]),
                "{mode:?} {offset}"
            );
        }
    }
}

#[tokio::test]
async fn only_the_fields_that_are_named_come_with_hits_and_documents() {
    let server = searcher().await;
    let fields = || ["text", "place.number"].map(String::from).to_vec();
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid, Mode::Compare] {
        let reply = server.client.search(v1::SearchRequest {
            fields: fields(),
            ..request(mode, "number 20", 3)
        });
        let reply = reply.await.unwrap();
        let hits = reply.comparison.map_or(reply.hits, |all| all.hybrid);
        assert!(!hits.is_empty(), "{mode:?}");
        for hit in hits {
            let document = hit.document.unwrap();
            let number = hit.key.trim_start_matches("doc-").parse::<u32>().unwrap();
            assert_eq!(document.metadata_json, format!(r#"{{"place":{{"number":{number}}}}}"#));
            assert!(document.key == hit.key && document.title.is_empty() && !document.text.is_empty());
        }
    }
    let misspelt = v1::SearchRequest {
        fields: ["place.numbr", "title", "place.number"].map(String::from).to_vec(),
        ..request(Mode::Bm25, "number 20", 3)
    };
    let notes = server.client.search(misspelt).await.unwrap().notes;
    assert_eq!(notes, ["no document has a field `place.numbr`"]);
    let request = v1::GetDocumentsRequest {
        keys: vec!["doc-07".into()],
        fields: vec!["title".into()],
        ..Default::default()
    };
    let documents = server.client.get_documents(request).await.unwrap().documents;
    let title = v1::Document {
        key: "doc-07".into(),
        title: "Title".into(),
        etag: documents[0].etag.clone(),
        ..Default::default()
    };
    assert_eq!(
        (title.etag.as_deref().map(str::len), documents.as_slice()),
        (Some(32), [title].as_slice())
    );
}

#[tokio::test]
async fn a_question_that_is_longer_than_the_tower_reads_is_told() {
    let server = searcher().await;
    let long = "river ".repeat(MAX_TOKENS as usize + 1);
    let requests = vec![
        request(Mode::Bm25, &long, 3),
        request(Mode::Dense, "old river", 3),
        request(Mode::Hybrid, &long, 3),
        request(Mode::Dense, &"river ".repeat(MAX_TOKENS as usize), 3),
    ];
    let batch = server
        .client
        .search_batch(v1::SearchBatchRequest {
            requests: requests.clone(),
        })
        .await
        .unwrap();
    let told = |reply: &v1::SearchResponse| (reply.query_tokens, reply.query_truncated);
    assert_eq!(
        batch.responses.iter().map(told).collect::<Vec<_>>(),
        [(0, false), (2, false), (64, true), (64, false)]
    );
    for (request, batched) in requests.into_iter().zip(&batch.responses) {
        assert_eq!(told(&server.client.search(request).await.unwrap()), told(batched));
    }
}

#[tokio::test]
async fn documents_come_by_key_and_missing_ones_are_named() {
    let server = searcher().await;
    let wanted = ["doc-59", "absent", "doc-00"].map(String::from).to_vec();
    let reply = server
        .client
        .get_documents(v1::GetDocumentsRequest {
            keys: wanted,
            ..Default::default()
        })
        .await
        .unwrap();
    assert_eq!(
        reply
            .documents
            .iter()
            .map(|document| document.key.as_str())
            .collect::<Vec<_>>(),
        ["doc-59", "doc-00"]
    );
    assert_eq!(reply.missing, ["absent"]);
}
