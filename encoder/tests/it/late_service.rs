//! Late chunking in the service: passages of a request get the vectors that `embed` gives them.

use std::time::{Duration, Instant};

use dyad_corpus::{Document, PassageContext, Split};
use dyad_encoder::Tower;
use dyad_encoder::serve::{EncodeError, EncodeOptions, EncoderService, Handle, ServedModelOptions, Truncation};
use dyad_encoder::tokenize::Budget;
use dyad_proto::v1::encoder_server::Encoder as _;
use dyad_proto::{v1, vector};
use futures_util::future;
use tonic::{Code, Request};

use crate::fixture::{open, rows, tiny, worst};
use crate::late::by_formula;
use crate::service::one_thread;

/// Passages of some documents, of which one is longer than the model reads.
fn passages() -> Vec<Document> {
    let lengths = [3, 60, 1, 9];
    let of = |(number, sentences): (usize, &usize)| {
        let words = [
            "the king",
            "a na\u{ef}ve river",
            "went home",
            "of 1605",
            "and the queen",
        ];
        let sentence = |at: usize| format!("{} {}.", words[at % 5], words[(at * 3 + number) % 5]);
        let text: Vec<String> = (0..*sentences).map(sentence).collect();
        let document = Document {
            key: number.to_string(),
            title: "The King".into(),
            text: text.join(" "),
            ..Document::default()
        };
        Split::new(12, 0).unwrap().passages(&document).unwrap()
    };
    lengths.iter().enumerate().flat_map(of).collect()
}

fn request(passages: &[&Document], context: PassageContext) -> v1::EncodeRequest {
    let mut documents: Vec<v1::PassageDocument> = Vec::new();
    for (text, passage) in (0..).zip(passages) {
        let place = passage.place.as_ref().unwrap();
        let own = v1::DocumentPassage {
            text,
            start: place.bytes().start as u32,
            end: place.bytes().end as u32,
        };
        match documents.iter_mut().find(|document| document.text == place.document()) {
            Some(document) => document.passages.push(own),
            None => documents.push(v1::PassageDocument {
                text: place.document().to_owned(),
                passages: vec![own],
            }),
        }
    }
    v1::EncodeRequest {
        tower: v1::Tower::Answer.into(),
        texts: passages
            .iter()
            .map(|passage| passage.passage_in(context).into_owned())
            .collect(),
        late_weight: context.late_weight().unwrap(),
        documents,
        ..Default::default()
    }
}

/// Batches are small, so that the texts and windows of many callers are mixed.
fn service(model: &str) -> EncoderService {
    let options = ServedModelOptions {
        budget: Budget { tokens: 64, rows: 4 },
        ..one_thread()
    };
    EncoderService::new(Handle::start(&tiny(model), options).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn passages_have_the_vectors_of_the_formula_whichever_come_together() {
    for model in ["plain", "classic-mean"] {
        let (service, encoder, passages) = (service(model), open(&tiny(model)), passages());
        assert!(passages.len() > 20);
        for context in ["late:0.5", "title+late:2"] {
            let context: PassageContext = context.parse().unwrap();
            let expected = by_formula(&encoder, &passages, context);
            // In one request, one in each, and some in each, with documents of which others have other passages; all at
            // once.
            for size in [passages.len(), 1, 3] {
                let calls = passages.chunks(size).map(|some| {
                    let request = request(&some.iter().rev().collect::<Vec<_>>(), context);
                    async { service.encode(Request::new(request)).await.unwrap().into_inner() }
                });
                let mut found = Vec::new();
                for reply in future::join_all(calls).await {
                    assert!(reply.document_tokens > 0 && reply.tokens.len() <= size);
                    let dim = reply.dim as usize;
                    let vectors = vector::unpack(&reply.vectors, reply.tokens.len(), dim, "vectors").unwrap();
                    let mut of = rows(&vectors, dim);
                    of.reverse();
                    found.extend(of);
                }
                assert_eq!(found.len(), expected.len());
                let worst = worst(&found, &expected);
                assert!(worst > 0.999_99, "{model}, {context}, {size} in a request: {worst}");
            }
        }
    }
}

#[tokio::test]
async fn a_passage_that_is_longer_than_a_window_is_told_or_refused() {
    let service = service("plain");
    let words = "the king went home to the river of the queen ".repeat(60);
    let text = words.trim().to_owned();
    let document = |text: &str| v1::PassageDocument {
        text: text.to_owned(),
        passages: vec![v1::DocumentPassage {
            text: 0,
            start: 0,
            end: text.len() as u32,
        }],
    };
    let request = v1::EncodeRequest {
        tower: v1::Tower::Answer.into(),
        texts: vec!["king".to_owned()],
        documents: vec![document(&text)],
        late_weight: 1.0,
        ..Default::default()
    };
    let reply = service
        .encode(Request::new(request.clone()))
        .await
        .unwrap()
        .into_inner();
    assert_eq!((reply.truncated, reply.truncated_texts), (1, vec![0]));
    let refused = v1::EncodeRequest {
        truncation: v1::Truncation::Refuse.into(),
        ..request.clone()
    };
    let status = service.encode(Request::new(refused)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(
        status.message().contains("`texts[0]` has more than"),
        "{}",
        status.message()
    );
    let none = v1::EncodeRequest {
        documents: Vec::new(),
        late_weight: 0.0,
        ..request
    };
    let alone = service.encode(Request::new(none)).await.unwrap().into_inner();
    assert_eq!(alone.document_tokens, 0);
}

#[tokio::test]
async fn a_model_whose_vectors_are_no_means_refuses_documents() {
    let handle = Handle::start(&tiny("roberta-cls"), one_thread()).unwrap();
    let (documents, weight) = (Vec::new(), 1.0);
    let input = dyad_encoder::serve::Input::Passages {
        texts: vec!["king".into()],
        documents,
        weight,
    };
    let deadline = Instant::now() + Duration::from_mins(1);
    let options = EncodeOptions {
        truncation: Truncation::Truncate,
        ..EncodeOptions::until(deadline)
    };
    let error = handle.encode(Tower::Answer, input, options).await.unwrap_err();
    assert!(
        matches!(error, EncodeError::NoMeans { .. }) && error.to_string().contains("`documents`"),
        "{error}"
    );
}
