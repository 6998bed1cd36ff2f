//! What comes over gRPC as no client of ours sends it: bytes that are no text, nothing at all, very much.

use std::time::{Duration, Instant};

use dyad_encoder::serve::{EncodeOptions, EncoderService, Handle};
use dyad_encoder::{Compute, Tower};
use dyad_proto::service::{self, Health, ServerConfig};
use dyad_proto::v1;
use dyad_proto::v1::encoder_server::EncoderServer;
use tokio::sync::oneshot;
use tonic::Code;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::service::Routes;
use tonic::transport::Endpoint;

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

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_are_none_are_refused_and_the_service_goes_on() {
    let handle = Handle::start(&tiny("plain"), one_thread()).unwrap();
    let listener = service::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let routes = Routes::new(service::encoder(EncoderService::new(handle)));
    let health = Health::new().serving::<EncoderServer<EncoderService>>().await;
    let task =
        tokio::spawn(service::serve(listener, routes, health, async { drop(stopped.await) }, ServerConfig::default()));

    let channel = Endpoint::from_shared(url).unwrap().timeout(Duration::from_mins(1)).connect().await.unwrap();
    let ask = async |texts: Vec<Vec<u8>>| {
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<Raw, v1::EncodeResponse>::default();
        let request = tonic::Request::new(Raw { tower: v1::Tower::Answer.into(), texts });
        client.unary(request, PathAndQuery::from_static("/dyad.v1.Encoder/Encode"), codec).await
    };
    let status = ask(vec![b"the river".to_vec(), b"\xff\xfe".to_vec()]).await.unwrap_err();
    assert!(status.message().contains("texts") && status.message().contains("UTF-8"), "{status}");
    // Half of a character.
    let status = ask(vec!["Temüjin".as_bytes()[..4].to_vec()]).await.unwrap_err();
    assert!(status.message().contains("UTF-8"), "{status}");
    let status = ask(Vec::new()).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("texts"), "{status}");
    let status = ask(vec![b"a".to_vec(), Vec::new()]).await.unwrap_err();
    assert!(status.code() == Code::InvalidArgument && status.message().contains("texts[1]"), "{status}");
    // A million characters are cut, and over the bound they are refused.
    let long = ask(vec![b"the river ".repeat(100_000)]).await.unwrap().into_inner();
    assert_eq!((long.truncated, long.tokens.as_slice()), (1, &[28][..]));
    let status = ask(vec![b"the river ".repeat(110_000)]).await.unwrap_err();
    assert!(status.code() == Code::InvalidArgument && status.message().contains("texts[0]"), "{status}");
    assert_eq!(ask(vec![b"the river".to_vec()]).await.unwrap().into_inner().dim, 12, "and goes on");
    stop.send(()).unwrap();
    drop(channel);
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_empty_batch_is_no_vectors_or_refused() {
    let encoder = open(&tiny("plain"));
    assert_eq!(encoder.embed(Tower::Answer, &[]).unwrap(), Vec::<f32>::new());
    assert_eq!(encoder.embed_all(Tower::Answer, &[], dyad_encoder::tokenize::Budget::CPU).unwrap(), Vec::<f32>::new());
    let learned = dyad_encoder::Model::open(&tiny("plain"), &Compute::default()).unwrap();
    assert!(learned.vectors(Tower::Answer, &[]).is_err() || learned.vectors(Tower::Answer, &[]).unwrap().numel() == 0);
    let handle = Handle::start(&tiny("plain"), one_thread()).unwrap();
    let options = EncodeOptions::until(Instant::now() + Duration::from_mins(1));
    let error = handle.encode(Tower::Answer, Vec::<String>::new(), options).await.unwrap_err();
    assert!(error.to_string().contains("is empty"), "{error}");
}
