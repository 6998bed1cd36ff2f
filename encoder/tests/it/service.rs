//! One model for many callers: the handle in process, and the gRPC service on a real port.

use std::time::{Duration, Instant};

use dyad_encoder::serve::{EncodeError, EncodeOptions, EncoderService, Handle, ServedModelOptions};
use dyad_encoder::tokenize::Budget;
use dyad_encoder::{Compute, Error, Tower};
use dyad_proto::client::{ClientConfig, EncoderClient};
use dyad_proto::service::{self, Health, Security, ServerConfig};
use dyad_proto::v1::encoder_server::{Encoder as _, EncoderServer};
use dyad_proto::{v1, vector};
use futures_util::{StreamExt, future, stream};
use serde_json::json;
use tokio::sync::oneshot;
use tonic::service::Routes;
use tonic::{Code, Request};

use crate::fixture::{copy, edit, embed, open, rows, tiny, tokens, worst};

fn soon() -> EncodeOptions {
    EncodeOptions::until(Instant::now() + Duration::from_mins(1))
}

/// Many tests share few cores, and one thread is enough for a tiny model.
pub(crate) fn one_thread() -> ServedModelOptions {
    ServedModelOptions::new(Compute {
        threads: Some(1),
        ..Compute::default()
    })
}

fn handle(options: ServedModelOptions) -> Handle {
    Handle::start(&tiny("classic-prompt-left-out"), options).unwrap()
}

fn texts(count: usize) -> Vec<String> {
    let words = [
        "the river",
        "a mountain of light",
        "who was the queen in the city",
        "water, water",
        "k",
    ];
    (0..count)
        .map(|number| words[number % words.len()].repeat(1 + number % 3))
        .collect()
}

