//! Filters that were used before: the documents that they allow come from the cache, as long as the same generation is
//! served.

use dyad_indexer::change::delete;
use dyad_indexer::control::JobControl;
use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_proto::v1::filter::Condition;
use dyad_searcher::run::EngineConfig;

use crate::fixture::{Searcher, documents, keys, request, searcher_with};

async fn with_cache(bytes: usize) -> Searcher {
    searcher_with(EngineConfig {
        filter_cache: bytes,
        ..EngineConfig::default()
    })
    .await
}

/// The documents of these numbers, and no others.
fn only(mode: Mode, numbers: std::ops::Range<usize>) -> v1::SearchRequest {
    let keys = documents()[numbers].iter().map(|(key, _)| key.clone()).collect();
    let filter = v1::Filter {
        condition: Some(Condition::Keys(v1::FilterKeys { keys })),
    };
    v1::SearchRequest {
        filter: Some(filter),
        ..request(mode, "the old river", 60)
    }
}

/// Hits, and the execution of the filter.
async fn ask(server: &Searcher, request: v1::SearchRequest) -> (Vec<String>, v1::FilterExecution) {
    let reply = server.client.search(request).await.unwrap();
    (
        keys(&reply.hits).into_iter().map(str::to_owned).collect(),
        reply.filter.unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_known_allows_what_it_allowed() {
    let server = with_cache(1 << 20).await;
    let (first, run) = ask(&server, only(Mode::Dense, 10..20)).await;
    assert!(first.len() == 10 && !run.cached && run.documents == 10);
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
        let (_, again) = ask(&server, only(mode, 10..20)).await;
        assert!(again.cached && again.documents == 10, "{mode:?}");
    }
    assert_eq!(ask(&server, only(Mode::Dense, 10..20)).await.0, first);
    let (other, run) = ask(&server, only(Mode::Dense, 10..21)).await;
    assert!(other.len() == 11 && !run.cached);
    // Notes are told again.
    let unknown = v1::FieldExists {
        field: "nowhere".into(),
    };
    let unknown = v1::Filter {
        condition: Some(Condition::Exists(unknown)),
    };
    let unknown = v1::SearchRequest {
        filter: Some(unknown),
        ..request(Mode::Dense, "river", 3)
    };
    let notes = server.client.search(unknown.clone()).await.unwrap().notes;
    assert!(notes.len() == 1 && notes[0].contains("nowhere"), "{notes:?}");
    assert_eq!(server.client.search(unknown).await.unwrap().notes, notes);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_generation_knows_no_filter_of_the_one_before() {
    let server = with_cache(1 << 20).await;
    ask(&server, only(Mode::Dense, 10..20)).await;
    let gone = documents()[15].0.clone();
    delete(
        server.index.path(),
        std::slice::from_ref(&gone),
        false,
        JobControl::silent(),
    )
    .unwrap();
    assert!(
        ask(&server, only(Mode::Dense, 10..20)).await.1.cached,
        "the generation before is still served"
    );
    let admin = server.admin().await;
    admin.reload(v1::ReloadRequest::default()).await.unwrap();
    let (hits, run) = ask(&server, only(Mode::Dense, 10..20)).await;
    assert!(!run.cached && run.documents == 9 && !hits.contains(&gone), "{hits:?}");
    // The generation of before has its number again, and is another opening of it.
    admin
        .rollback(v1::RollbackRequest {
            generation: 1,
            ..Default::default()
        })
        .await
        .unwrap();
    let (hits, run) = ask(&server, only(Mode::Dense, 10..20)).await;
    assert!(!run.cached && run.documents == 10 && hits.contains(&gone), "{hits:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_too_small_or_absent_changes_no_answer() {
    let (none, small) = (with_cache(0).await, with_cache(64).await);
    for server in [none, small] {
        for _ in 0..2 {
            let (hits, run) = ask(&server, only(Mode::Dense, 3..9)).await;
            assert!(hits.len() == 6 && !run.cached);
        }
    }
}
