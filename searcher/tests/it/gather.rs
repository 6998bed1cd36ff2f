//! Dense searches that wait for a thread at the same time are run together: every reply is the one that its request
//! alone gets.

use std::time::Duration;

use dyad_proto::client::SearcherClient;
use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_proto::v1::filter::Condition;
use dyad_searcher::run::EngineConfig;
use tokio::task::JoinSet;

use crate::fixture::{Searcher, documents, request, searcher_with};

/// Requests of several parameters, filters and modes, many of which are alike.
fn requests() -> Vec<v1::SearchRequest> {
    let words = ["river", "stone", "the old river", "light", "water and stone"];
    let keys = |from: usize| {
        documents()[from..from + 30]
            .iter()
            .map(|(key, _)| key.clone())
            .collect()
    };
    let filter = |from| {
        Some(v1::Filter {
            condition: Some(Condition::Keys(v1::FilterKeys { keys: keys(from) })),
        })
    };
    (0..240)
        .map(|number| v1::SearchRequest {
            k: [5, 5, 5, 12][number % 4],
            ef: if number % 7 == 0 { 40 } else { 0 },
            filter: [None, None, filter(0), filter(5)][number % 3 + usize::from(number % 5 == 0)].clone(),
            keys_only: number % 2 == 0,
            ..request(
                [Mode::Dense, Mode::Dense, Mode::Hybrid][number % 3],
                words[number % 5],
                5,
            )
        })
        .collect()
}

/// What does not depend on who else asks.
fn steady(mut reply: v1::SearchResponse) -> v1::SearchResponse {
    reply.timings = None;
    if let Some(filter) = &mut reply.filter {
        filter.cached = false;
    }
    reply
}

async fn server() -> Searcher {
    searcher_with(EngineConfig {
        filter_cache: 1 << 20,
        question_cache: 1 << 20,
        ..EngineConfig::default()
    })
    .await
}

async fn at_once(client: &SearcherClient, requests: Vec<v1::SearchRequest>) -> Vec<v1::SearchResponse> {
    let mut calls = JoinSet::new();
    for (number, request) in requests.into_iter().enumerate() {
        let client = client.clone();
        calls.spawn(async move { (number, client.search(request).await) });
    }
    let mut replies: Vec<_> = calls.join_all().await;
    replies.sort_by_key(|(number, _)| *number);
    replies.into_iter().map(|(_, reply)| reply.unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replies_at_once_are_those_of_one_after_another() {
    let server = server().await;
    let mut alone = Vec::new();
    for request in requests() {
        alone.push(steady(server.client.search(request).await.unwrap()));
    }
    for _ in 0..3 {
        let together = at_once(&server.client, requests()).await;
        for (together, alone) in together.into_iter().zip(&alone) {
            assert_eq!(&steady(together), alone);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn searches_are_run_though_others_that_wait_with_them_are_given_up() {
    let server = server().await;
    for _ in 0..10 {
        // HTTP/2 servers close a connection with more than 20 streams that are reset before they are accepted.
        let leaving: Vec<_> = requests()
            .into_iter()
            .take(15)
            .map(|request| {
                let client = server.client.clone();
                tokio::spawn(async move { client.search(request).await.map(|_| ()) })
            })
            .collect();
        let staying = tokio::spawn({
            let client = server.client.clone();
            async move { at_once(&client, requests().into_iter().take(60).collect()).await }
        });
        tokio::time::sleep(Duration::from_millis(1)).await;
        leaving.iter().for_each(tokio::task::JoinHandle::abort);
        assert_eq!(staying.await.unwrap().len(), 60);
    }
}
