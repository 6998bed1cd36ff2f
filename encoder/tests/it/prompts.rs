//! Prompts of requests: vectors and fingerprints are those of a model that was opened with that prompt, whichever
//! requests come together.

use std::path::Path;
use std::time::{Duration, Instant};

use dyad_encoder::serve::{
    EncodeError, EncodeOptions, EncoderService, Handle, Input, ReadDocument, ReadPassage, RequestPrompt,
    ServedModelOptions,
};
use dyad_encoder::tokenize::Budget;
use dyad_encoder::{Compute, Model, PromptOptions, Tower};
use dyad_proto::v1::encoder_server::Encoder as _;
use dyad_proto::{limits, v1};
use futures_util::future;
use serde_json::json;
use tonic::{Code, Request};

use crate::fixture::{copy, edit, embed, read_json, rows, tiny, worst};
use crate::service::one_thread;

/// Models whose pooling leaves prompts out, and whose pooling reads them.
const MODELS: [&str; 3] = ["classic-prompt-left-out", "roberta-cls", "newer-dense"];

/// Prompts of several lengths, the empty one and one of special tokens among them.
const PROMPTS: [&str; 6] = [
    "",
    "query: ",
    "the king ",
    "the river of ",
    "a mountain of light: ",
    "[SEP] ",
];

fn with(prompt: RequestPrompt) -> EncodeOptions {
    EncodeOptions {
        prompt,
        ..EncodeOptions::until(Instant::now() + Duration::from_mins(1))
    }
}

fn text(prompt: &str) -> EncodeOptions {
    with(RequestPrompt::Text(prompt.to_owned()))
}

fn named(name: &str) -> EncodeOptions {
    with(RequestPrompt::Named(name.to_owned()))
}

fn texts(count: usize) -> Vec<String> {
    let words = ["the river", "who was the queen in the city", "water, water", "k"];
    (0..count)
        .map(|number| words[number % words.len()].repeat(1 + number % 3))
        .collect()
}

/// The model as one that was opened with this prompt of a tower.
fn opened(directory: &Path, tower: Tower, prompt: &str) -> Model {
    let mut options = PromptOptions::default();
    match tower {
        Tower::Question => options.question = Some(prompt.to_owned()),
        Tower::Answer => options.answer = Some(prompt.to_owned()),
    }
    let compute = Compute {
        threads: Some(1),
        ..Compute::default()
    };
    Model::open_with(directory, &compute, &options).unwrap()
}

