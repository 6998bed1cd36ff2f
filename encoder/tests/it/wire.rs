//! What comes over gRPC as no client of ours sends it: bytes that are no text, nothing at all, very much, and
//! compressed.

use std::time::{Duration, Instant};

use dyad_encoder::serve::{EncodeOptions, EncoderService, Handle};
use dyad_encoder::{Compute, Tower};
use dyad_proto::service::{self, Health, ServeError, ServerConfig};
use dyad_proto::v1;
use dyad_proto::v1::encoder_client::EncoderClient;
use dyad_proto::v1::encoder_server::EncoderServer;
use tokio::sync::oneshot;
use tonic::Code;
use tonic::codec::CompressionEncoding;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint};

use crate::fixture::{open, tiny};
use crate::service::one_thread;

/// `EncodeRequest` with bytes where it has texts: the same on the wire.
#[derive(Clone, PartialEq, prost::Message)]
struct Raw {
    #[prost(enumeration = "v1::Tower", tag = "2")]
    tower: i32,
    #[prost(bytes = "vec", repeated, tag = "3")]
    texts: Vec<Vec<u8>>,
}

/// The encoder of the model `plain` on a port, and a connection to it.
struct Server {
    channel: Channel,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Result<(), ServeError>>,
}

impl Server {
    async fn start() -> Self {
        let handle = Handle::start(&tiny("plain"), one_thread()).unwrap();
        let listener = service::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let routes = Routes::new(service::encoder(EncoderService::new(handle)));
        let health = Health::new().serving::<EncoderServer<EncoderService>>().await;
        let shutdown = async { drop(stopped.await) };
        let task = tokio::spawn(service::serve(
            listener,
            routes,
            health,
            shutdown,
            ServerConfig::default(),
        ));
        let channel = Endpoint::from_shared(url)
            .unwrap()
            .timeout(Duration::from_mins(1))
            .connect()
            .await
            .unwrap();
        Self { channel, stop, task }
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        drop(self.channel);
        self.task.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_are_none_are_refused_and_the_service_goes_on() {
    let server = Server::start().await;
    let ask = async |texts: Vec<Vec<u8>>| {
        let mut client = tonic::client::Grpc::new(server.channel.clone());
        client.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<Raw, v1::EncodeResponse>::default();
        let request = tonic::Request::new(Raw {
            tower: v1::Tower::Answer.into(),
            texts,
        });
        client
            .unary(request, PathAndQuery::from_static("/dyad.v1.Encoder/Encode"), codec)
            .await
    };
    let status = ask(vec![b"the river".to_vec(), b"\xff\xfe".to_vec()])
        .await
        .unwrap_err();
    assert!(
        status.message().contains("texts") && status.message().contains("UTF-8"),
        "{status}"
    );
    // Half of a character.
    let status = ask(vec!["Temüjin".as_bytes()[..4].to_vec()]).await.unwrap_err();
    assert!(status.message().contains("UTF-8"), "{status}");
    let status = ask(Vec::new()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("texts"), "{status}");
    let status = ask(vec![b"a".to_vec(), Vec::new()]).await.unwrap_err();
    assert!(
        status.code() == Code::InvalidArgument && status.message().contains("texts[1]"),
        "{status}"
    );
    // A million characters are cut, and over the bound they are refused.
    let long = ask(vec![b"the river ".repeat(100_000)]).await.unwrap().into_inner();
    assert_eq!((long.truncated, long.tokens.as_slice()), (1, &[28][..]));
    let status = ask(vec![b"the river ".repeat(110_000)]).await.unwrap_err();
    assert!(
        status.code() == Code::InvalidArgument && status.message().contains("texts[0]"),
        "{status}"
    );
    assert_eq!(
        ask(vec![b"the river".to_vec()]).await.unwrap().into_inner().dim,
        12,
        "and goes on"
    );
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_compress_its_requests() {
    let server = Server::start().await;
    let client = || EncoderClient::new(server.channel.clone());
    let texts: Vec<String> = (0..400).map(|number| format!("the river number {number}")).collect();
    let request = v1::EncodeRequest {
        tower: v1::Tower::Answer.into(),
        texts,
        ..Default::default()
    };
    let expected = client().encode(request.clone()).await.unwrap().into_inner();
    for encoding in [CompressionEncoding::Gzip, CompressionEncoding::Zstd] {
        let reply = client()
            .send_compressed(encoding)
            .encode(request.clone())
            .await
            .unwrap();
        assert!(reply.into_inner().vectors == expected.vectors, "{encoding:?}");
        let requests = futures_util::stream::iter(vec![request.clone(), request.clone()]);
        let mut replies = client()
            .send_compressed(encoding)
            .encode_stream(requests)
            .await
            .unwrap()
            .into_inner();
        for _ in 0..2 {
            let reply = replies.message().await.unwrap().unwrap();
            assert!(reply.vectors == expected.vectors, "{encoding:?}");
        }
        assert!(replies.message().await.unwrap().is_none());
    }
    // What packs well is no larger for that.
    let large = v1::EncodeRequest {
        texts: vec!["a ".repeat(500_000); 40],
        ..request.clone()
    };
    let status = client()
        .send_compressed(CompressionEncoding::Gzip)
        .encode(large)
        .await
        .unwrap_err();
    assert!(
        status.code() == Code::InvalidArgument && status.message().contains("when it is unpacked"),
        "{status}"
    );
    let mut unknown = tonic::Request::new(request);
    unknown.metadata_mut().insert("grpc-encoding", "br".parse().unwrap());
    let status = client().encode(unknown).await.unwrap_err();
    assert!(
        status.code() == Code::Unimplemented && status.message().contains("identity,gzip,zstd"),
        "{status}"
    );
    assert_eq!(
        status.metadata().get("grpc-accept-encoding").unwrap(),
        "identity,gzip,zstd"
    );
    server.end().await;
}

#[tokio::test]
async fn an_empty_batch_is_no_vectors_or_refused() {
    let encoder = open(&tiny("plain"));
    assert_eq!(encoder.embed(Tower::Answer, &[]).unwrap(), Vec::<f32>::new());
    assert_eq!(
        encoder
            .embed_all(Tower::Answer, &[], dyad_encoder::tokenize::Budget::CPU)
            .unwrap(),
        Vec::<f32>::new()
    );
    let learned = dyad_encoder::Model::open(&tiny("plain"), &Compute::default()).unwrap();
    assert!(learned.vectors(Tower::Answer, &[]).is_err() || learned.vectors(Tower::Answer, &[]).unwrap().numel() == 0);
    let handle = Handle::start(&tiny("plain"), one_thread()).unwrap();
    let options = EncodeOptions::until(Instant::now() + Duration::from_mins(1));
    let error = handle
        .encode(Tower::Answer, Vec::<String>::new(), options)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("is empty"), "{error}");
}
