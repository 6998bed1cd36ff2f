//! Cross encoders: scores of sentence-transformers' `CrossEncoder`, what is refused, and the command that scores
//! examples.

use std::path::Path;
use std::process::Command;

use dyad_encoder::model::ScoreActivation;
use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::{Compute, CrossEncoder, Dtype, ModelKind};
use dyad_files::Never;
use serde_json::{Value, json};

use crate::fixture::{copy, copy_folder, edit, path_of, read_json, refusal, tiny};

fn open(directory: &Path, dtype: Dtype) -> CrossEncoder {
    CrossEncoder::open(
        directory,
        &Compute {
            dtype,
            threads: Some(1),
            ..Compute::default()
        },
    )
    .unwrap()
}

/// Pairs and what Python gives for them under this name.
fn reference(folder: &Path, name: &str) -> (Vec<Tokens>, Vec<f32>) {
    let value = read_json(&folder.join("scores.json"));
    let pairs: Vec<[String; 2]> = serde_json::from_value(value["pairs"].clone()).unwrap();
    let tokenizer = open(folder, Dtype::F32).tokenizer();
    let tokens = pairs
        .iter()
        .map(|[question, answer]| tokenizer.encode_pair(question, answer).unwrap())
        .collect();
    (tokens, serde_json::from_value(value[name].clone()).unwrap())
}

fn logits(model: &CrossEncoder, pairs: &[Tokens]) -> Vec<f32> {
    model.logits_until(pairs, Budget::CPU, &Never).unwrap().unwrap()
}

/// Pearson's correlation, and the largest difference.
fn agreement(ours: &[f32], theirs: &[f32]) -> (f64, f32) {
    assert_eq!(ours.len(), theirs.len());
    let mean = |values: &[f32]| values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64;
    let (a, b) = (mean(ours), mean(theirs));
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        ours.iter()
            .zip(theirs)
            .map(|(x, y)| f(f64::from(*x) - a, f64::from(*y) - b))
            .sum()
    };
    let correlation = sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
    (
        correlation,
        ours.iter().zip(theirs).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max),
    )
}

#[test]
fn scores_are_those_of_sentence_transformers() {
    let folder = tiny("cross-classic");
    let (model, (pairs, theirs)) = (open(&folder, Dtype::F32), reference(&folder, "scores"));
    assert_eq!(
        (model.info().kind, model.info().dim, model.info().max_tokens),
        (ModelKind::CrossEncoder, 1, 24)
    );
    assert_eq!(model.activation(), ScoreActivation::Identity);
    let ours = logits(&model, &pairs);
    let (correlation, difference) = agreement(&ours, &theirs);
    assert!(
        correlation > 0.999_99 && difference < 1e-4,
        "{correlation}, {difference}"
    );
    // In one batch and alone.
    let all: Vec<&Tokens> = pairs.iter().collect();
    let (_, apart) = agreement(&model.logits(&all).unwrap(), &ours);
    assert!(apart < 1e-5, "{apart}");
    // The types of the tokens count: without them other scores come out.
    let untyped: Vec<Tokens> = pairs
        .iter()
        .map(|pair| Tokens {
            second: None,
            ..pair.clone()
        })
        .collect();
    assert!(agreement(&logits(&model, &untyped), &ours).1 > 0.01);
    assert!(pairs.iter().any(|pair| pair.truncated) && pairs.iter().any(|pair| !pair.truncated));
}

