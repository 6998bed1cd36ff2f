//! API keys over real connections.

use std::time::Duration;

use dyad_proto::access::{KeyFile, NewKey, Role};
use dyad_proto::client::{ClientConfig, ClientError, CredentialOptions, Credentials, EncoderClient};
use dyad_proto::service::{SecurityOptions, ServerConfig};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tonic::Code;

use crate::security::{SOON, ask, create, start, start_with};
use crate::texts;

#[tokio::test]
async fn a_key_is_needed_and_the_reply_says_which_request_it_answers() {
    let folder = TempDir::new().unwrap();
    let keys = folder.path().join("keys.json");
    let (read, admin) = (create(&keys, "r", Role::Read), create(&keys, "a", Role::Admin));
    let one = NewKey {
        name: "o".into(),
        role: Role::Read,
        indexes: Vec::new(),
        filter: None,
        concurrency: Some(1),
    };
    let one = KeyFile::change(&keys, |file| file.create(one)).unwrap();
    let address = start(&SecurityOptions {
        keys: Some(keys),
        ..SecurityOptions::default()
    })
    .await;
    let url = format!("http://{address}");
    let none = CredentialOptions::default();
    for key in [&read, &admin, &one] {
        ask(&url, &none, Some(key)).await.unwrap();
    }
    let wrong = format!("{read}0");
    for key in [None, Some(wrong.as_str()), Some("dyad_ab_cd")] {
        let error = ask(&url, &none, key).await.unwrap_err();
        assert!(
            matches!(
                &error,
                ClientError::Refused {
                    code: Code::Unauthenticated,
                    ..
                }
            ),
            "{error}"
        );
        assert!(
            error.to_string().contains("--api-key-file") && !error.to_string().contains(&wrong),
            "{error}"
        );
    }
    // One call at a time: the second is told to come again.
    let credentials = Credentials::default().with_api_key(&one).unwrap();
    let config = ClientConfig {
        attempts: 1,
        credentials,
        ..ClientConfig::default()
    };
    let client = EncoderClient::connect(&url, config).await.unwrap();
    let asked = (client.encode(texts(&["sleep"])), client.encode(texts(&["sleep"])));
    let (first, second) = tokio::join!(asked.0, asked.1);
    let refused = first.err().xor(second.err()).unwrap();
    assert!(
        matches!(
            &refused,
            ClientError::Refused {
                code: Code::ResourceExhausted,
                ..
            }
        ),
        "{refused}"
    );
    client.encode(texts(&["a"])).await.unwrap();
    // Health needs none; reflection does. Ids of requests come back, also with refusals.
    let channel = tonic::transport::Endpoint::from_shared(url)
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
    let reply = health
        .check(tonic_health::pb::HealthCheckRequest { service: String::new() })
        .await
        .unwrap();
    assert!(reply.metadata().get("x-request-id").is_some());
    let mut encoder = dyad_proto::v1::encoder_client::EncoderClient::new(channel.clone());
    let mut request = tonic::Request::new(texts(&["a"]));
    request.metadata_mut().insert("x-request-id", "mine-1".parse().unwrap());
    let status = encoder.encode(request).await.unwrap_err();
    assert_eq!(status.metadata().get("x-request-id").unwrap(), "mine-1");
    let mut reflection = tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient::new(channel);
    let status = reflection
        .server_reflection_info(tokio_stream::empty())
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn clients_without_a_key_make_room_for_those_that_have_one() {
    let folder = TempDir::new().unwrap();
    let keys = folder.path().join("keys.json");
    let key = create(&keys, "a", Role::Read);
    let options = SecurityOptions {
        keys: Some(keys),
        ..SecurityOptions::default()
    };
    let config = ServerConfig {
        connections: 2,
        preface_timeout: Duration::from_millis(300),
        ..ServerConfig::default()
    };
    let address = start_with(&options, config).await;
    let mut strangers = Vec::new();
    for _ in 0..2 {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        strangers.push((sender, tokio::spawn(connection)));
    }
    let credentials = Credentials::default().with_api_key(&key).unwrap();
    let config = ClientConfig {
        connect_timeout: SOON,
        credentials,
        ..ClientConfig::default()
    };
    let client = EncoderClient::connect(&format!("http://{address}"), config)
        .await
        .unwrap();
    client.encode(texts(&["a"])).await.unwrap();
    // One that has shown a key stays, though others wait.
    let waiting = TcpStream::connect(address).await.unwrap();
    let more = TcpStream::connect(address).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    client.encode(texts(&["a"])).await.unwrap();
    let mut ended = 0;
    for (_, connection) in strangers {
        ended += usize::from(connection.is_finished());
    }
    assert!(ended > 0);
    drop((waiting, more));
}
