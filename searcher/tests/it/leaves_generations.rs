//! Generations spread over leaves, and roots follow: no answer mixes two, and none fails meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyad_index::manifest;
use dyad_index::storage::WriteLock;
use dyad_proto::v1::{self, Mode};
use dyad_searcher::Engine;
use dyad_searcher::run::QueuePolicy;

use crate::fixture::{US, request, write_index_of_shards};
use crate::leaves_fixture::roots;

const SHARDS: usize = 5;
const GENERATIONS: u64 = 8;

/// Documents whose keys and texts tell their generation.
fn documents_of(generation: u64) -> Vec<(String, String)> {
    let document = |number: u64| {
        let key = format!("doc-{generation}{number:02}");
        (key, format!("the river number {number} of generation{generation}"))
    };
    (0..40).map(document).collect()
}

/// The generation that a key tells.
fn generation_of(key: &str) -> u64 {
    let digits = key.trim_start_matches("doc-");
    digits[..digits.len() - 2].parse().unwrap()
}

async fn ask(engine: &Engine, mode: Mode) -> v1::SearchResponse {
    let asked = request(mode, "river number 7", 20);
    let time = Some(Duration::from_secs(10));
    let answered = engine.search(asked, &US, time, QueuePolicy::Refused).await;
    answered.unwrap().0.into_response()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_mixes_generations_while_they_spread() {
    let index = tempfile::tempdir().unwrap();
    write_index_of_shards(&documents_of(1), index.path(), 1, SHARDS);
    let all = roots(index.path(), 3, 2).await;
    let follow = tokio::spawn({
        let root = Arc::clone(&all.root);
        async move { root.follow(Duration::from_millis(50)).await }
    });
    let stop = Arc::new(AtomicBool::new(false));
    let asking: Vec<_> = [Mode::Hybrid, Mode::Bm25, Mode::Dense]
        .into_iter()
        .map(|mode| {
            let (root, stop) = (Arc::clone(&all.root), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let reply = ask(&root, mode).await;
                    assert_eq!(reply.hits.len(), 20);
                    for hit in &reply.hits {
                        assert_eq!(generation_of(&hit.key), reply.generation, "{}", hit.key);
                        let document = hit.document.as_ref().unwrap();
                        assert!(
                            document.text.ends_with(&format!("generation{}", reply.generation)),
                            "{document:?}"
                        );
                    }
                    seen.push(reply.generation);
                }
                seen
            })
        })
        .collect();
    for generation in 2..=GENERATIONS {
        tokio::time::sleep(Duration::from_millis(400)).await;
        write_index_of_shards(&documents_of(generation), index.path(), generation, SHARDS);
    }
    until_served(&all.root, GENERATIONS).await;
    assert_eq!(ask(&all.root, Mode::Hybrid).await.generation, GENERATIONS);
    // Back, as `dyad-indexer rollback` does it.
    manifest::point_to(index.path(), 3, &WriteLock::acquire(index.path()).unwrap()).unwrap();
    until_served(&all.root, 3).await;
    assert_eq!(ask(&all.root, Mode::Hybrid).await.generation, 3);
    stop.store(true, Ordering::Relaxed);
    for asking in asking {
        let seen = asking.await.unwrap();
        let distinct: std::collections::BTreeSet<u64> = seen.iter().copied().collect();
        assert!(seen.first() == Some(&1) && distinct.len() > 2, "{distinct:?}");
    }
    follow.abort();
}

async fn until_served(root: &Engine, generation: u64) {
    let served = || root.indexes().next().unwrap().generation().number();
    for _ in 0..400 {
        if served() == generation {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(served(), generation);
}