/// Batches are small, so that the texts of many requests are mixed.
fn handle(model: &str) -> Handle {
    let options = ServedModelOptions {
        budget: Budget { tokens: 64, rows: 4 },
        ..one_thread()
    };
    Handle::start(&tiny(model), options).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_prompts_are_embedded_as_by_a_model_that_was_opened_with_them() {
    for model in MODELS {
        let handle = handle(model);
        let asked: Vec<(Tower, &str)> = Tower::BOTH
            .into_iter()
            .flat_map(|tower| PROMPTS.map(|prompt| (tower, prompt)))
            .collect();
        // All at once, each twice.
        let calls = asked.iter().chain(&asked).enumerate().map(|(number, (tower, prompt))| {
            let handle = handle.clone();
            async move {
                handle
                    .encode(*tower, texts(1 + number % 7), text(prompt))
                    .await
                    .unwrap()
            }
        });
        let replies = future::join_all(calls).await;
        for (number, (reply, (tower, prompt))) in replies.iter().zip(asked.iter().chain(&asked)).enumerate() {
            let alone = opened(&tiny(model), *tower, prompt);
            let dim = alone.info().dim;
            let expected = embed(&alone, *tower, &texts(1 + number % 7));
            let worst = worst(&rows(&reply.vectors, dim), &expected);
            assert!(worst > 0.999_999, "{model}, {tower}, {prompt:?}: {worst}");
            assert_eq!(
                *reply.fingerprint,
                alone.info().fingerprint,
                "{model}, {tower}, {prompt:?}"
            );
        }
        // Without a prompt of its own a request has that of the tower.
        let plain = handle
            .encode(Tower::Answer, texts(3), with(RequestPrompt::OfTower))
            .await
            .unwrap();
        assert_eq!(*plain.fingerprint, handle.info().fingerprint);
    }
}

#[tokio::test]
async fn token_ids_and_passages_have_the_prompt_of_their_request_too() {
    // Means of token vectors, but those of the prompt.
    let folder = copy("classic-mean");
    edit(&folder.path().join("1_Pooling/config.json"), |settings| {
        settings["include_prompt"] = json!(false);
    });
    let handle = Handle::start(folder.path(), one_thread()).unwrap();
    let prompt = "the king ";
    let alone = opened(folder.path(), Tower::Answer, prompt);
    let vocabulary = read_json(&folder.path().join("tokenizer.json"))["model"]["vocab"].clone();
    let ids = ["the", "river"].map(|word| vocabulary[word].as_u64().unwrap() as u32);
    let by_ids = handle
        .encode(Tower::Answer, Input::TokenIds(vec![ids.to_vec()]), text(prompt))
        .await
        .unwrap();
    let expected = embed(&alone, Tower::Answer, &["the river".to_owned()]);
    assert!(worst(&rows(&by_ids.vectors, by_ids.dim), &expected) > 0.999_999);

    let passages = || Input::Passages {
        texts: vec!["the river".to_owned()],
        documents: vec![ReadDocument {
            text: "the river of light and the king".to_owned(),
            passages: vec![ReadPassage { text: 0, bytes: 0..9 }],
        }],
        weight: 1.0,
    };
    let options = ServedModelOptions {
        prompts: PromptOptions {
            answer: Some(prompt.to_owned()),
            ..PromptOptions::default()
        },
        ..one_thread()
    };
    let other = Handle::start(folder.path(), options).unwrap();
    let expected = other
        .encode(Tower::Answer, passages(), with(RequestPrompt::OfTower))
        .await
        .unwrap();
    let found = handle.encode(Tower::Answer, passages(), text(prompt)).await.unwrap();
    assert!(worst(&rows(&found.vectors, found.dim), &rows(&expected.vectors, expected.dim)) > 0.999_999);
    assert_eq!(found.document_tokens, expected.document_tokens);
    assert_eq!(found.fingerprint, expected.fingerprint);
}

#[tokio::test]
async fn prompts_are_picked_by_name_and_refused_with_the_names_that_there_are() {
    let folder = copy("classic-mean");
    edit(&folder.path().join("config_sentence_transformers.json"), |settings| {
        settings["prompts"] = json!({"query": "who: ", "clustering": "the king "});
    });
    let handle = Handle::start(folder.path(), one_thread()).unwrap();
    let by_name = handle
        .encode(Tower::Answer, texts(3), named("clustering"))
        .await
        .unwrap();
    let by_text = handle.encode(Tower::Answer, texts(3), text("the king ")).await.unwrap();
    assert_eq!(
        (&by_name.vectors, &by_name.fingerprint),
        (&by_text.vectors, &by_text.fingerprint)
    );
    assert_ne!(*by_name.fingerprint, handle.info().fingerprint);
    let question = handle.encode(Tower::Question, texts(1), named("query")).await.unwrap();
    assert_eq!(*question.fingerprint, handle.info().fingerprint, "the tower's own");
    let none = handle.encode(Tower::Answer, texts(1), named("document")).await.unwrap();
    assert_eq!(*none.fingerprint, handle.info().fingerprint, "every model has it");
    let refused = handle
        .encode(Tower::Answer, texts(1), named("Query"))
        .await
        .unwrap_err();
    assert!(matches!(refused, EncodeError::UnknownPrompt(_)));
    let told = refused.to_string();
    assert!(
        told.contains("`Query`") && told.contains("`clustering`, `document`, `query`"),
        "{told}"
    );
    // As a text that stands in for the one in the files.
    let options = ServedModelOptions {
        prompts: PromptOptions {
            answer: Some("passage: ".to_owned()),
            question_name: Some("clustering".to_owned()),
            ..PromptOptions::default()
        },
        ..one_thread()
    };
    let handle = Handle::start(folder.path(), options).unwrap();
    assert_eq!(handle.info().prompts, ["the king ", "passage: "]);
    assert!(handle.info().has_two_towers);
    for (tower, name) in [(Tower::Answer, "document"), (Tower::Question, "clustering")] {
        let reply = handle.encode(tower, texts(1), named(name)).await.unwrap();
        assert_eq!(*reply.fingerprint, handle.info().fingerprint, "{name}");
    }
}

#[tokio::test]
async fn a_prompt_leaves_room_for_text_or_is_refused() {
    let handle = handle("classic-prompt-left-out");
    // The model reads 24 tokens, two of them around a text.
    let words = |count: usize| "river ".repeat(count);
    let reply = handle.encode(Tower::Answer, texts(2), text(&words(21))).await.unwrap();
    assert_eq!((&reply.tokens[..], &reply.truncated[..]), (&[24, 24][..], &[0, 1][..]));
    for count in [22, 40, 2000] {
        let refused = handle
            .encode(Tower::Answer, texts(2), text(&words(count)))
            .await
            .unwrap_err();
        let told = refused.to_string();
        let tokens = format!("takes {} tokens", count + 2);
        assert!(told.contains(&tokens) && told.contains("the model reads 24"), "{told}");
    }
    let cross = Handle::start(&tiny("cross-classic"), one_thread()).unwrap();
    assert_eq!(cross.info().named_prompts.iter().count(), 0);
    let refused = cross
        .score("who".into(), texts(1), false, text("query: "))
        .await
        .unwrap_err();
    assert!(matches!(refused, EncodeError::PromptOfPairs), "{refused}");
}

#[tokio::test]
async fn grpc_takes_prompts_and_tells_their_names_and_the_fingerprint() {
    let handle = handle("classic-prompt-left-out");
    let service = EncoderService::new(handle.clone());
    let info = service
        .info(Request::new(v1::InfoRequest {}))
        .await
        .unwrap()
        .into_inner();
    let prompt = |name: &str, text: &str| v1::ModelPrompt {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    assert_eq!(
        info.prompts,
        [prompt("document", "passage: "), prompt("query", "query: ")]
    );
    let request = |change: fn(&mut v1::EncodeRequest)| {
        let mut request = v1::EncodeRequest {
            tower: v1::Tower::Answer.into(),
            texts: texts(2),
            ..Default::default()
        };
        change(&mut request);
        Request::new(request)
    };
    let alone = opened(&tiny("classic-prompt-left-out"), Tower::Answer, "query: ");
    let by_name = service
        .encode(request(|r| r.prompt_name = "query".into()))
        .await
        .unwrap();
    let by_text = service
        .encode(request(|r| r.prompt = Some("query: ".into())))
        .await
        .unwrap();
    assert_eq!(by_name.get_ref().fingerprint, alone.info().fingerprint);
    assert_eq!(by_name.get_ref().vectors, by_text.get_ref().vectors);
    let without = service
        .encode(request(|r| r.prompt = Some(String::new())))
        .await
        .unwrap();
    let alone = opened(&tiny("classic-prompt-left-out"), Tower::Answer, "");
    assert_eq!(without.get_ref().fingerprint, alone.info().fingerprint);
    for (refused, expected) in [
        (request(|r| r.prompt_name = "none".into()), "`document`, `query`"),
        (request(|r| r.prompt = Some("river ".repeat(30))), "32 tokens"),
        (
            request(|r| r.prompt = Some("a".repeat(limits::MAX_PROMPT_BYTES + 1))),
            "`prompt`: ",
        ),
        (
            request(|r| (r.prompt_name, r.prompt) = ("query".into(), Some("q".into()))),
            "got both",
        ),
    ] {
        let status = service.encode(refused).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(expected), "{status}");
    }
}
