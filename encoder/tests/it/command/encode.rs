//! `dyad-encoder encode`, and failures of every command.

use serde_json::{Value, json};

use super::{command, corpus, embed_corpus, text};
use crate::fixture::{copy, cosine, edit, embed, open, tiny};

#[test]
fn the_version_has_a_revision() {
    let printed = text(&command(&["--version"]).output().unwrap().stdout);
    let released = concat!("dyad-encoder ", env!("CARGO_PKG_VERSION"), " (");
    assert!(printed.starts_with(released) && printed.ends_with(")\n"), "{printed}");
}

#[test]
fn failures_are_one_line_that_names_the_fix() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(root.path());
    let model = copy("plain");
    fs_err::remove_file(model.path().join("model.safetensors")).unwrap();
    let failed = embed_corpus(model.path(), &corpus, &root.path().join("out"));
    assert_eq!(failed.status.code(), Some(1));
    let message = text(&failed.stderr);
    assert!(
        message.starts_with("error: ") && message.contains("model.safetensors") && message.contains("deploy/model.sh"),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(!root.path().join("out").exists());

    // Said before the model is opened, once and with the option.
    let failed = embed_corpus(model.path(), "no/such.jsonl", &root.path().join("out"));
    assert_eq!(
        text(&failed.stderr),
        "error: --corpus: no file or directory `no/such.jsonl`\n"
    );

    for arguments in [
        &["embed"][..],
        &["embed", "--dtype", "f64"],
        &["serve", "--device", "tpu"],
        &["unknown"],
    ] {
        assert_eq!(
            command(arguments).output().unwrap().status.code(),
            Some(2),
            "{arguments:?}"
        );
    }
}

#[test]
fn encode_prints_one_object_per_text() {
    let model = tiny("classic-prompt-left-out");
    let model_path = model.display().to_string();
    let output = command(&[
        "encode",
        "--model",
        &model_path,
        "--tower",
        "question",
        "the river",
        "a king",
    ])
    .output()
    .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let texts = ["the river".to_owned(), "a king".to_owned()];
    let expected = embed(&open(&model), dyad_encoder::Tower::Question, &texts);
    assert_eq!(lines.len(), 2);
    for ((line, text), expected) in lines.iter().zip(&texts).zip(&expected) {
        assert_eq!((&line["text"], &line["tower"]), (&json!(text), &json!("question")));
        let vector: Vec<f32> = serde_json::from_value(line["vector"].clone()).unwrap();
        assert!(cosine(&vector, expected) > 0.999_999);
    }
}

/// Models for several tasks have prompts by name.
#[test]
fn prompts_are_picked_by_their_names_and_stay_in_an_exported_model() {
    let folder = copy("classic-mean");
    edit(&folder.path().join("config_sentence_transformers.json"), |settings| {
        settings["prompts"] = json!({"query": "who: ", "clustering": "the king "});
    });
    let (model, root) = (folder.path().display().to_string(), tempfile::tempdir().unwrap());
    let out = root.path().join("out").display().to_string();
    let inspected = |model: &str, more: &[&str]| -> Value {
        let output = command(&[&["inspect", model, "--json"], more].concat())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let by_name = inspected(
        &model,
        &["--question-prompt-name", "clustering", "--answer-prompt-name", "query"],
    );
    let by_text = inspected(&model, &["--question-prompt", "the king ", "--answer-prompt", "who: "]);
    assert_eq!(by_name["prompts"], json!({"question": "the king ", "answer": "who: "}));
    assert_eq!(by_name["fingerprint"], by_text["fingerprint"]);
    assert_eq!(by_name["two_towers"], json!(true));
    let named = json!({"clustering": "the king ", "document": "", "query": "who: "});
    assert_eq!(by_name["named_prompts"], named);

    let arguments = [
        "export",
        "--model",
        &model,
        "--dtype",
        "f32",
        "--out",
        &out,
        "--question-prompt-name",
        "clustering",
    ];
    assert!(command(&arguments).output().unwrap().status.success());
    let exported = inspected(&out, &[]);
    let named = json!({"clustering": "the king ", "document": "", "query": "the king "});
    assert_eq!(exported["named_prompts"], named);
    assert_eq!(
        exported["fingerprint"],
        inspected(&model, &["--question-prompt-name", "clustering"])["fingerprint"]
    );

    let unknown = command(&["inspect", &model, "--answer-prompt-name", "passage"])
        .output()
        .unwrap();
    let told = text(&unknown.stderr);
    assert!(
        unknown.status.code() == Some(1)
            && told.contains("no prompt `passage`")
            && told.contains("`clustering`, `document`, `query`"),
        "{told}"
    );
    let both = [
        "inspect",
        &model,
        "--question-prompt",
        "a",
        "--question-prompt-name",
        "query",
    ];
    assert_eq!(command(&both).output().unwrap().status.code(), Some(2));
}

/// Models like E5 need prompts that none of their files has.
#[test]
fn prompts_that_are_asked_for_are_those_of_a_model_that_has_them() {
    let root = tempfile::tempdir().unwrap();
    let (model, out) = (
        tiny("classic-mean").display().to_string(),
        root.path().join("out").display().to_string(),
    );
    let asked = ["--question-prompt", "the king ", "--answer-prompt", "the river "];
    let run = |words: &[&str], more: &[&str]| {
        let output = command(&[words, more].concat()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let vector = |model: &str, tower: &str, more: &[&str], given: &str| -> Vec<f32> {
        let printed = run(
            &["encode", "--model", model, "--tower", tower],
            &[more, &[given]].concat(),
        );
        let line: Value = serde_json::from_str(printed.trim()).unwrap();
        serde_json::from_value(line["vector"].clone()).unwrap()
    };
    run(&["export", "--model", &model, "--dtype", "f32", "--out", &out], &asked);
    for (tower, prompt) in [("question", "the king "), ("answer", "the river ")] {
        let expected = vector(&model, tower, &[], &format!("{prompt}light"));
        assert_eq!(vector(&model, tower, &asked, "light"), expected, "{tower}");
        assert_eq!(vector(&out, tower, &[], "light"), expected, "{tower}, exported");
    }
    let fingerprint = |model: &str, more: &[&str]| {
        let printed = run(&["inspect", model, "--json"], more);
        serde_json::from_str::<Value>(&printed).unwrap()["fingerprint"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let with_prompts = fingerprint(&model, &asked);
    assert_ne!(with_prompts, fingerprint(&model, &[]));
    assert_eq!(with_prompts, fingerprint(&out, &[]), "exported");
}
