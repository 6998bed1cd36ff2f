//! Replies, keys and requests that are too large, and what they do not keep others from.

use std::sync::atomic::Ordering;
use std::time::Duration;

use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_proto::v1::searcher_client::SearcherClient as Generated;
use dyad_searcher::run::{EngineConfig, QueuePolicy};
use futures_util::StreamExt as _;
use tonic::Code;

use crate::fixture::{Searcher, US, documents, request, searcher, searcher_over, write_index_of};

const MIB: usize = 1 << 20;

/// Sixty documents of a MiB each.
pub(crate) fn large_index() -> tempfile::TempDir {
    let index = tempfile::tempdir().unwrap();
    let documents: Vec<_> = documents()
        .into_iter()
        .map(|(key, text)| {
            let rest = "x".repeat(MIB - text.len() - 1);
            (key, format!("{text} {rest}"))
        })
        .collect();
    write_index_of(&documents, index.path(), 1, "f00d");
    index
}

pub(crate) async fn large() -> Searcher {
    searcher_over(large_index(), EngineConfig::default()).await
}

async fn raw(server: &Searcher) -> Generated<tonic::transport::Channel> {
    Generated::connect(server.url.clone())
        .await
        .unwrap()
        .max_decoding_message_size(usize::MAX)
}

#[tokio::test]
async fn documents_that_no_reply_holds_are_refused_with_the_way_out() {
    let server = large().await;
    let mut client = raw(&server).await;
    let all = request(Mode::Bm25, "number", 60);
    for mode in [Mode::Bm25, Mode::Compare] {
        let status = client
            .search(v1::SearchRequest {
                mode: mode.into(),
                ..all.clone()
            })
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::OutOfRange);
        assert!(status.message().contains("Set `keys_only` or a smaller k"), "{status}");
    }
    let reply = client
        .search(v1::SearchRequest {
            keys_only: true,
            ..all.clone()
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(reply.hits.len(), 60);
    let reply = client
        .search(v1::SearchRequest { k: 40, ..all.clone() })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        reply
            .hits
            .iter()
            .map(|hit| hit.document.as_ref().unwrap().text.len())
            .sum::<usize>(),
        40 * MIB
    );

    let batch = v1::SearchBatchRequest {
        requests: vec![v1::SearchRequest { k: 20, ..all.clone() }; 3],
    };
    assert_eq!(client.search_batch(batch).await.unwrap_err().code(), Code::OutOfRange);
    let keys: Vec<String> = documents().into_iter().map(|(key, _)| key).collect();
    let status = client
        .get_documents(v1::GetDocumentsRequest {
            keys: keys.clone(),
            ..Default::default()
        })
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange);
    let keys = keys.into_iter().take(40).collect();
    assert_eq!(
        client
            .get_documents(v1::GetDocumentsRequest {
                keys,
                ..Default::default()
            })
            .await
            .unwrap()
            .into_inner()
            .documents
            .len(),
        40
    );

    let requests = [
        v1::SearchRequest {
            id: 7,
            k: 1,
            ..all.clone()
        },
        v1::SearchRequest { id: 8, ..all },
    ];
    let mut replies = client
        .search_stream(tokio_stream::iter(requests))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(replies.next().await.unwrap().unwrap().id, 7);
    let status = replies.next().await.unwrap().unwrap_err();
    assert!(status.message().starts_with("request with id 8: "), "{status}");
}

/// Large replies wait for each other, as long as their deadlines let them; small ones pass.
#[tokio::test]
async fn replies_share_a_memory_and_small_ones_pass() {
    let server = large().await;
    let large = request(Mode::Bm25, "number", 40);
    let ask = |time| server.engine.search(large.clone(), &US, time, QueuePolicy::Refused);
    let (_answer, first) = ask(None).await.unwrap();
    let late = ask(Some(Duration::from_millis(300))).await.unwrap_err();
    assert_eq!(tonic::Status::from(late).code(), Code::DeadlineExceeded);
    let keys_only = v1::SearchRequest {
        keys_only: true,
        ..request(Mode::Bm25, "number", 60)
    };
    assert_eq!(server.client.search(keys_only).await.unwrap().hits.len(), 60);
    assert_eq!(
        server
            .client
            .search(request(Mode::Bm25, "number", 1))
            .await
            .unwrap()
            .hits
            .len(),
        1
    );
    drop(first);
    // Over the wire, side by side: each reply that was read gives its memory to the next.
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push((raw(&server).await, large.clone()));
    }
    let replies = clients
        .iter_mut()
        .map(|(client, request)| client.search(request.clone()));
    for reply in futures_util::future::join_all(replies).await {
        assert_eq!(reply.unwrap().into_inner().hits.len(), 40);
    }
}