#[test]
fn every_family_scores_as_python_does() {
    let Some(all) = path_of("DYAD_ST_CHECKPOINTS", "every_family_scores_as_python_does") else {
        return;
    };
    for (name, activation) in [
        ("cross-bert", ScoreActivation::Sigmoid),
        ("cross-distilbert", ScoreActivation::Sigmoid),
        ("cross-roberta", ScoreActivation::Sigmoid),
        ("cross-mpnet", ScoreActivation::Sigmoid),
        ("cross-newer", ScoreActivation::Identity),
        ("cross-gte", ScoreActivation::Sigmoid),
        ("cross-modernbert", ScoreActivation::Sigmoid),
        ("cross-modernbert-cls", ScoreActivation::Sigmoid),
    ] {
        let folder = all.join(name);
        let (pairs, theirs) = reference(&folder, "logits");
        let model = open(&folder, Dtype::F32);
        assert_eq!(model.activation(), activation, "{name}");
        let ours = logits(&model, &pairs);
        let (correlation, difference) = agreement(&ours, &theirs);
        assert!(
            correlation > 0.999_99 && difference < 1e-4,
            "{name}: {correlation}, {difference}"
        );
        let scores: Vec<f32> = ours.iter().map(|logit| activation.of(*logit)).collect();
        assert!(agreement(&scores, &reference(&folder, "scores").1).1 < 1e-4, "{name}");
        for (dtype, least) in [(Dtype::Bf16, 0.99), (Dtype::Int8, 0.98)] {
            let (correlation, _) = agreement(&logits(&open(&folder, dtype), &pairs), &theirs);
            assert!(correlation > least, "{name}, {dtype}: {correlation}");
        }
    }
    let fingerprint = |name: &str| open(&all.join(name), Dtype::F32).info().fingerprint.clone();
    assert_ne!(fingerprint("cross-bert"), fingerprint("cross-mpnet"));
    assert_eq!(
        fingerprint("cross-bert"),
        fingerprint("cross-newer"),
        "the same weights in another form"
    );
}

/// Long texts are cut before they are tokenized, where that changes nothing.
#[test]
fn a_pair_of_long_texts_has_the_tokens_of_the_whole_ones() {
    let tokenizer = open(&tiny("cross-classic"), Dtype::F32).tokenizer();
    let long = |words: usize| {
        (0..words)
            .map(|at| ["river", "king", "light"][at % 3])
            .collect::<Vec<_>>()
            .join(" ")
    };
    let pair = |question: &str, answer: &str| tokenizer.encode_pair(question, answer).unwrap();
    let texts = [long(1), long(4), long(10), long(11), long(12), long(40), long(5_000)];
    for (at, question) in texts.iter().enumerate() {
        for (other, answer) in texts.iter().enumerate() {
            let tokens = pair(question, answer);
            // 24 tokens, of which three are special; the longer text is cut first, down to half of them.
            let words = [question, answer].map(|text| text.split(' ').count());
            let (shorter, most) = (words[0].min(words[1]), 21);
            let kept = if words[0] + words[1] <= most {
                words
            } else {
                let short = shorter.min(most / 2);
                if words[0] < words[1] {
                    [short, most - short]
                } else {
                    [most - short, short]
                }
            };
            let kept = if words[0] == words[1] && words[0] > most / 2 {
                [most - most / 2, most / 2]
            } else {
                kept
            };
            let (first, total) = (tokens.second.unwrap() - 2, tokens.ids.len());
            let got = [first, total - first - 3];
            assert!(
                got == kept || got == [kept[1], kept[0]] && words[0] == words[1],
                "{at} {other}: {got:?}, {kept:?}"
            );
            assert_eq!(tokens.truncated, words[0] + words[1] > most, "{at} {other}");
        }
    }
}

#[test]
fn each_kind_of_model_is_refused_where_the_other_is_needed() {
    let message = refusal(&tiny("cross-classic"));
    assert!(
        message.contains("a cross encoder") && message.contains("--reranker"),
        "{message}"
    );
    let refused = |folder: &Path| CrossEncoder::open(folder, &Compute::default()).unwrap_err().to_string();
    let message = refused(&tiny("plain"));
    assert!(
        message.contains("ForSequenceClassification") && message.contains("an encoder of single texts"),
        "{message}"
    );
    let changed = |change: &dyn Fn(&mut Value)| {
        let folder = copy("cross-classic");
        edit(&folder.path().join("config.json"), change);
        refused(folder.path())
    };
    let message = changed(&|config| config["id2label"] = json!({"0": "no", "1": "yes"}));
    assert!(
        message.contains("one label") && message.contains("2 labels"),
        "{message}"
    );
    let message = changed(&|config| config["sentence_transformers"]["activation_fn"] = json!("torch.nn.Tanh"));
    assert!(message.contains("Sigmoid") && message.ends_with("Tanh"), "{message}");
}

