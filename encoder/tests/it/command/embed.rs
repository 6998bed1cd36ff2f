//! `dyad-encoder embed`.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::{command, corpus, embed_corpus, signal, text};
use crate::fixture::tiny;

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
