//! The binary as people run it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use dyad_proto::client::{ClientConfig, EncoderClient};
use serde_json::{Value, json};

use crate::fixture::{copy, cosine, embed, open, tiny};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn corpus(root: &Path) -> String {
    let path = root.join("corpus.tsv");
    let lines: Vec<String> = (0..40)
        .map(|number| format!("k{number}\tthe river {number} of the king"))
        .collect();
    fs_err::write(&path, lines.join("\n")).unwrap();
    path.display().to_string()
}

fn embed_corpus(model: &Path, corpus: &str, out: &Path) -> Output {
    let (model, out) = (model.display().to_string(), out.display().to_string());
    let arguments = [
        "embed",
        "--model",
        &model,
        "--tower",
        "answer",
        "--corpus",
        corpus,
        "--out",
        &out,
        "--part-rows",
        "16",
    ];
    command(&arguments).output().unwrap()
}

#[test]
fn embed_says_what_it_did_and_does_it_once() {
    let root = tempfile::tempdir().unwrap();
    let (corpus, out) = (corpus(root.path()), root.path().join("out"));
    let first = embed_corpus(&tiny("plain"), &corpus, &out);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(
        text(&first.stdout).starts_with("embedded 40 documents ("),
        "{}",
        text(&first.stdout)
    );
    let second = embed_corpus(&tiny("plain"), &corpus, &out);
    assert!(second.status.success());
    assert!(
        text(&second.stdout).starts_with("nothing to do: "),
        "{}",
        text(&second.stdout)
    );
    fs_err::write(
        &corpus,
        fs_err::read_to_string(&corpus).unwrap().replacen("river", "stream", 1),
    )
    .unwrap();
    let third = text(&embed_corpus(&tiny("plain"), &corpus, &out).stdout);
    assert!(
        third.starts_with("embedded 1 documents (") && third.contains("; 39 reused; 40 documents in "),
        "{third}"
    );
    assert_eq!(
        dyad_corpus::embeddings::EmbeddingsReader::open(&out).unwrap().rows(),
        40
    );
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

#[test]
fn embed_tells_what_is_flawed_and_what_is_not_stored() {
    let root = tempfile::tempdir().unwrap();
    let corpus = root.path().join("corpus.jsonl");
    let good = "{\"_id\":\"a\",\"text\":\"x\",\"url\":\"http://x\"}\n{\"_id\":\"b\",\"text\":\"y\"}\n";
    fs_err::write(&corpus, format!("{good}{{\"_id\":\"c\",\"text\":null}}\n7\n")).unwrap();
    let model = tiny("plain").display().to_string();
    let paths = [&corpus, &root.path().join("out"), &root.path().join("rejects.jsonl")];
    let [corpus, out, rejects] = paths.map(|path| path.display().to_string());
    let embed = |more: &[&str]| {
        let arguments = [&["embed", "--model", &model, "--corpus", &corpus, "--out", &out], more].concat();
        command(&arguments).output().unwrap()
    };
    let failed = embed(&[]);
    assert_eq!(failed.status.code(), Some(1));
    let message = text(&failed.stderr);
    assert!(
        message.contains("error: 2 bad records in ") && message.contains("`--max-bad 2`"),
        "{message}"
    );
    let done = embed(&["--max-bad", "2", "--rejects", &rejects]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let log = text(&done.stderr);
    assert_eq!(log.matches("skipped 2 bad records; the first: ").count(), 1, "{log}");
    assert_eq!(
        log.matches("fields outside `metadata` are not stored: url").count(),
        1,
        "{log}"
    );
    assert_eq!(fs_err::read_to_string(&rejects).unwrap().lines().count(), 2);
    assert!(
        text(&done.stdout).contains("; 2 documents in "),
        "{}",
        text(&done.stdout)
    );
}

fn signal(name: &str, process: u32) {
    assert!(
        Command::new("kill")
            .args([name, &process.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn an_interrupted_embed_keeps_whole_parts() {
    let root = tempfile::tempdir().unwrap();
    let (model, out) = (tiny("plain").display().to_string(), root.path().join("out"));
    let out_path = out.display().to_string();
    let arguments = [
        "embed",
        "--model",
        &model,
        "--corpus",
        "-",
        "--out",
        &out_path,
        "--part-rows",
        "16",
    ];
    let mut running = command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = running.stdin.take().unwrap();
    // A whole window, so that parts are written while the corpus is still open.
    for number in 0..2100 {
        writeln!(input, "{}", json!({"_id": format!("k{number}"), "text": "the river"})).unwrap();
    }
    input.flush().unwrap();
    let rows = || {
        fs_err::read(out.join("embeddings.json"))
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
    };
    for _ in 0..600 {
        if rows().is_some_and(|record| record["rows"] == 2048) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    signal("-INT", running.id());
    let output = running.wait_with_output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(
        message.contains("error: interrupted; 2048 documents are kept"),
        "{message}"
    );
    drop(input);
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_says_where_it_listens_and_stops_cleanly() {
    let model = tiny("plain").display().to_string();
    let mut running = command(&["serve", "--model", &model, "--listen", "127.0.0.1:0"])
        .spawn()
        .unwrap();
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.strip_prefix("listening on ").unwrap().trim().to_owned();
    let client = EncoderClient::connect(&format!("http://{address}"), ClientConfig::default())
        .await
        .unwrap();
    assert_eq!(client.info().await.unwrap().name, "plain");

    let taken = command(&["serve", "--model", &model, "--listen", &address])
        .output()
        .unwrap();
    let message = text(&taken.stderr);
    assert!(
        taken.status.code() == Some(1) && message.contains(&address) && message.contains("--listen"),
        "{message}"
    );

    drop(client);
    signal("-TERM", running.id());
    assert!(running.wait().unwrap().success());
}

/// As where the program that has started it was killed.
#[test]
fn serve_ends_with_its_input_where_that_is_asked_for() {
    let model = tiny("plain").display().to_string();
    let arguments = [
        "serve",
        "--model",
        &model,
        "--listen",
        "127.0.0.1:0",
        "--lame-duck-s",
        "0",
        "--while-input",
    ];
    let mut running = command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(
        line.starts_with("listening on ") && running.try_wait().unwrap().is_none(),
        "{line}"
    );
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_answers_over_http_beside_grpc() {
    let model = tiny("plain").display().to_string();
    let free = "127.0.0.1:0";
    let mut running = command(&["serve", "--model", &model, "--listen", free, "--http", free])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let grpc = lines
        .next()
        .unwrap()
        .unwrap()
        .strip_prefix("listening on ")
        .unwrap()
        .to_owned();
    let http = lines
        .next()
        .unwrap()
        .unwrap()
        .strip_prefix("HTTP on ")
        .unwrap()
        .to_owned();
    let client = EncoderClient::connect(&format!("http://{grpc}"), ClientConfig::default())
        .await
        .unwrap();
    assert_eq!(client.info().await.unwrap().name, "plain");
    let mut stream = std::net::TcpStream::connect(&http).unwrap();
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut status = String::new();
    BufReader::new(&stream).read_line(&mut status).unwrap();
    assert_eq!(status.trim(), "HTTP/1.1 200 OK");

    let taken = command(&["serve", "--model", &model, "--listen", free, "--http", &http])
        .output()
        .unwrap();
    let message = text(&taken.stderr);
    assert!(
        taken.status.code() == Some(1) && message.contains(&http) && message.contains("--http"),
        "{message}"
    );

    // One signal ends both; the connection that is kept alive holds up neither.
    drop(client);
    signal("-TERM", running.id());
    assert!(running.wait().unwrap().success());
}

#[test]
fn the_configuration_of_the_unit_can_be_used() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/config/encoder.toml");
    let output = command(&["config", "print", "--config", path])
        .env_remove("DYAD_MODEL")
        .env("DYAD_ENCODER_DTYPE", "bf16")
        .output()
        .unwrap();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), &*error), (Some(0), ""));
    assert!(
        out.contains(&format!("model = \"/opt/dyad/model\" # file {path}\n")),
        "{out}"
    );
    assert!(
        out.contains("dtype = \"bf16\" # environment DYAD_ENCODER_DTYPE\n"),
        "{out}"
    );
}