#[test]
fn the_command_scores_examples_and_describes_the_model() {
    let root = tempfile::tempdir().unwrap();
    let (model, examples, out) = (
        tiny("cross-classic"),
        root.path().join("in.jsonl"),
        root.path().join("out.jsonl"),
    );
    let passage = |text: &str| json!({"docid": "", "title": "", "text": text});
    let line = |question: &str, texts: [&str; 3]| {
        let negatives = [passage(texts[1]), passage(texts[2])];
        json!({"query": question, "positive_passages": [passage(texts[0])], "negative_passages": negatives}).to_string()
    };
    let lines = [
        line("who was the king", ["the king of the city", "the queen", "water"]),
        line(
            "what is light",
            [
                "light is water",
                "a mountain",
                "the river of the city ".repeat(9).as_str(),
            ],
        ),
    ];
    fs_err::write(&examples, lines.join("\n")).unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"))
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let [model_path, examples, out_path] = [&model, &examples, &out].map(|path| path.to_str().unwrap());
    let score = ["score", "--model", model_path, "--data", examples, "--out", out_path];
    let (done, said, error) = run(&score);
    assert!(
        done && said.starts_with("scored 6 passages of 2 examples, 1 of them cut at 24 tokens"),
        "{said}{error}"
    );

    let cross = open(&model, Dtype::F32);
    let written = fs_err::read_to_string(&out).unwrap();
    let written: Vec<Value> = written
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(written.len(), 2);
    for example in &written {
        let question = example["query"].as_str().unwrap();
        assert!(example["query_id"].as_str().unwrap().starts_with('q'));
        let lists = [&example["positive_passages"], &example["negative_passages"]];
        for passage in lists.iter().flat_map(|list| list.as_array().unwrap()) {
            let pair = cross
                .tokenizer()
                .encode_pair(question, passage["text"].as_str().unwrap())
                .unwrap();
            let expected = cross.logits(&[&pair]).unwrap()[0];
            assert!(
                (passage["score"].as_f64().unwrap() as f32 - expected).abs() < 1e-5,
                "{passage}"
            );
        }
    }
    let (done, _, error) = run(&score);
    assert!(!done && error.contains("already exists"), "{error}");

    let (done, said, error) = run(&["inspect", model_path]);
    assert!(
        done && said.contains("cross encoder: a score for each pair of texts, longest pair 24 tokens"),
        "{said}{error}"
    );
    let (_, said, _) = run(&["inspect", "--json", model_path]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["kind"], &said["dim"]), (&json!("cross-encoder"), &Value::Null));
    let (done, _, error) = run(&["encode", "--model", model_path, "the king"]);
    assert!(!done && error.contains("a cross encoder"), "{error}");
}

/// A checkpoint whose weights are not those of its head.
#[test]
fn a_head_that_is_missing_is_named() {
    let Some(all) = path_of("DYAD_ST_CHECKPOINTS", "a_head_that_is_missing_is_named") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    copy_folder(&all.join("bert"), folder.path());
    edit(&folder.path().join("config.json"), |config| {
        config["architectures"] = json!(["BertForSequenceClassification"]);
        config["id2label"] = json!({"0": "LABEL_0"});
    });
    let message = CrossEncoder::open(folder.path(), &Compute::default())
        .unwrap_err()
        .to_string();
    assert!(message.contains("lacks tensor `classifier.weight`"), "{message}");
}