/// Requests that are answered before those at the head of their streams hold no memory that the heads, or others, wait
/// for.
#[tokio::test]
async fn large_replies_of_streams_do_not_wait_for_each_other() {
    let server = large().await;
    let large = request(Mode::Bm25, "number", 40);
    let head = request(Mode::Dense, "wait number", 40);
    let requests = || tokio_stream::iter([head.clone(), large.clone(), large.clone()]);
    let (mut one, mut other) = (raw(&server).await, raw(&server).await);
    let streams = async { tokio::join!(one.search_stream(requests()), other.search_stream(requests())) };
    let (one, other) = streams.await;
    while server.encoder.asked.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // What a searcher takes from a client that asks alone, while the heads wait for the tower.
    for _ in 0..3 {
        server
            .engine
            .search(large.clone(), &US, Some(Duration::from_mins(1)), QueuePolicy::Refused)
            .await
            .unwrap();
    }
    server.encoder.released.send_replace(true);
    let read = |replies: tonic::Response<tonic::Streaming<v1::SearchStreamResponse>>| async {
        let replies: Vec<_> = replies
            .into_inner()
            .map(|reply| reply.unwrap().response.unwrap().hits.len())
            .collect()
            .await;
        assert_eq!(replies, [40; 3]);
    };
    let all = async { tokio::join!(read(one.unwrap()), read(other.unwrap())) };
    tokio::time::timeout(Duration::from_mins(1), all).await.unwrap();
}

/// Its first reply is larger than the connection's window; the requests after it are searched meanwhile.
#[tokio::test]
async fn a_stream_that_is_not_read_keeps_no_place() {
    let config = EngineConfig {
        max_requests: 16,
        ..EngineConfig::default()
    };
    let server = searcher_over(large_index(), config).await;
    let mut streams = Vec::new();
    for waiting in [2, 1] {
        let waits = (0..waiting).map(|i| request(Mode::Dense, &format!("wait number {i} of {waiting}"), 1));
        let requests: Vec<_> = std::iter::once(request(Mode::Bm25, "number", 10))
            .chain(waits)
            .collect();
        streams.push((
            waiting,
            raw(&server)
                .await
                .search_stream(tokio_stream::iter(requests))
                .await
                .unwrap(),
        ));
    }
    // Three of four places for streams and batches are taken by requests that wait for the tower, and a batch takes
    // two.
    while server.encoder.asked.load(Ordering::SeqCst) < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Time for the first replies to fill the windows: with less the test shows less.
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.encoder.released.send_replace(true);
    let (requests, mut client) = (vec![request(Mode::Bm25, "river", 1); 4], raw(&server).await);
    let batch = client.search_batch(v1::SearchBatchRequest { requests });
    let answered = tokio::time::timeout(Duration::from_mins(1), batch)
        .await
        .expect("the places are kept");
    assert_eq!(answered.unwrap().into_inner().responses.len(), 4);
    for (waiting, stream) in streams {
        let hits = stream
            .into_inner()
            .map(|reply| reply.unwrap().response.unwrap().hits.len());
        assert_eq!(hits.collect::<Vec<_>>().await, [vec![10], vec![1; waiting]].concat());
    }
}

#[tokio::test]
async fn a_key_is_asked_for_once() {
    let server = searcher().await;
    let keys = vec!["doc-01".to_owned(); 2];
    let status = raw(&server)
        .await
        .get_documents(v1::GetDocumentsRequest {
            keys,
            ..Default::default()
        })
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(
        status
            .message()
            .contains("`keys[1]`: expected each entry once, got that of `keys[0]` again"),
        "{status}"
    );
}

/// A batch larger than all places runs while single requests are answered.
#[tokio::test]
async fn a_large_batch_leaves_places_for_others() {
    let index = tempfile::tempdir().unwrap();
    write_index_of(&documents(), index.path(), 1, "f00d");
    let server = searcher_over(
        index,
        EngineConfig {
            max_requests: 8,
            ..EngineConfig::default()
        },
    )
    .await;
    let mut client = raw(&server).await;
    let requests = vec![request(Mode::Hybrid, "the river number 4", 10); 1000];
    let batch = tokio::spawn(async move { client.search_batch(v1::SearchBatchRequest { requests }).await });
    let mut alone = raw(&server).await;
    let mut answered = 0;
    while !batch.is_finished() {
        alone.search(request(Mode::Bm25, "river", 3)).await.unwrap();
        answered += 1;
    }
    assert_eq!(batch.await.unwrap().unwrap().into_inner().responses.len(), 1000);
    assert!(answered > 0);
}
