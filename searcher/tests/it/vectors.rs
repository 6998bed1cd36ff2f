//! Questions that come with their vectors, with a question tower and without one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_searcher::Engine;
use dyad_searcher::run::EngineConfig;

use crate::command_line::run_beside;
use crate::fixture::{DIM, embed, keys, request, searcher, serve, write_index};

fn with_vector(mode: Mode, query: &str, text: &str) -> v1::SearchRequest {
    let (vector, fingerprint) = (embed(text), "f00d".to_owned());
    v1::SearchRequest {
        vector,
        fingerprint,
        ..request(mode, query, 7)
    }
}

#[tokio::test]
async fn a_vector_is_answered_as_the_text_that_it_is_of() {
    let server = searcher().await;
    let text = "the bright planet number 20";
    let mut expected = Vec::new();
    for mode in [Mode::Dense, Mode::Hybrid, Mode::Compare] {
        expected.push(server.client.search(request(mode, text, 7)).await.unwrap());
    }
    // The tower is not asked.
    server.encoder.broken.store(true, Ordering::SeqCst);
    for (mode, expected) in [Mode::Dense, Mode::Hybrid, Mode::Compare].into_iter().zip(expected) {
        let reply = server.client.search(with_vector(mode, text, text)).await.unwrap();
        let timings = reply.timings.unwrap();
        assert_eq!((timings.queue_us, timings.tokenize_us, timings.embed_us), (0, 0, 0));
        assert_eq!(reply.query_tokens, 0);
        let (timings, query_tokens) = (expected.timings, expected.query_tokens);
        assert_eq!(
            v1::SearchResponse {
                timings,
                query_tokens,
                ..reply
            },
            expected
        );
    }
    // In dense mode the text is not needed, and has no part in the answer. The length of the vector has none either,
    // but for rounding, which may decide between documents that are equally near.
    let long: Vec<f32> = embed(text).iter().map(|value| value * 7.0).collect();
    let scaled = v1::SearchRequest {
        vector: long,
        ..with_vector(Mode::Dense, "", text)
    };
    let (one, other) = (
        server.client.search(with_vector(Mode::Dense, "", text)),
        server.client.search(scaled),
    );
    let (one, other) = (one.await.unwrap(), other.await.unwrap());
    assert_eq!((keys(&one.hits)[0], one.hits.len()), (keys(&other.hits)[0], 7));
    assert!(
        one.hits
            .iter()
            .zip(&other.hits)
            .all(|(one, other)| (one.score - other.score).abs() < 1e-6)
    );

    // In a batch, with questions that are embedded.
    server.encoder.broken.store(false, Ordering::SeqCst);
    let requests = vec![
        request(Mode::Dense, "river", 7),
        with_vector(Mode::Dense, "", text),
        request(Mode::Bm25, "mountain", 7),
        request(Mode::Hybrid, "golden bird", 7),
        with_vector(Mode::Hybrid, "metal", text),
    ];
    let batch = v1::SearchBatchRequest {
        requests: requests.clone(),
    };
    let batch = server.client.search_batch(batch).await.unwrap().responses;
    assert_eq!(batch.len(), requests.len());
    for (request, batched) in requests.into_iter().zip(batch) {
        let single = server.client.search(request).await.unwrap();
        assert_eq!(
            v1::SearchResponse {
                timings: single.timings,
                ..batched
            },
            single
        );
    }
}

#[tokio::test]
async fn vectors_of_other_models_and_lengths_are_refused_by_name() {
    let server = searcher().await;
    let refused = async |request| server.client.search(request).await.unwrap_err().to_string();
    let other = v1::SearchRequest {
        fingerprint: "beef".into(),
        ..with_vector(Mode::Dense, "", "river")
    };
    let message = refused(other.clone()).await;
    assert!(message.contains("FailedPrecondition") && message.contains("`fingerprint`: the index was made by `words`"));
    let short = v1::SearchRequest {
        vector: vec![1.0; DIM - 1],
        ..with_vector(Mode::Dense, "", "river")
    };
    let message = refused(short).await;
    assert!(
        message.contains("InvalidArgument") && message.contains("`vector`: expected 24 values"),
        "{message}"
    );
    let text = v1::SearchRequest {
        fingerprint: "beef".into(),
        ..request(Mode::Bm25, "river", 3)
    };
    assert!(refused(text).await.contains("fingerprint beef"), "for texts too");
    let requests = vec![request(Mode::Dense, "river", 3), other];
    let error = server
        .client
        .search_batch(v1::SearchBatchRequest { requests })
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("`requests[1].fingerprint`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_searcher_without_a_tower_takes_vectors_and_bm25() {
    let index = tempfile::tempdir().unwrap();
    write_index(index.path(), 1, "f00d");
    let engine = Arc::new(Engine::open(index.path(), None, EngineConfig::default()).unwrap());
    let server = serve(engine).await;
    let reply = server
        .client
        .search(with_vector(Mode::Hybrid, "number 20", "the bright planet number 20"))
        .await
        .unwrap();
    assert_eq!((reply.hits[0].key.as_str(), reply.degraded), ("doc-20", false));
    server.client.search(request(Mode::Bm25, "river", 3)).await.unwrap();
    for mode in [Mode::Dense, Mode::Hybrid, Mode::Compare] {
        let error = server
            .client
            .search(request(mode, "river", 3))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("FailedPrecondition") && error.contains("no question tower"),
            "{error}"
        );
    }
    let explain = |search| v1::ExplainRequest {
        key: "doc-20".into(),
        search: Some(search),
    };
    let refused = server
        .client
        .explain(explain(request(Mode::Dense, "river", 3)))
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("no question tower"), "{refused}");
    let by_vector = explain(with_vector(Mode::Dense, "", "the famous planet number 20"));
    let told = server.client.explain(by_vector).await.unwrap();
    assert_eq!(
        (told.hit.map(|place| place.rank), told.bm25, told.terms.len()),
        (Some(1), None, 0)
    );

    let (code, out, error) = run_beside(&["admin", "--server", &server.url, "status"]).await;
    assert!(code == Some(0) && out.contains("question tower  none"), "{out}{error}");
    let path = index.path().join("questions.npy");
    let rows: Vec<f32> = ["river", "the golden bird number 59"]
        .into_iter()
        .flat_map(embed)
        .collect();
    dyad_files::npy::write(&path, &[2, DIM], &rows).unwrap();
    let vector = [
        "query",
        "--server",
        &server.url,
        "--mode",
        "dense",
        "-k",
        "1",
        "--vector",
        path.to_str().unwrap(),
    ];
    let (code, out, error) = run_beside(&[&vector[..], &["--row", "1", "--fingerprint", "f00d"]].concat()).await;
    assert!(code == Some(0) && out.contains("doc-59"), "{out}{error}");
    let (code, _, error) = run_beside(&[&vector[..], &["--row", "2", "--fingerprint", "f00d"]].concat()).await;
    assert!(
        code == Some(2) && error.contains("has 2 rows, counted from 0, got 2"),
        "{error}"
    );
    let (code, _, error) = run_beside(&vector).await;
    assert!(code == Some(2) && error.contains("--fingerprint"), "{error}");
}
