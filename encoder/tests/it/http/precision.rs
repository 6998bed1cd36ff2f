//! Prompts, dimensions and precisions, alone and together: what sentence-transformers makes of them, and what gRPC
//! gives.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use dyad_encoder::serve::EncoderService;
use dyad_proto::v1::encoder_server::Encoder as _;
use dyad_proto::{limits, v1, vector};
use serde_json::{Value, json};
use tonic::Request;

use super::{MODEL, Server, bits, grpc_request, serve_directory, simple};
use crate::fixture::{copy, copy_folder, edit, golden, read_json, real_model, tiny, worst};
use crate::service::one_thread;

/// Precisions that are not of f32, by the names of sentence-transformers.
const QUANTIZED: [&str; 4] = ["int8", "uint8", "binary", "ubinary"];

/// What `benches/peers/st_reference.py --what prompts` wrote of a model.
fn reference(model: &str) -> Value {
    read_json(&golden().join(format!("{model}-prompts.json")))
}

/// Whole numbers of rows.
fn numbers(rows: &Value) -> Vec<Vec<i64>> {
    serde_json::from_value(rows.clone()).unwrap()
}

/// The embeddings of a reply that must succeed.
async fn embeddings(server: &Server, request: &Value) -> (Value, Value) {
    let reply = server.post(request).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let whole = reply.json();
    let rows = whole["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["embedding"].clone());
    (Value::Array(rows.collect()), whole)
}

/// The bits of a row of bytes, as many as it has values.
fn unpacked(row: &[i64], dim: usize) -> Vec<bool> {
    (0..dim).map(|at| row[at / 8] & (0x80 >> (at % 8)) != 0).collect()
}

/// Compares a model in all cases of its reference.
async fn compare(directory: &Path, model: &str) {
    let reference = reference(model);
    let server = serve_directory(directory, one_thread()).await;
    for case in reference["cases"].as_array().unwrap() {
        let mut request = json!({"input": reference["texts"]});
        for field in ["prompt", "prompt_name", "dimensions"] {
            if let Some(value) = case.get(field) {
                request[field] = value.clone();
            }
        }
        let expected: Vec<Vec<f32>> = serde_json::from_value(case["float32"].clone()).unwrap();
        let floats = server.vectors(request.clone()).await;
        let dim = floats[0].len();
        let nearest = worst(&floats, &expected);
        assert!(nearest > 0.999_99, "{model}: {nearest}: {request}");
        for precision in QUANTIZED {
            request["precision"] = json!(precision);
            let (rows, whole) = embeddings(&server, &request).await;
            let theirs = numbers(&case[precision]);
            assert_eq!(whole["precision"], json!(precision));
            let wrong = numbers(&rows)
                .iter()
                .zip(&theirs)
                .zip(&expected)
                .map(|((ours, theirs), values)| wrong_values(precision, (ours, theirs), values))
                .sum::<usize>();
            assert_eq!(wrong, 0, "{model}, {precision}: {request}");
            for (row, values) in whole["data"].as_array().unwrap().iter().zip(&floats) {
                let most = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
                let range = precision.ends_with("int8").then_some([-most, most]);
                assert_eq!(
                    serde_json::from_value::<Option<[f32; 2]>>(row["range"].clone()).unwrap(),
                    range
                );
            }
        }
        assert!(dim == 20 || dim >= 36);
    }
}

/// Values that differ by more than the rounding of f32 can make of them: at the edge of a step, or next to 0.
fn wrong_values(precision: &str, (ours, theirs): (&[i64], &[i64]), values: &[f32]) -> usize {
    assert_eq!(ours.len(), theirs.len());
    if precision.ends_with("int8") {
        let apart = ours.iter().zip(theirs).map(|(ours, theirs)| (ours - theirs).abs());
        let moved = apart.clone().filter(|apart| *apart == 1).count();
        return apart.filter(|apart| *apart > 1).count() + moved.saturating_sub(values.len() / 50);
    }
    let raised = |row: &[i64]| -> Vec<bool> {
        let offset = if precision == "binary" { 128 } else { 0 };
        let row: Vec<i64> = row.iter().map(|byte| byte + offset).collect();
        unpacked(&row, values.len())
    };
    let (ours, theirs) = (raised(ours), raised(theirs));
    let all = ours.iter().zip(&theirs).zip(values);
    all.filter(|((ours, theirs), value)| ours != theirs && value.abs() > 1e-5)
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_and_precisions_are_those_of_sentence_transformers() {
    let folder = copy(MODEL);
    edit(&folder.path().join("config_sentence_transformers.json"), |settings| {
        settings["prompts"] = reference(MODEL)["prompts"].clone();
    });
    compare(folder.path(), MODEL).await;
}

/// With the weights of SHA-256 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_model_has_the_prompts_and_precisions_of_sentence_transformers() {
    let Some(model) = real_model("a_real_model_has_the_prompts_and_precisions_of_sentence_transformers") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for entry in fs_err::read_dir(&model).unwrap() {
        let (from, to) = entry
            .map(|entry| (entry.path(), folder.path().join(entry.file_name())))
            .unwrap();
        if from.is_dir() {
            copy_folder(&from, &to);
        } else if from.extension().is_some_and(|extension| extension == "safetensors") {
            std::os::unix::fs::symlink(&from, &to).unwrap();
        } else {
            fs_err::copy(&from, &to).unwrap();
        }
    }
    edit(&folder.path().join("config_sentence_transformers.json"), |settings| {
        settings["prompts"] = reference("all-MiniLM-L6-v2")["prompts"].clone();
    });
    compare(folder.path(), "all-MiniLM-L6-v2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_precision_is_that_of_grpc_byte_for_byte_and_does_not_depend_on_other_texts() {
    let server = simple().await;
    let texts = ["the river", "who was the queen in the city", "water, water"];
    for (precision, wire) in [
        ("int8", v1::Precision::Int8),
        ("uint8", v1::Precision::Uint8),
        ("binary", v1::Precision::Binary),
        ("ubinary", v1::Precision::Ubinary),
    ] {
        let request = v1::EncodeRequest {
            precision: wire.into(),
            dimensions: 35,
            ..grpc_request(v1::Tower::Answer, &texts)
        };
        let service = EncoderService::new(server.handle.clone());
        let reply = service.encode(Request::new(request)).await.unwrap().into_inner();
        assert_eq!((reply.precision(), reply.dim), (wire, 35));
        let ours = json!({"input": texts, "precision": precision, "dimensions": 35});
        let (rows, whole) = embeddings(&server, &ours).await;
        let bytes: Vec<u8> = numbers(&rows).concat().iter().map(|value| *value as u8).collect();
        assert_eq!(bytes, reply.vectors, "{precision}");
        let ranges: Vec<f32> = whole["data"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|row| serde_json::from_value::<[f32; 2]>(row["range"].clone()).ok())
            .flatten()
            .collect();
        assert_eq!(vector::pack(&ranges), reply.ranges, "{precision}");
        assert_eq!(ranges.len(), if precision.ends_with("int8") { 6 } else { 0 });
        // OpenAI's clients ask for base64 where nothing else is said, and take a text for f32.
        for (field, value) in [("encoding_format", "base64"), ("output_dtype", precision)] {
            let mut other = ours.clone();
            if field == "output_dtype" {
                other.as_object_mut().unwrap().remove("precision");
            }
            other[field] = json!(value);
            assert_eq!(embeddings(&server, &other).await.0, rows, "{field}");
        }
        for (text, row) in texts.iter().zip(numbers(&rows)) {
            let alone = json!({"input": text, "precision": precision, "dimensions": 35});
            assert_eq!(numbers(&embeddings(&server, &alone).await.0), [row], "{precision}");
        }
    }
    // As OpenAI has no other, nothing is said of it.
    for precision in [json!("float32"), json!("float"), Value::Null] {
        let request = json!({"input": texts, "precision": precision, "encoding_format": "base64"});
        let (rows, whole) = embeddings(&server, &request).await;
        assert!(whole.get("precision").is_none() && whole["data"][0].get("range").is_none());
        let bytes = BASE64_STANDARD.decode(rows[0].as_str().unwrap()).unwrap();
        assert_eq!(bytes.len(), 4 * 36);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_told_in_the_fingerprint_and_query_is_of_questions() {
    let server = simple().await;
    let own = server.handle.info().fingerprint.clone();
    let asked = async |more: Value| {
        let mut request = json!({"input": "the river"});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let reply = server.post(&request).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let fingerprint = reply.header("x-dyad-fingerprint").unwrap().to_owned();
        (bits(&reply.vectors()), fingerprint)
    };
    let question = asked(json!({"input_type": "query"})).await;
    assert_eq!(question.1, own);
    assert_eq!(asked(json!({"prompt_name": "query"})).await, question);
    assert_eq!(
        asked(json!({"prompt_name": "query", "input_type": "query"})).await,
        question
    );
    let answer = asked(json!({"prompt_name": "query", "input_type": "document"})).await;
    assert_eq!(answer.0, question.0, "one network");
    assert_ne!(answer.1, own, "of a model whose answers have that prompt");
    assert_eq!(asked(json!({"prompt": "query: "})).await, answer);
    assert_eq!(
        asked(json!({"prompt": null, "prompt_name": null})).await,
        asked(json!({})).await
    );
    assert_eq!(asked(json!({"prompt_name": "document"})).await, asked(json!({})).await);
    let models = server.get("/v1/models").await.json();
    assert_eq!(
        models["data"][0]["prompts"],
        json!({"document": "passage: ", "query": "query: "})
    );
    let options = dyad_encoder::serve::ServedModelOptions {
        prompts: dyad_encoder::PromptOptions {
            answer: Some("query: ".to_owned()),
            ..Default::default()
        },
        ..one_thread()
    };
    let opened = serve_directory(&tiny(MODEL), options).await;
    assert_eq!(opened.handle.info().fingerprint, answer.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_prompt_and_no_precision_is_refused() {
    let server = simple().await;
    let long = "a".repeat(limits::MAX_PROMPT_BYTES + 1);
    for (more, status, code, param, expected) in [
        (
            json!({"prompt_name": "none"}),
            400,
            "unknown_prompt",
            "prompt_name",
            "`document`, `query`",
        ),
        (
            json!({"prompt_name": ""}),
            400,
            "unknown_prompt",
            "prompt_name",
            "`document`, `query`",
        ),
        (json!({"prompt_name": 5}), 400, "invalid_value", "prompt_name", "string"),
        (json!({"prompt": ["a"]}), 400, "invalid_value", "prompt", "string"),
        (
            json!({"prompt": "a", "prompt_name": "query"}),
            400,
            "invalid_value",
            "prompt",
            "got both",
        ),
        (
            json!({"prompt": "river ".repeat(30)}),
            422,
            "prompt_too_long",
            "prompt",
            "32 tokens",
        ),
        (
            json!({"prompt": long}),
            413,
            "input_too_large",
            "prompt",
            "16384 bytes, got 16385",
        ),
        (
            json!({"precision": "int4"}),
            400,
            "invalid_value",
            "precision",
            "`ubinary`",
        ),
        (
            json!({"precision": "int8", "dimensions": 37}),
            400,
            "dimensions",
            "dimensions",
            "1 to 36",
        ),
    ] {
        let mut request = json!({"input": "the river"});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let reply = server.post(&request).await;
        let error = reply.json()["error"].clone();
        assert_eq!(
            (reply.status, &error["code"], &error["param"]),
            (status, &json!(code), &json!(param)),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains(expected), "{error}");
    }
}
