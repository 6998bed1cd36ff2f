//! An index that changes under a searcher: what is deleted is found by no way, a reload opens only what is new, and no
//! request fails meanwhile.

use std::sync::Arc;
use std::time::Duration;

use dyad_indexer::change::delete;
use dyad_indexer::control::JobControl;
use dyad_indexer::gc::gc;
use dyad_proto::v1;
use dyad_proto::v1::Mode;

use crate::fixture::{US, documents, keys, request, searcher};

fn remove(index: &std::path::Path, numbers: &[usize]) {
    let keys: Vec<String> = numbers.iter().map(|number| documents()[*number].0.clone()).collect();
    delete(index, &keys, false, JobControl::silent()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_document_is_found_by_no_way() {
    let server = searcher().await;
    let (key, text) = documents()[17].clone();
    let modes = [Mode::Dense, Mode::Bm25, Mode::Hybrid];
    for mode in modes {
        let reply = server.client.search(request(mode, &text, 60)).await.unwrap();
        assert!(keys(&reply.hits).contains(&key.as_str()), "{mode:?}");
    }
    let explain = || v1::ExplainRequest {
        key: key.clone(),
        search: Some(request(Mode::Dense, &text, 10)),
    };
    server.client.explain(explain()).await.unwrap();
    // The last of its shard but one goes too, so that ranks move up.
    remove(server.index.path(), &[17, 18]);
    server.admin().await.reload(v1::ReloadRequest::default()).await.unwrap();
    for mode in modes {
        for exact in [false, true] {
            let reply = server
                .client
                .search(v1::SearchRequest {
                    exact,
                    ..request(mode, &text, 60)
                })
                .await
                .unwrap();
            assert!(!keys(&reply.hits).contains(&key.as_str()), "{mode:?}");
            assert!(
                mode == Mode::Bm25 || reply.hits.len() == 58,
                "{mode:?}: {}",
                reply.hits.len()
            );
        }
    }
    let refused = server.client.explain(explain()).await.unwrap_err().to_string();
    assert!(refused.contains(&key), "{refused}");
    let got = v1::GetDocumentsRequest {
        keys: vec![key.clone(), documents()[19].0.clone()],
        ..Default::default()
    };
    let reply = server.client.get_documents(got).await.unwrap();
    assert_eq!((&reply.missing, reply.documents.len()), (&vec![key], 1));
    let sample = v1::SampleDocumentsRequest {
        count: 1000,
        ..Default::default()
    };
    let sample = server.client.sample_documents(sample).await.unwrap();
    assert_eq!((sample.documents.len(), sample.of, sample.generation), (58, 58, 2));
    assert!(!sample.documents.iter().any(|document| document.key == reply.missing[0]));
    let status = server.admin().await.status(v1::StatusRequest::default()).await.unwrap();
    let shards: Vec<_> = status
        .shards
        .iter()
        .map(|shard| (shard.documents, shard.deleted))
        .collect();
    assert_eq!((status.generation, status.documents), (2, 58));
    assert_eq!(
        shards.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
        (58, 2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_opens_only_what_is_new_and_closes_what_is_old() {
    let server = searcher().await;
    let index = server.index.path();
    let before = server.engine.index("", &US).unwrap().snapshot();
    // The engine's, and this one: the thread that verifies checksums holds shards.
    assert_eq!(Arc::strong_count(&before), 2);
    assert!(
        before.shards().iter().all(|shard| !shard.dense.claim_check()),
        "their checksums are being verified"
    );
    remove(index, &[1]);
    server.engine.reload("").await.unwrap();
    let after = server.engine.index("", &US).unwrap().snapshot();
    for (before, after) in before.shards().iter().zip(after.shards()) {
        assert!(Arc::ptr_eq(&before.dense, &after.dense) && Arc::ptr_eq(&before.text, &after.text));
    }
    // A file that was replaced is opened, and a shard that was not is shared.
    let path = before.shards()[0].dense.path().to_owned();
    let copy = path.with_extension("copy");
    fs_err::copy(&path, &copy).unwrap();
    fs_err::rename(&copy, &path).unwrap();
    server.engine.rollback("", 1).await.unwrap();
    let back = server.engine.index("", &US).unwrap().snapshot();
    assert!(!Arc::ptr_eq(&after.shards()[0].dense, &back.shards()[0].dense));
    assert!(Arc::ptr_eq(&after.shards()[1].dense, &back.shards()[1].dense));
    // What is held here is in use; what nobody holds is closed soon after, by itself.
    server.engine.rollback("", 2).await.unwrap();
    assert_eq!(gc(index, 0, Duration::ZERO, false).unwrap().in_use, [1]);
    drop((before, back));
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while !gc(index, 0, Duration::ZERO, false).unwrap().in_use.is_empty() {
        assert!(std::time::Instant::now() < until, "generation 1 is still open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(dyad_index::manifest::generations(index).unwrap(), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_search_fails_while_generations_are_published() {
    let server = searcher().await;
    let engine = Arc::clone(&server.engine);
    let follower = tokio::spawn(async move { engine.follow(Duration::from_millis(2)).await });
    let client = server.client.clone();
    let searches = tokio::spawn(async move {
        let (mut generations, mut answered) = (std::collections::BTreeSet::new(), 0);
        loop {
            let reply = client.search(request(Mode::Hybrid, "the old river", 60)).await.unwrap();
            // One change is one generation: each answer is of a whole one.
            assert_eq!(
                reply.hits.len() as u64,
                61 - reply.generation,
                "generation {}",
                reply.generation
            );
            generations.insert(reply.generation);
            answered += 1;
            if reply.generation == 21 {
                return (generations.len(), answered);
            }
        }
    });
    for number in 0..20 {
        remove(server.index.path(), &[number * 3]);
        gc(server.index.path(), 2, Duration::ZERO, false).unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (generations, answered) = tokio::time::timeout(Duration::from_mins(1), searches)
        .await
        .unwrap()
        .unwrap();
    assert!(generations > 1 && answered > 1, "{generations} of {answered}");
    follower.abort();
}
