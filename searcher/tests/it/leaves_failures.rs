//! Leaves that end, hang, are late, or answer what cannot be an answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dyad_index::manifest;
use dyad_index::storage::WriteLock;
use dyad_proto::client::Credentials;
use dyad_proto::v1::{self, Mode};
use dyad_searcher::run::QueuePolicy;
use dyad_searcher::{Engine, Error};

use crate::fixture::{US, documents, request, write_index_of_shards};
use crate::leaves_fixture::{Roots, root_that_shows, roots};
use crate::proxy::{Behaviour, Proxy};

const SHARDS: usize = 7;
const QUERY: &str = "the bright planet number 20";

async fn ask(engine: &Engine, time: Duration) -> Result<v1::SearchResponse, Error> {
    let asked = request(Mode::Hybrid, QUERY, 10);
    let answered = engine.search(asked, &US, Some(time), QueuePolicy::Refused).await?;
    Ok(answered.0.into_response())
}

async fn hits(engine: &Engine) -> Vec<v1::Hit> {
    ask(engine, Duration::from_secs(10)).await.unwrap().hits
}

async fn over(count: usize, replicas: usize) -> (tempfile::TempDir, Roots) {
    let index = tempfile::tempdir().unwrap();
    write_index_of_shards(&documents(), index.path(), 1, SHARDS);
    let all = roots(index.path(), count, replicas).await;
    (index, all)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaf_that_ends_is_not_missed_where_others_hold_its_shards() {
    let (_index, mut all) = over(4, 2).await;
    let expected = hits(&all.whole).await;
    let asking = tokio::spawn({
        let root = Arc::clone(&all.root);
        async move {
            let mut answered = Vec::new();
            for _ in 0..300 {
                answered.push(hits(&root).await);
            }
            answered
        }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(all.leaves.remove(1));
    let answered = asking.await.unwrap();
    assert_eq!(answered.len(), 300);
    assert!(answered.iter().all(|hits| *hits == expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_that_no_leaf_holds_any_more_are_named() {
    let (_index, mut all) = over(4, 1).await;
    let expected = hits(&all.whole).await;
    assert_eq!(hits(&all.root).await, expected);
    let lost = all.leaves.remove(2);
    let numbers: Vec<String> = lost
        .engine
        .indexes()
        .next()
        .unwrap()
        .snapshot()
        .numbers()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(!numbers.is_empty());
    drop(lost);
    let error = ask(&all.root, Duration::from_secs(5)).await.unwrap_err();
    let told = error.to_string();
    let named = format!("no leaf answers for shards {} of generation 1", numbers.join(", "));
    assert!(told.starts_with("index `all`: ") && told.contains(&named), "{told}");
    assert_eq!(tonic::Status::from(error).code(), tonic::Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_do_with_less_than_all() {
    let (_index, mut all) = over(4, 1).await;
    let lost = all.leaves.remove(1);
    let snapshot = lost.engine.indexes().next().unwrap().snapshot();
    let (numbers, lost_documents) = (snapshot.numbers().to_vec(), snapshot.len() as u64);
    let is_lost = |key: &str| snapshot.find(key).unwrap().is_some();
    drop(lost);
    let ask = |mode: Mode, min_coverage: f64| {
        let asked = v1::SearchRequest {
            min_coverage: Some(min_coverage),
            exact: mode == Mode::Dense,
            ..request(mode, QUERY, 60)
        };
        let root = Arc::clone(&all.root);
        async move {
            let time = Some(Duration::from_secs(5));
            let answered = root.search(asked, &US, time, QueuePolicy::Refused).await;
            answered.map(|(answer, _)| answer.into_response())
        }
    };
    let whole = v1::SearchRequest {
        exact: true,
        ..request(Mode::Dense, QUERY, 60)
    };
    let whole = all
        .whole
        .search(whole, &US, None, QueuePolicy::Refused)
        .await
        .unwrap()
        .0
        .into_response();
    let expected: Vec<&str> = whole
        .hits
        .iter()
        .map(|hit| hit.key.as_str())
        .filter(|key| !is_lost(key))
        .collect();
    let documents = whole.coverage.as_ref().unwrap().documents;
    let share = (documents - lost_documents) as f64 / documents as f64;
    for mode in [Mode::Dense, Mode::Hybrid, Mode::Bm25] {
        let reply = ask(mode, share - 0.01).await.unwrap();
        let coverage = reply.coverage.as_ref().unwrap();
        let missing: Vec<usize> = coverage
            .missing_shards
            .iter()
            .map(|shard| shard.number as usize)
            .collect();
        assert_eq!(missing, numbers);
        assert!(
            coverage
                .missing_shards
                .iter()
                .all(|shard| shard.id.starts_with("g1-") && !shard.reason.is_empty())
        );
        assert_eq!(
            (coverage.documents, coverage.intact_documents),
            (documents, documents - lost_documents)
        );
        assert!(
            reply.degraded && reply.degraded_reason.contains("were not searched"),
            "{}",
            reply.degraded_reason
        );
        assert!(!reply.hits.is_empty() && reply.hits.iter().all(|hit| !is_lost(&hit.key)));
        if mode == Mode::Dense {
            assert_eq!(
                reply.hits.iter().map(|hit| hit.key.as_str()).collect::<Vec<_>>(),
                expected
            );
        }
        let error = ask(mode, share + 0.01).await.unwrap_err().to_string();
        assert!(error.contains("`min_coverage` is"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaf_that_leaves_is_asked_for_nothing_new() {
    let (_index, all) = over(3, 2).await;
    let expected = hits(&all.whole).await;
    let calls = |at: usize| {
        let status = all.root.leaves().unwrap().status(&v1::GenerationName::default());
        status
            .into_iter()
            .find(|leaf| leaf.url == all.leaves[at].url)
            .unwrap()
            .calls
    };
    all.leaves[0].is_leaving.store(true, Ordering::Relaxed);
    // Until the root has heard of it.
    tokio::time::sleep(Duration::from_millis(600)).await;
    let before = calls(0);
    for _ in 0..50 {
        assert_eq!(hits(&all.root).await, expected);
    }
    assert_eq!(calls(0), before);
    assert!(calls(1) > 0 && calls(2) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaf_that_hangs_costs_one_more_call() {
    let index = tempfile::tempdir().unwrap();
    write_index_of_shards(&documents(), index.path(), 1, SHARDS);
    let all = roots(index.path(), 3, 2).await;
    let expected = hits(&all.whole).await;
    let proxy = Proxy::start(&all.leaves[0].url).await;
    let urls = vec![
        proxy.url().to_owned(),
        all.leaves[1].url.clone(),
        all.leaves[2].url.clone(),
    ];
    let root = crate::leaves_fixture::root(index.path(), &all.encoder, &urls, 2)
        .await
        .unwrap();
    // Enough calls that each leaf has times of its own.
    for _ in 0..200 {
        assert_eq!(hits(&root).await, expected);
    }
    proxy.set(Behaviour::Hang);
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(hits(&root).await, expected);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // It is heard of again.
    proxy.set(Behaviour::Pass);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(hits(&root).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_that_do_not_fit_are_reported_and_what_was_served_is_served_on() {
    let index = tempfile::tempdir().unwrap();
    write_index_of_shards(&documents(), index.path(), 1, SHARDS);
    let all = roots(index.path(), 2, 2).await;
    let expected = hits(&all.whole).await;
    // A generation without some files, as where a disk has failed; made elsewhere, so that no leaf sees it whole.
    let made = tempfile::tempdir().unwrap();
    write_index_of_shards(&documents(), made.path(), 2, SHARDS);
    let moved = (0..SHARDS).filter(|number| *number != 3);
    let moved = moved.map(|number| format!("shards/g2-{number}"));
    for name in moved.chain([manifest::manifest_name(2)]) {
        fs_err::rename(made.path().join(&name), index.path().join(&name)).unwrap();
    }
    manifest::point_to(index.path(), 2, &WriteLock::acquire(index.path()).unwrap()).unwrap();
    let refused = || {
        let status = all.root.leaves().unwrap().status(&v1::GenerationName::default());
        status.iter().map(|leaf| leaf.refused.join("; ")).collect::<Vec<_>>()
    };
    for _ in 0..200 {
        if refused().iter().all(|told| told.contains("shard 0 of generation 2: ")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let told = refused();
    assert!(
        told.len() == 2 && told.iter().all(|told| told.contains("g2-3")),
        "{told:?}"
    );
    assert_eq!(hits(&all.root).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_starts_while_a_leaf_is_away_whose_shards_others_hold() {
    let (index, mut all) = over(4, 2).await;
    let expected = hits(&all.whole).await;
    let urls: Vec<String> = all.leaves.iter().map(|leaf| leaf.url.clone()).collect();
    drop(all.leaves.remove(1));
    let started = |wait| root_that_shows(index.path(), &all.encoder, &urls, 2, Credentials::default(), wait);
    let root = started(Duration::from_millis(500)).await.unwrap();
    assert_eq!(hits(&root).await, expected);
    drop(root);
    all.leaves.truncate(1);
    let error = started(Duration::from_millis(500)).await.unwrap_err().to_string();
    assert!(error.contains("no leaf answers for shards"), "{error}");
}
