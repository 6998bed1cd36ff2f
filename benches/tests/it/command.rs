//! The binary: output, exit codes.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::tempdir;

use crate::server::{start_honest, write_folder};

async fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-bench"));
    command.args(arguments).env_remove("DYAD_SERVER").env("NO_COLOR", "1");
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The exit code and stderr.
async fn refusal(arguments: &[&str]) -> (i32, String) {
    let output = run(arguments).await;
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn the_version_has_a_revision() {
    let printed = String::from_utf8(run(&["--version"]).await.stdout).unwrap();
    let released = concat!("dyad-bench ", env!("CARGO_PKG_VERSION"), " (");
    assert!(printed.starts_with(released) && printed.ends_with(")\n"), "{printed}");
}

#[tokio::test]
async fn quality_prints_a_table_and_writes_runs_and_json() {
    let folder = tempdir().unwrap();
    write_folder(folder.path());
    let server = start_honest().await;
    let (runs, json) = (folder.path().join("new/runs"), folder.path().join("new/figures.json"));
    let arguments = [
        "quality",
        "--server",
        &server.url,
        "--data",
        path(folder.path()),
        "--run-dir",
        path(&runs),
    ];
    let output = run(&[&arguments[..], &["--json", path(&json), "--modes", "bm25,dense"]].concat()).await;
    assert!(output.status.success(), "{output:?}");
    assert!(
        output.stderr.is_empty(),
        "no progress bar where there is no terminal: {output:?}"
    );
    let table = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = table
        .lines()
        .skip(3)
        .take(3)
        .map(|line| line.get(..12).unwrap().trim())
        .collect();
    assert_eq!(names, ["bm25", "dense", "dense exact"], "{table}");

    let mut files: Vec<String> = fs_err::read_dir(&runs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort_unstable();
    assert_eq!(files, ["bm25.run", "dense-exact.run", "dense.run"]);

    let figures: Value = serde_json::from_slice(&fs_err::read(&json).unwrap()).unwrap();
    let qrels = folder.path().join("qrels/test.tsv");
    for system in figures["systems"].as_array().unwrap() {
        let run_file = system["run"].as_str().unwrap();
        let output = run(&["metrics", "--qrels", path(&qrels), "--run", run_file, "--json"]).await;
        let again: Value = serde_json::from_slice(&output.stdout).unwrap();
        for (name, mean) in system["metrics"].as_object().unwrap() {
            assert_eq!(&again["metrics"][name], mean, "{run_file} {name}");
        }
        let unanswered = if system["mode"] == "bm25" { 75 } else { 0 };
        assert_eq!(again["queries"]["unanswered"], unanswered);
    }
}

#[tokio::test]
async fn metrics_are_readable() {
    // q1 finds its document at rank 2, q2 finds nothing, q3 is not judged.
    let folder = tempfile::tempdir().unwrap();
    let (qrels, run_file) = (folder.path().join("qrels.tsv"), folder.path().join("some.run"));
    fs_err::write(&qrels, "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n").unwrap();
    fs_err::write(&run_file, "q1 Q0 d9 1 0.9 t\nq1 Q0 d1 2 0.8 t\nq3 Q0 d1 1 0.7 t\n").unwrap();
    let output = run(&["metrics", "--qrels", path(&qrels), "--run", path(&run_file)]).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "\
recip_rank   0.2500
P_1          0.0000
recall_1     0.0000
recall_5     0.5000
recall_10    0.5000
recall_100   0.5000
ndcg_cut_10  0.3155
map          0.2500
success_5    0.5000
means over all 2 judged queries, 1 of them unanswered (trec_eval -c)
1 queries of the run have no judgements and do not count
"
    );
}

#[tokio::test]
async fn a_run_of_other_queries_has_no_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let (qrels, run_file) = (folder.path().join("qrels.tsv"), folder.path().join("some.run"));
    fs_err::write(&qrels, "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n").unwrap();
    fs_err::write(&run_file, "x1 Q0 d1 1 0.9 t\nx2 Q0 d2 1 0.8 t\n").unwrap();
    for more in [&[][..], &["--json"]] {
        let (code, message) =
            refusal(&[&["metrics", "--qrels", path(&qrels), "--run", path(&run_file)], more].concat()).await;
        assert_eq!(code, 1, "{message}");
        assert_eq!(
            message.replace(path(folder.path()), "DIR"),
            "error: `DIR/some.run` answers none of the 2 judged queries: its first query is `x1`, the first judged one `q1`. \
             Give the judgements that belong to the run\n"
        );
    }
    // What is found nowhere is 0, and not -0.
    fs_err::write(&run_file, "q1 Q0 d9 1 0.9 t\n").unwrap();
    for more in [&[][..], &["--json"]] {
        let output = run(&[&["metrics", "--qrels", path(&qrels), "--run", path(&run_file)], more].concat()).await;
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("ndcg_cut_10") && !text.contains("-0"), "{text}");
    }
}

#[tokio::test]
async fn wrong_use_ends_with_2_and_says_what_would_be_right() {
    let arguments = ["quality", "--data", "d", "--run-dir", "r"];
    let (code, message) = refusal(&[&arguments[..], &["--modes", "dense,colbert"]].concat()).await;
    assert_eq!(code, 2, "{message}");
    assert!(
        message.contains("'colbert'") && message.contains("dense, bm25, hybrid"),
        "{message}"
    );
    for (option, value) in [
        ("--k", "0"),
        ("--k", "1000000"),
        ("--concurrency", "0"),
        ("--timeout-ms", "0"),
    ] {
        let (code, message) = refusal(&[&arguments[..], &[option, value]].concat()).await;
        assert_eq!(code, 2, "{message}");
        assert!(message.contains(option) && message.contains(value), "{message}");
    }
    assert_eq!(refusal(&["quality"]).await.0, 2);
}

#[tokio::test]
async fn what_cannot_be_measured_ends_with_1_and_one_line() {
    let folder = tempdir().unwrap();
    write_folder(folder.path());
    let runs = folder.path().join("runs");
    let quality = |data: &Path, more: &[&str]| {
        let arguments = ["quality", "--data", path(data), "--run-dir", path(&runs)];
        [&arguments[..], more]
            .concat()
            .iter()
            .map(|&argument| argument.to_owned())
            .collect::<Vec<_>>()
    };
    let missing = folder.path().join("nowhere");
    // Port 9 of the loopback device: nobody answers.
    let gone = "http://127.0.0.1:9";
    let cases = [
        (quality(&missing, &[]), "error: no BEIR folder at `".to_owned()),
        (
            quality(folder.path(), &["--split", "dev"]),
            "has no split `dev`. The splits there: test\n".to_owned(),
        ),
        (
            quality(folder.path(), &["--server", gone]),
            format!("error: no server answers at `{gone}` (5 attempts): "),
        ),
        (
            quality(folder.path(), &["--server", "nonsense"]),
            "error: `nonsense` is not a server's URL".to_owned(),
        ),
    ];
    for (arguments, expected) in cases {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, message) = refusal(&arguments).await;
        assert_eq!(code, 1, "{message}");
        assert!(
            message.starts_with("error: ") && message.contains(&expected),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}
