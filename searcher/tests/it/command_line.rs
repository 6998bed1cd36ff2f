//! The binary as a user runs it.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

use crate::encoder_service::encoder;
use crate::fixture::{searcher, write_index};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dyad-searcher"))
        .args(arguments)
        .env("RUST_LOG", "error")
        .output()
        .unwrap()
}

pub(crate) async fn run_beside(arguments: &[&str]) -> (Option<i32>, String, String) {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let output = tokio::task::spawn_blocking(move || run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()));
    let output = output.await.unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn query_prints_a_table_or_json() {
    let server = searcher().await;
    let (code, out, _) = run_beside(&[
        "query",
        "--server",
        &server.url,
        "--mode",
        "bm25",
        "--k",
        "3",
        "number 37",
    ])
    .await;
    assert_eq!(code, Some(0));
    assert!(
        out.contains("rank") && out.contains("doc-37") && out.contains("Title: the silent mountain number 37"),
        "{out}"
    );

    let (_, out, _) = run_beside(&["query", "--server", &server.url, "--mode", "compare", "number 37"]).await;
    assert!(
        out.contains("overlap@10") && out.contains("hybrid") && out.contains("ms: tokenize"),
        "{out}"
    );

    let (_, out, _) = run_beside(&["query", "--server", &server.url, "--json", "-k", "2", "number 37"]).await;
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (json["mode"].as_str(), json["hits"].as_array().unwrap().len()),
        (Some("MODE_HYBRID"), 2)
    );
    assert_eq!(json["hits"][0]["document"]["metadata"]["lang"], "en");

    let asked = [
        "query",
        "--server",
        &server.url,
        "--json",
        "--mode",
        "dense",
        "--target-recall",
        "0.95",
    ];
    let conditions = [
        "--filter",
        "place.number>=12",
        "--filter",
        "place.number<=14",
        "--filter",
        "key!=doc-13",
    ];
    let (code, out, error) = run_beside(&[&asked[..], &conditions[..], &["number 13"]].concat()).await;
    assert_eq!(code, Some(0), "{error}");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let mut found: Vec<&str> = json["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["key"].as_str().unwrap())
        .collect();
    found.sort_unstable();
    assert_eq!((found, json["ef"].as_u64()), (vec!["doc-12", "doc-14"], Some(300)));
    // Every shard was scanned.
    assert_eq!(
        (&json["recall_note"], &json["filter"]["graph_shards"]),
        (&"".into(), &0.into())
    );

    let (code, out, _) = run_beside(&["explain", "--server", &server.url, "--key", "doc-37", "number 37"]).await;
    assert!(
        code == Some(0) && out.contains("dense, exact   rank") && out.contains("hit            rank"),
        "{out}"
    );
    let asked = [
        "explain",
        "--server",
        &server.url,
        "--key",
        "doc-03",
        "--mode",
        "bm25",
        "-k",
        "1",
        "number 37",
    ];
    let (code, out, _) = run_beside(&asked).await;
    assert!(code == Some(0) && out.contains("hit            no\n"), "{out}");
    assert!(
        out.contains("BM25: it is at rank ") && out.contains("and the ranking ends at 1"),
        "{out}"
    );
    let (code, out, _) = run_beside(&["admin", "--server", &server.url, "verify"]).await;
    assert!(code == Some(0) && out.starts_with("intact: "), "{out}");
    let (code, out, _) = run_beside(&["admin", "--server", &server.url, "status"]).await;
    assert!(
        code == Some(0) && out.contains("60 documents") && out.contains("f00d"),
        "{out}"
    );
    assert!(
        out.contains("published 1970-01-01 00:00:01 UTC") && out.contains("MiB dense"),
        "{out}"
    );
    let measured =
        "certificate     g1-0: recall@10 0.95 from ef 200, 0.99 from ef 200, 0.9900 at ef 200 (0 questions)\n";
    assert!(out.contains(measured), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_printed_by_key() {
    let server = searcher().await;
    let (code, out, error) = run_beside(&["get", "--server", &server.url, "doc-37", "doc-05"]).await;
    assert!(
        code == Some(0) && out.starts_with("doc-37  Title\nthe silent mountain number 37\n"),
        "{out}{error}"
    );
    assert!(out.contains("doc-05  Title"), "{out}");
    let (code, out, error) = run_beside(&["get", "--server", &server.url, "--json", "doc-05", "nothing"]).await;
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, json["documents"][0]["metadata"]["place"]["number"].as_u64()),
        (Some(1), Some(5)),
        "{error}"
    );
    assert_eq!(json["missing"][0], "nothing");
    let (code, _, error) = run_beside(&["get", "--server", &server.url, "a", "a"]).await;
    assert!(code == Some(2) && error.contains("expected each entry once"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_goes_to_the_generation_before_and_no_further() {
    let server = searcher().await;
    write_index(server.index.path(), 2, "f00d");
    let admin = async |action: &[&str]| run_beside(&[&["admin", "--server", &server.url], action].concat()).await;
    assert_eq!(admin(&["reload"]).await.1, "generation 1 -> 2\n");
    assert_eq!(admin(&["rollback"]).await.1, "generation 2 -> 1\n");
    let (code, _, error) = admin(&["rollback"]).await;
    assert!(
        code == Some(1) && error.contains("nothing to roll back to: no generation was published before"),
        "{error}"
    );
    assert_eq!(admin(&["rollback", "2"]).await.1, "generation 1 -> 2\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_use_is_exit_code_2_and_failure_is_1() {
    assert_eq!(run_beside(&["query", "--mode", "sideways", "q"]).await.0, Some(2));
    let (code, _, error) = run_beside(&["query", "--k", "0", "q"]).await;
    assert!(
        code == Some(2) && error.contains("`k`: expected 1 to 10000, got 0"),
        "{error}"
    );
    let (code, _, error) = run_beside(&["query", "--filter", "lang", "q"]).await;
    assert!(
        code == Some(2) && error.contains("there is no operator. Write FIELD=VALUE"),
        "{error}"
    );
    assert_eq!(
        run_beside(&["query", "--target-recall", "0.9", "--ef", "64", "q"])
            .await
            .0,
        Some(2)
    );
    let (code, _, error) = run_beside(&["query", "--target-recall", "1", "q"]).await;
    assert!(
        code == Some(2) && error.contains("`target_recall`: expected a number above 0"),
        "{error}"
    );
    let (code, _, error) = run_beside(&["query", "--server", "http://127.0.0.1:1", "q"]).await;
    assert!(
        code == Some(1) && error.contains("no server answers at `http://127.0.0.1:1`"),
        "{error}"
    );
    // Before a model is looked for, let alone loaded.
    let absent = [
        "serve",
        "--index",
        "/none",
        "--question-tower",
        "/none",
        "--listen",
        "127.0.0.1:0",
    ];
    let (code, _, error) = run_beside(&absent).await;
    assert!(code == Some(1) && error.contains("`/none` holds no index"), "{error}");
    // Every way to give a server's address, and the tower's, takes https://, and credentials of files.
    let tls = "no server answers at `https://127.0.0.1:1`";
    let folder = tempfile::tempdir().unwrap();
    write_index(folder.path(), 1, "f00d");
    let index = folder.path().display().to_string();
    let ways: [&[&str]; 4] = [
        &["query", "--server", "https://127.0.0.1:1", "q"],
        &["explain", "--server", "https://127.0.0.1:1", "--key", "a", "q"],
        &["admin", "--server", "https://127.0.0.1:1", "status"],
        &[
            "serve",
            "--index",
            &index,
            "--question-tower",
            "https://127.0.0.1:1",
            "--listen",
            "127.0.0.1:0",
        ],
    ];
    for way in ways {
        let (code, _, error) = run_beside(way).await;
        assert!(code == Some(1) && error.contains(tls), "{way:?}: {error}");
    }
    let (code, _, error) = run_beside(&["query", "--ca", "/none", "q"]).await;
    assert!(
        code == Some(1) && error.contains("--ca: failed to open file `/none`"),
        "{error}"
    );
    assert_eq!(run_beside(&["query", "--client-cert", "/none", "q"]).await.0, Some(2));
    let output = Command::new(env!("CARGO_BIN_EXE_dyad-searcher"))
        .args(["query", "q"])
        .env("DYAD_SERVER", "https://127.0.0.1:1")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains(tls));
    let (code, printed, _) = run_beside(&["--version"]).await;
    let released = concat!("dyad-searcher ", env!("CARGO_PKG_VERSION"), " (");
    assert!(
        code == Some(0) && printed.starts_with(released) && printed.ends_with(")\n"),
        "{printed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_says_where_it_listens_and_ends_cleanly_on_a_signal() {
    let index = tempfile::tempdir().unwrap();
    write_index(index.path(), 1, "f00d");
    let tower = encoder("f00d").await;
    let directory = index.path().to_str().unwrap().to_owned();
    let mut server = Command::new(env!("CARGO_BIN_EXE_dyad-searcher"))
        .args([
            "serve",
            "--index",
            &directory,
            "--question-tower",
            &tower.url,
            "--listen",
            "127.0.0.1:0",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = server.stdout.take().unwrap();
    let line = tokio::task::spawn_blocking(move || BufReader::new(out).lines().next().unwrap().unwrap())
        .await
        .unwrap();
    let address = line.strip_prefix("listening on ").unwrap().to_owned();
    let (code, out, error) = run_beside(&["query", "--server", &format!("http://{address}"), "number 5"]).await;
    assert!(code == Some(0) && out.contains("doc-05"), "{out}{error}");

    // The same port again is refused, with the way out.
    let again = [
        "serve",
        "--index",
        &directory,
        "--question-tower",
        &tower.url,
        "--listen",
        &address,
    ];
    let (code, _, error) = run_beside(&again).await;
    assert!(
        code == Some(1) && error.contains("choose another one with `--listen`"),
        "{error}"
    );

    assert!(
        Command::new("kill")
            .args(["-TERM", &server.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let status = tokio::task::spawn_blocking(move || server.wait().unwrap())
        .await
        .unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn kernels_that_no_machine_has_are_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-searcher"));
    let output = command
        .args(["admin", "status"])
        .env("DYAD_KERNELS", "mmx")
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && error.contains("no kernels named `mmx`"),
        "{error}"
    );
}

/// A tower that fails is logged once, for any number of questions.
#[tokio::test(flavor = "multi_thread")]
async fn a_tower_that_is_down_is_a_warning() {
    let index = tempfile::tempdir().unwrap();
    write_index(index.path(), 1, "f00d");
    let tower = encoder("f00d").await;
    let directory = index.path().to_str().unwrap().to_owned();
    let arguments = [
        "serve",
        "--index",
        &directory,
        "--question-tower",
        &tower.url,
        "--listen",
        "127.0.0.1:0",
    ];
    let mut server = Command::new(env!("CARGO_BIN_EXE_dyad-searcher"))
        .args(arguments)
        .args(["--lame-duck-s", "0"])
        .env("RUST_LOG", "info")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = server.stdout.take().unwrap();
    let line = tokio::task::spawn_blocking(move || BufReader::new(out).lines().next().unwrap().unwrap())
        .await
        .unwrap();
    let url = format!("http://{}", line.strip_prefix("listening on ").unwrap());
    tower.stop();
    let ask = ["query", "--server", &url, "--json", "number 5"];
    let mut degraded = 0;
    for _ in 0..200 {
        let (code, out, error) = run_beside(&ask).await;
        assert_eq!(code, Some(0), "{error}");
        let reply: serde_json::Value = serde_json::from_str(&out).unwrap();
        degraded += usize::from(reply["degraded"].as_bool().unwrap());
        if degraded == 2 {
            break;
        }
    }
    assert_eq!(degraded, 2);
    assert!(
        Command::new("kill")
            .args(["-TERM", &server.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    let output = tokio::task::spawn_blocking(move || server.wait_with_output().unwrap())
        .await
        .unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (
            output.status.code(),
            log.matches("the question tower returns no vectors").count()
        ),
        (Some(0), 1),
        "{log}"
    );
}