#[tokio::test]
async fn a_handle_gives_the_vectors_of_the_model() {
    let handle = handle(one_thread());
    let expected = embed(&open(&tiny("classic-prompt-left-out")), Tower::Question, &texts(40));
    let encoded = handle.encode(Tower::Question, texts(40), soon()).await.unwrap();
    assert_eq!(
        (encoded.dim, encoded.tokens.len(), encoded.truncated),
        (36, 40, Vec::new())
    );
    assert!(worst(&rows(&encoded.vectors, 36), &expected) > 0.999_999);
    assert!(encoded.embed_us > 0 && encoded.tokenize_us > 0);
    assert_eq!(handle.info().dim, 36);

    let blocking = handle.clone();
    let encoded =
        tokio::task::spawn_blocking(move || blocking.encode_blocking(Tower::Question, texts(40), soon())).await;
    assert!(worst(&rows(&encoded.unwrap().unwrap().vectors, 36), &expected) > 0.999_999);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_get_their_own_vectors() {
    let options = ServedModelOptions {
        budget: Budget { tokens: 64, rows: 4 },
        ..one_thread()
    };
    let handle = handle(options);
    let encoder = open(&tiny("classic-prompt-left-out"));
    let callers: Vec<_> = (1..30)
        .map(|caller| {
            let (handle, tower) = (
                handle.clone(),
                if caller % 2 == 0 {
                    Tower::Question
                } else {
                    Tower::Answer
                },
            );
            tokio::spawn(async move { (caller, tower, handle.encode(tower, texts(caller), soon()).await) })
        })
        .collect();
    for caller in future::join_all(callers).await {
        let (count, tower, encoded) = caller.unwrap();
        let ours = rows(&encoded.unwrap().vectors, 36);
        assert!(
            worst(&ours, &embed(&encoder, tower, &texts(count))) > 0.999_999,
            "caller {count}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_embedded_is_refused_with_the_reason() {
    let options = ServedModelOptions {
        queue_tokens: 100,
        ..one_thread()
    };
    let handle = handle(options);
    let refusal = async |texts: &[&str], options| {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        handle.encode(Tower::Answer, texts, options).await.unwrap_err()
    };
    assert!(matches!(refusal(&[], soon()).await, EncodeError::NoTexts));
    assert!(matches!(
        refusal(&["a", " \t"], soon()).await,
        EncodeError::EmptyText { position: 1 }
    ));
    assert!(matches!(
        refusal(&["the river"; 50], soon()).await,
        EncodeError::TooLarge { limit: 100, .. }
    ));
    assert!(matches!(
        refusal(&["a"], EncodeOptions::until(Instant::now())).await,
        EncodeError::Deadline { .. }
    ));
    assert!(
        handle.encode(Tower::Answer, vec!["a".to_owned()], soon()).await.is_ok(),
        "and goes on"
    );
}

#[tokio::test]
async fn token_ids_are_dressed_as_the_models_own_template_does() {
    // BERT's [CLS] and [SEP], RoBERTa's <s> and </s>; here without a prompt.
    for name in ["classic-mean", "roberta-cls"] {
        let folder = copy(name);
        edit(&folder.path().join("config_sentence_transformers.json"), |settings| {
            settings["prompts"] = json!({});
        });
        let (handle, encoder) = (Handle::start(folder.path(), one_thread()).unwrap(), open(folder.path()));
        for text in ["the river".to_owned(), "a king of the river ".repeat(20)] {
            let whole = tokens(&encoder, Tower::Answer, std::slice::from_ref(&text));
            let by_text = handle.encode(Tower::Answer, vec![text], soon()).await.unwrap();
            // The truncated text without its special tokens fills the model again.
            let content = whole[0].ids[1..whole[0].ids.len() - 1].to_vec();
            let by_ids = handle.encode(Tower::Answer, vec![content], soon()).await.unwrap();
            assert_eq!(
                (by_ids.tokens, by_ids.vectors),
                (by_text.tokens, by_text.vectors),
                "{name}"
            );
            let error = handle
                .encode(Tower::Answer, vec![whole[0].ids.clone()], soon())
                .await
                .unwrap_err();
            assert!(
                matches!(
                    error,
                    EncodeError::SpecialToken {
                        position: 0,
                        place: 0,
                        ..
                    }
                ),
                "{name}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn a_full_queue_refuses_and_then_recovers() {
    let options = ServedModelOptions {
        queue_tokens: 60,
        ..one_thread()
    };
    let handle = handle(options);
    let calls = (0..100).map(|_| handle.encode(Tower::Answer, texts(2), soon()));
    let outcomes = future::join_all(calls).await;
    let refused: Vec<String> = outcomes
        .iter()
        .filter_map(|outcome| outcome.as_ref().err())
        .map(ToString::to_string)
        .collect();
    assert!(!refused.is_empty() && refused.len() < 100, "{} refused", refused.len());
    assert!(
        refused
            .iter()
            .all(|message| message.contains("the limit of 60") && message.contains("Try again"))
    );
    // The patient wait instead, and the room that was taken is given back.
    let calls = (0..100).map(|_| handle.encode_patiently(Tower::Answer, texts(2), soon()));
    assert!(future::join_all(calls).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn callers_who_went_away_leave_no_trace() {
    let options = ServedModelOptions {
        queue_tokens: 2000,
        ..one_thread()
    };
    let handle = handle(options);
    for _ in 0..50 {
        let call = handle.encode_patiently(Tower::Answer, texts(50), soon());
        let _ = tokio::time::timeout(Duration::from_micros(300), call).await;
    }
    // All of the queue is free again only when nothing of them is left.
    let everything: Vec<String> = vec!["the river ".repeat(40); 80];
    assert!(handle.encode_patiently(Tower::Answer, everything, soon()).await.is_ok());
}

#[tokio::test]
async fn the_model_ends_with_its_last_handle() {
    let handle = handle(one_thread());
    assert!(!handle.has_ended());
    let ended = {
        let handle = handle.clone();
        tokio::time::timeout(Duration::from_millis(50), async move { handle.ended().await }).await
    };
    assert!(ended.is_err(), "it runs");
    drop(handle);
    assert!(matches!(
        Handle::start(&tiny("absent"), ServedModelOptions::default()),
        Err(Error::NoDirectory { .. })
    ));
}

pub(crate) struct Server {
    pub(crate) url: String,
    client: EncoderClient,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Result<(), service::ServeError>>,
}

pub(crate) async fn serve(handle: Handle) -> Server {
    let listener = service::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let config = ServerConfig {
        observer: Some(handle.observer(&Security::default())),
        ..ServerConfig::default()
    };
    let routes = Routes::new(service::encoder(EncoderService::new(handle)));
    let health = Health::new().serving::<EncoderServer<EncoderService>>().await;
    let shutdown = async { drop(stopped.await) };
    let task = tokio::spawn(service::serve(listener, routes, health, shutdown, config));
    let client = EncoderClient::connect(&url, ClientConfig::default()).await.unwrap();
    Server {
        url,
        client,
        stop,
        task,
    }
}

fn request(id: u64, tower: v1::Tower, texts: Vec<String>) -> v1::EncodeRequest {
    v1::EncodeRequest {
        id,
        tower: tower.into(),
        texts,
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_answers_like_the_model() {
    let handle = handle(one_thread());
    let fingerprint = handle.info().fingerprint.clone();
    let server = serve(handle).await;
    let info = server.client.info().await.unwrap();
    assert_eq!((info.dim, info.max_tokens, info.metric()), (36, 24, v1::Metric::Cosine));
    assert_eq!(
        (info.device.as_str(), info.dtype.as_str(), &info.fingerprint),
        ("cpu", "f32", &fingerprint)
    );

    let expected = embed(&open(&tiny("classic-prompt-left-out")), Tower::Question, &texts(20));
    let reply = server
        .client
        .encode(request(7, v1::Tower::Question, texts(20)))
        .await
        .unwrap();
    assert_eq!((reply.id, reply.dim, reply.tokens.len()), (7, 36, 20));
    assert_eq!(reply.fingerprint, fingerprint);
    assert!(reply.timings.unwrap().total_us > 0);
    let ours = vector::unpack(&reply.vectors, 20, 36, "vectors").unwrap();
    assert!(worst(&rows(&ours, 36), &expected) > 0.999_999);

    server.stop.send(()).unwrap();
    server.task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_keeps_its_order_and_is_slowed_down_instead_of_refused() {
    let options = ServedModelOptions {
        queue_tokens: 500,
        ..one_thread()
    };
    let server = serve(handle(options)).await;
    let encoder = open(&tiny("classic-prompt-left-out"));
    let counts: Vec<usize> = (0..60).map(|id| 1 + (id * 7) % 13).collect();
    let requests: Vec<_> = (0..60)
        .map(|id| request(id as u64, v1::Tower::Answer, texts(counts[id])))
        .collect();
    let mut replies = server
        .client
        .stream(stream::iter(requests), Duration::from_mins(1))
        .await
        .unwrap();
    for (id, &count) in counts.iter().enumerate() {
        let reply = replies.next().await.unwrap().unwrap();
        assert_eq!((reply.id, reply.tokens.len()), (id as u64, count));
        let ours = vector::unpack(&reply.vectors, count, 36, "vectors").unwrap();
        assert!(
            worst(&rows(&ours, 36), &embed(&encoder, Tower::Answer, &texts(count))) > 0.999_999,
            "{id}"
        );
    }
    assert!(replies.next().await.is_none());
}

#[tokio::test]
async fn errors_have_the_codes_of_grpc() {
    let options = ServedModelOptions {
        queue_tokens: 100,
        ..one_thread()
    };
    let service = EncoderService::new(handle(options));
    let code = async |request: v1::EncodeRequest, timeout: Option<&str>| {
        let mut request = Request::new(request);
        if let Some(timeout) = timeout {
            request.metadata_mut().insert("grpc-timeout", timeout.parse().unwrap());
        }
        let status = service.encode(request).await.unwrap_err();
        (status.code(), status.message().to_owned())
    };
    let (answer, river) = (v1::Tower::Answer, || vec!["the river".to_owned()]);
    let (empty, message) = code(request(1, answer, vec!["a".into(), String::new()]), None).await;
    assert!(
        empty == Code::InvalidArgument && message.contains("texts[1]"),
        "{message}"
    );
    let (tower, message) = code(request(1, v1::Tower::Unspecified, river()), None).await;
    assert!(tower == Code::InvalidArgument && message.contains("tower"), "{message}");
    let (full, message) = code(request(1, answer, texts(60)), None).await;
    assert!(
        full == Code::ResourceExhausted && message.contains("--queue-tokens"),
        "{message}"
    );
    let (late, message) = code(request(1, answer, river()), Some("1n")).await;
    assert!(
        late == Code::DeadlineExceeded && message.contains("Allow more time"),
        "{message}"
    );
}
