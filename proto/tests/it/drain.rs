//! The drain of a gRPC server, and its health until then.

use std::time::Duration;

use dyad_proto::service::ServerConfig;
use dyad_proto::v1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_stream::StreamExt as _;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};

use crate::bounds::{ENCODE, call, client, one_text, start};

#[tokio::test]
async fn a_drain_ends_watches_and_idle_streams_after_a_pause_without_health() {
    let config = ServerConfig {
        lame_duck: Duration::from_millis(300),
        ..ServerConfig::default()
    };
    let server = start(8, config).await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut health = HealthClient::new(channel.clone());
    let mut encoder = v1::encoder_client::EncoderClient::new(channel);
    let named = |service: &str| HealthCheckRequest {
        service: service.to_owned(),
    };
    let mut watched = health.watch(named("dyad.v1.Encoder")).await.unwrap().into_inner();
    assert_eq!(watched.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    // One request, and then nothing for ever.
    let requests = tokio_stream::once(v1::EncodeRequest {
        id: 5,
        ..Default::default()
    });
    let mut replies = encoder
        .encode_stream(requests.chain(tokio_stream::pending()))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(replies.next().await.unwrap().unwrap().id, 5);

    server.stop.send(()).unwrap();
    assert_eq!(
        watched.next().await.unwrap().unwrap().status(),
        ServingStatus::NotServing
    );
    assert_eq!(
        health.check(named("")).await.unwrap().into_inner().status(),
        ServingStatus::NotServing
    );
    // Requests are still taken.
    let request = v1::EncodeRequest {
        tower: 1,
        texts: vec!["text".into()],
        ..Default::default()
    };
    assert!(encoder.encode(request).await.is_ok());
    assert!(replies.next().await.is_none());
    assert!(watched.next().await.is_none_or(|last| last.is_err()));
    tokio::time::timeout(Duration::from_secs(10), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_drain_ends_a_stream_that_always_has_another_request() {
    let server = start(8, ServerConfig::default()).await;
    let url = format!("http://{}", server.address);
    let mut encoder = v1::encoder_client::EncoderClient::connect(url).await.unwrap();
    let requests = tokio_stream::iter((0..).map(|id| v1::EncodeRequest {
        id,
        ..Default::default()
    }));
    let mut replies = encoder.encode_stream(requests).await.unwrap().into_inner();
    assert_eq!(replies.next().await.unwrap().unwrap().id, 0);
    server.stop.send(()).unwrap();
    let mut last = 0;
    let read = async {
        while let Some(reply) = replies.next().await {
            last = reply.unwrap().id;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), read)
        .await
        .expect("the stream goes on");
    assert!(last > 0);
    tokio::time::timeout(Duration::from_secs(10), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_silent_connection_does_not_hold_up_the_drain() {
    let server = start(8, ServerConfig::default()).await;
    let mut silent = TcpStream::connect(&server.address).await.unwrap();
    silent.write_all(b"PRI * HTTP/2").await.unwrap();
    // A call after it: the silent connection was taken before.
    let (sender, _connection) = client(&server.address, 1 << 20).await;
    assert_eq!(call(&sender, ENCODE, one_text()).await.await.unwrap().status(), 200);
    server.stop.send(()).unwrap();
    drop(sender);
    // Less than the preface's own time.
    tokio::time::timeout(Duration::from_secs(8), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn an_open_connection_at_the_end_of_the_drain_is_no_failure() {
    let server = start(
        8,
        ServerConfig {
            drain: Duration::from_millis(300),
            ..ServerConfig::default()
        },
    )
    .await;
    // It answers nothing, not even the ping that goes before the end of a connection.
    let mut deaf = TcpStream::connect(&server.address).await.unwrap();
    deaf.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    deaf.read_exact(&mut [0; 9]).await.unwrap();
    server.stop.send(()).unwrap();
    let served = tokio::time::timeout(Duration::from_secs(10), server.task)
        .await
        .unwrap()
        .unwrap();
    assert!(served.is_ok(), "{served:?}");
}

#[tokio::test]
async fn health_falls_when_what_serves_has_failed() {
    let server = start(8, ServerConfig::default()).await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let mut health = HealthClient::new(channel.connect().await.unwrap());
    let mut watched = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watched.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    server.fail.send(()).unwrap();
    assert_eq!(
        watched.next().await.unwrap().unwrap().status(),
        ServingStatus::NotServing
    );
    let named = HealthCheckRequest {
        service: "dyad.v1.Encoder".into(),
    };
    assert_eq!(
        health.check(named).await.unwrap().into_inner().status(),
        ServingStatus::NotServing
    );
    server.stop.send(()).unwrap();
    drop((health, watched));
    tokio::time::timeout(Duration::from_secs(10), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}
