//! Generations that are published, reloaded, rolled back and removed while clients search: each answer is of one whole
//! generation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyad_indexer::gc::gc;
use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_proto::v1::searcher_client::SearcherClient;
use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;

use super::process::{Server, Tower, until};
use crate::fixture::{request, write_index_of};

/// Generations that are published.
const GENERATIONS: u64 = 8;

/// Writes a generation whose documents say of which they are.
fn write(index: &std::path::Path, generation: u64) {
    let documents: Vec<_> = (0..20)
        .map(|number| {
            (
                format!("doc-{number}"),
                format!("river number {number} of generation {generation}"),
            )
        })
        .collect();
    write_index_of(&documents, index, generation, "f00d");
}

/// A batch over gRPC: all of its answers are of one generation.
async fn batch(client: &mut SearcherClient<Channel>) -> u64 {
    let requests = vec![request(Mode::Hybrid, "river number 7", 3); 4];
    let replies = client
        .search_batch(v1::SearchBatchRequest { requests })
        .await
        .unwrap()
        .into_inner()
        .responses;
    let generation = replies[0].generation;
    for reply in replies {
        assert_eq!((reply.generation, reply.hits.len()), (generation, 3));
        for hit in reply.hits {
            let text = hit.document.unwrap().text;
            assert!(
                text.ends_with(&format!(" of generation {generation}")),
                "generation {generation}: {text}"
            );
        }
    }
    generation
}

/// The same of one search over HTTP.
async fn search(server: &Server) -> u64 {
    let body = json!({"query": "river number 7", "mode": "MODE_HYBRID", "k": 3});
    let reply = server.http.post("/v1/search", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.json);
    let generation = reply.json["generation"].as_u64().unwrap();
    let hits = reply.json["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 3);
    for hit in hits {
        let text = hit["document"]["text"].as_str().unwrap();
        assert!(
            text.ends_with(&format!(" of generation {generation}")),
            "generation {generation}: {text}"
        );
    }
    generation
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_of_one_generation_and_old_ones_are_closed() {
    let (index, tower) = (tempfile::tempdir().unwrap(), Tower::start("127.0.0.1:0").await);
    write(index.path(), 1);
    let server = Arc::new(Server::start(index.path(), &tower.service.url, &[]).await);
    let mut admin = server.admin.clone();
    admin.reload(v1::ReloadRequest::default()).await.unwrap();
    search(&server).await;
    let threads = server.number("Threads");

    let stop = Arc::<AtomicBool>::default();
    let client = |number: usize| {
        let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
        tokio::spawn(async move {
            let (mut client, mut seen) = (server.grpc.clone(), Vec::new());
            while !stop.load(Ordering::SeqCst) {
                seen.push(if number.is_multiple_of(2) {
                    batch(&mut client).await
                } else {
                    search(&server).await
                });
            }
            seen
        })
    };
    let clients: Vec<_> = (0..4).map(client).collect();
    for generation in 2..=GENERATIONS {
        write(index.path(), generation);
        let reply = admin.reload(v1::ReloadRequest::default()).await.unwrap().into_inner();
        assert_eq!(
            (reply.previous_generation, reply.generation),
            (generation - 1, generation)
        );
        // Back and forth; a generation that does not exist changes nothing.
        for wanted in [generation - 1, generation] {
            let rollback = v1::RollbackRequest {
                generation: wanted,
                ..Default::default()
            };
            assert_eq!(admin.rollback(rollback).await.unwrap().into_inner().generation, wanted);
        }
        let none = v1::RollbackRequest {
            generation: 99,
            ..Default::default()
        };
        assert_eq!(admin.rollback(none).await.unwrap_err().code(), Code::NotFound);
        gc(index.path(), 1, Duration::ZERO, false).unwrap();
    }
    until("the last generation is served over HTTP", async || {
        search(&server).await == GENERATIONS
    })
    .await;
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        let seen = client.await.unwrap();
        assert!(seen.iter().all(|generation| (1..=GENERATIONS).contains(generation)) && seen.last().is_some());
    }
    server.settles(GENERATIONS, threads).await;
    until("what is no longer served is removed", async || {
        gc(index.path(), 0, Duration::ZERO, false).unwrap();
        dyad_index::manifest::generations(index.path()).unwrap() == [GENERATIONS]
    })
    .await;
    server.admits_all().await;
}
