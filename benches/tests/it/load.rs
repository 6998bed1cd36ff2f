//! `dyad-bench load` on a searcher with known answers, and on the layers below a served index.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use dyad_bench::dataset::{Matrix, make_unit, npy};
use dyad_bench::load::LoadWorkload;
use dyad_files::space::boundless;
use dyad_index::format::RowType;
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::{BuildParams, BuilderKind};
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::{ArraySource, Corpus, DeclaredModel};
use dyad_proto::service::{self, ServerConfig};
use dyad_searcher::run::{Engine, EngineConfig};
use serde_json::Value;
use tempfile::tempdir;
use tokio::sync::oneshot;

use crate::server::{QUESTIONS, start_honest, write_folder};

/// Runs the command in a folder with `w.toml`.
async fn load(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-bench"));
    command
        .args(["load", "--workload", "w.toml", "--out", "out"])
        .args(arguments)
        .current_dir(folder);
    command.env_remove("DYAD_DATA").env("NO_COLOR", "1");
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

/// What a run that succeeds has written and printed.
async fn measured(folder: &Path, arguments: &[&str]) -> (Value, String) {
    let output = load(folder, arguments).await;
    assert!(output.status.success(), "{output:?}");
    let summary = fs_err::read(folder.join("out/summary.json")).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    (serde_json::from_slice(&summary).unwrap(), table)
}

const TEXTS: &str = "name = \"texts\"\nengines = [\"grpc-text\"]\nrepeats = 1\nclients = 4\nwarm_up_ms = 50\n\
                     [questions]\ndata = \"beir\"\n";

fn kind(name: &str, mode: &str) -> String {
    format!("[[kind]]\nname = \"{name}\"\nsearch = {{ mode = \"{mode}\", k = 10, keys_only = true }}\n")
}

fn prepare(folder: &Path) {
    write_folder(&folder.join("beir"));
    fs_err::write(folder.join("beir/corpus.jsonl"), "{\"_id\":\"0\",\"text\":\"t\"}\n").unwrap();
    fs_err::write(folder.join("w.toml"), format!("{TEXTS}{}", kind("dense", "MODE_DENSE"))).unwrap();
}

fn figure(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap()
}

#[tokio::test]
async fn quality_stands_beside_the_latency_of_texts() {
    let dir = tempdir().unwrap();
    prepare(dir.path());
    let server = start_honest().await;
    let arguments = [
        "--server",
        &server.url,
        "--rate",
        "600",
        "--seconds",
        "1",
        "--record",
        "records",
    ];
    let (summary, table) = measured(dir.path(), &arguments).await;
    let [row] = summary["points"].as_array().unwrap().as_slice() else {
        panic!("{summary}")
    };
    assert!(
        table.contains("grpc-text, 600 per second") && table.contains("nDCG@10"),
        "{table}"
    );
    assert!(
        figure(row, "failed_share").abs() < 1e-9 && figure(row, "qps") > 0.0,
        "{row}"
    );
    // All questions were asked. Exact search has ten hits of eleven, of which the walk misses one where n % 5 == 0.
    assert!((figure(row, "recall") - (0.8 + 0.2 * 0.9)).abs() < 1e-9, "{row}");
    let gain = |n: u32| {
        if n.is_multiple_of(5) {
            0.0
        } else {
            1.0 / (f64::from(n % 4 + 1) + 1.0).log2()
        }
    };
    let expected = (0..QUESTIONS).map(gain).sum::<f64>() / f64::from(QUESTIONS);
    assert!((figure(row, "ndcg_10") - expected).abs() < 1e-9, "{row}");
    assert!(figure(row, "service_p50_ms") <= figure(row, "p50_ms") * 1.01, "{row}");
    assert_eq!(
        fs_err::read_to_string(dir.path().join("out/points.csv"))
            .unwrap()
            .lines()
            .count(),
        2
    );
    assert_eq!(fs_err::read_dir(dir.path().join("records")).unwrap().count(), 1);
}

#[tokio::test]
async fn clients_are_measured_in_turn_and_rates_up_to_the_highest() {
    let dir = tempdir().unwrap();
    prepare(dir.path());
    let mix = [TEXTS, &kind("hybrid", "MODE_HYBRID"), &kind("bm25", "MODE_BM25")].concat();
    fs_err::write(dir.path().join("w.toml"), mix).unwrap();
    let server = start_honest().await;
    let common = ["--server", &server.url, "--seconds", "1"];
    let (summary, table) = measured(dir.path(), &[&common[..], &["--closed", "1,4"]].concat()).await;
    let rows = summary["points"].as_array().unwrap();
    assert_eq!(
        rows.iter()
            .map(|row| row["clients"].as_u64().unwrap())
            .collect::<Vec<_>>(),
        [1, 4]
    );
    assert!((figure(&rows[0], "of_first_load") - 1.0).abs() < 1e-9 && figure(&rows[1], "of_first_load") > 0.0);
    // Of BM25 there are no exact answers; the hybrid ones are always found.
    assert!((figure(&rows[0], "recall") - 1.0).abs() < 1e-9);
    // BM25 finds nothing for half of the questions that it was asked.
    assert!((figure(&rows[0], "ndcg_10_hybrid") - 1.0).abs() < 1e-9 && figure(&rows[0], "ndcg_10_bm25") < 1.0);
    assert!(table.contains("nDCG hybrid") && table.contains("nDCG bm25"), "{table}");

    let (summary, _) = measured(dir.path(), &[&common[..], &["--ramp", "--goal-ms", "5000"]].concat()).await;
    let steps = summary["details"]["grpc-text"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["passed"] == true), "{summary}");
    let highest = steps
        .iter()
        .filter(|step| step["passed"] == true)
        .map(|step| figure(step, "rate"));
    assert!((highest.fold(0.0, f64::max) - figure(&summary["points"][0], "rate")).abs() < 1e-9);
}

/// A server that the command starts and ends: here a script that says where another one listens.
#[tokio::test]
async fn an_overload_of_a_server_that_is_started_here_has_its_memory_and_the_way_back() {
    let dir = tempdir().unwrap();
    prepare(dir.path());
    let server = start_honest().await;
    let (script, process) = (dir.path().join("serve"), dir.path().join("process"));
    let address = server.url.strip_prefix("http://").unwrap();
    let (shown, asked) = (process.display(), dir.path().join("asked"));
    let text = format!(
        "#!/bin/sh\necho $$ >{shown}\necho \"$@\" >{}\necho listening on {address}\nexec sleep 100\n",
        asked.display()
    );
    fs_err::write(&script, text).unwrap();
    fs_err::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = [
        "--searcher",
        script.to_str().unwrap(),
        "--index",
        "i",
        "--question-tower",
        "none",
        "--seconds",
        "0.6",
    ];
    let (summary, table) = measured(
        dir.path(),
        &[&arguments[..], &["--overload", "3", "--capacity", "200"]].concat(),
    )
    .await;
    let row = &summary["points"][0];
    assert!(
        (figure(row, "rate") - 600.0).abs() < 1e-9 && figure(row, "goodput_of_capacity") > 0.0,
        "{row}"
    );
    assert!(
        figure(row, "resident_max_bytes") > 0.0 && table.contains("goodput"),
        "{row}"
    );
    let detail = &summary["details"]["grpc-text"];
    assert!(
        detail["classes"]["answered"]["requests"].as_u64().unwrap() > 0,
        "{detail}"
    );
    assert!(
        !detail["after_window_p99_ms"].as_array().unwrap().is_empty(),
        "{detail}"
    );
    let asked = fs_err::read_to_string(asked).unwrap();
    assert!(
        asked.starts_with("serve --listen 127.0.0.1:0 --question-tower none --index i"),
        "{asked}"
    );
    assert!(asked.contains("--question-cache-mb 0 --filter-cache-mb 64"), "{asked}");
    // What became of all requests stands in the row.
    let parts = ["late", "broken", "refused", "not_sent"].map(|name| figure(row, name));
    let classes = detail["classes"].as_object().unwrap().values();
    let all: f64 = classes.map(|class| figure(class, "requests")).sum();
    assert!(
        (parts.iter().sum::<f64>() + figure(row, "goodput") * 0.6 - all).abs() < 1e-6,
        "{row} {detail}"
    );
    assert!(table.contains("not sent"), "{table}");
    let process = fs_err::read_to_string(process).unwrap();
    assert!(!Path::new("/proc").join(process.trim()).exists(), "the server lives on");
}

/// Pseudo-random unit rows.
fn rows(n: usize, skip: usize) -> Matrix {
    let value = |at: usize| ((at * 7_919 + 13) * (at % 89 + 1) % 1_009) as f32 / 500.0 - 1.0;
    let mut matrix = Matrix::new(16, (skip..skip + n * 16).map(value).collect());
    make_unit(Path::new("made"), &mut matrix, true).unwrap();
    matrix
}

fn write_index(folder: &Path) {
    fs_err::create_dir_all(folder).unwrap();
    npy::write_vectors(&folder.join("base.npy"), &rows(600, 0)).unwrap();
    npy::write_vectors(&folder.join("queries.npy"), &rows(20, 20_000)).unwrap();
    let config = BuildConfig {
        corpus: Corpus::Numbered(600),
        index: folder.join("index"),
        shards: 2,
        builder: BuilderKind::Native,
        params: BuildParams {
            m: 8,
            ef_construction: 60,
            seed: 0,
            threads: 1,
        },
        row_type: RowType::F32,
        dimensions: None,
        language: None,
        queries: None,
        target: None,
        new_model: false,
        allow_empty: false,
        memory: None,
        free_space: boundless,
    };
    let mut source = ArraySource::open(&folder.join("base.npy"), &DeclaredModel::named("bench")).unwrap();
    build_index(&config, &mut source, JobControl::silent()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_find_the_same_and_are_compared_with_the_library() {
    let dir = tempdir().unwrap();
    write_index(&dir.path().join("load-small"));
    let workload = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads/load-small.toml");
    fs_err::copy(workload, dir.path().join("w.toml")).unwrap();
    let engine = Engine::open(&dir.path().join("load-small/index"), None, EngineConfig::default()).unwrap();
    let listener = service::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async { stopped.await.unwrap_or(()) };
    tokio::spawn(dyad_searcher::service::serve(
        listener,
        Arc::new(engine),
        shutdown,
        ServerConfig::default(),
    ));
    let (summary, table) = measured(dir.path(), &["--server", &url, "--seconds", "1"]).await;
    stop.send(()).unwrap();
    let points = summary["points"].as_array().unwrap();
    let names: Vec<&str> = points.iter().map(|row| row["engine"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [["library", "engine", "grpc-vectors", "grpc-vectors-batch"]; 2].concat(),
        "{table}"
    );
    for row in points {
        assert!(figure(row, "recall") > 0.9, "{row}");
        assert!(row["ndcg_10"].is_null() && figure(row, "qps") > 0.0, "{row}");
    }
    for (all, half) in points[..4].iter().zip(&points[4..]) {
        assert!(
            figure(all, "of_first_engine") > 0.0 && half["of_first_engine"].is_null(),
            "{all} {half}"
        );
        assert!(
            (figure(all, "qps") / 2.0 - figure(half, "rate")).abs() < 1e-6,
            "{all} {half}"
        );
    }
    // No server, so the memory is this process's, and no processor time is a server's.
    let arguments = ["--engines", "library", "--overload", "2", "--seconds", "0.6"];
    let (summary, _) = measured(dir.path(), &arguments).await;
    let row = &summary["points"][0];
    assert!(
        figure(row, "resident_max_bytes") > 0.0 && row["server_cpu_us"].is_null(),
        "{row}"
    );
}

#[test]
fn every_load_of_the_repository_can_be_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    // Only whether the files are there is asked, not what is in them.
    let data = tempdir().unwrap();
    for file in [
        "minilm-vectors/queries.f32.npy",
        "load-small/queries.npy",
        "scifact/queries.jsonl",
    ] {
        fs_err::create_dir_all(data.path().join(file).parent().unwrap()).unwrap();
        fs_err::write(data.path().join(file), "").unwrap();
    }
    for name in ["load-minilm-100k", "load-scifact", "load-scifact-mixed", "load-small"] {
        let workload = LoadWorkload::read(&root.join(name).with_extension("toml"), Some(data.path())).unwrap();
        assert_eq!(workload.name, name);
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_with_its_place() {
    let dir = tempdir().unwrap();
    prepare(dir.path());
    let refused = async |text: &str, arguments: &[&str], expected: &str| {
        fs_err::write(dir.path().join("w.toml"), text).unwrap();
        let output = load(dir.path(), arguments).await;
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{expected}: {message}");
        assert!(message.contains(expected), "{expected}: {message}");
    };
    let dense = kind("dense", "MODE_DENSE");
    let one = |search: &str| format!("{TEXTS}[[kind]]\nname = \"a\"\nsearch = {{ {search} }}\n");
    refused(&format!("speed = 1\n{TEXTS}{dense}"), &[], "unknown field `speed`").await;
    refused(
        &format!("clients = 0\n{}{dense}", TEXTS.replace("clients = 4\n", "")),
        &[],
        "`clients`: expected at least 1",
    )
    .await;
    refused(
        &format!("batch = 0\n{TEXTS}{dense}"),
        &[],
        "`batch`: expected at least 1",
    )
    .await;
    refused(&TEXTS.replace("\"texts\"", "\"a/b\""), &[], "missing field `kind`").await;
    refused(
        &format!("{TEXTS}queries = \"q\"\n{dense}"),
        &[],
        "`questions`: expected `data` or `queries`",
    )
    .await;
    refused(&one("k = 10, color = 1"), &[], "`kind.a.search`: ").await;
    refused(&one("k = 1000000"), &[], "`kind.a.search`: ").await;
    refused(&one("k = 1, vector = [1.0]"), &[], "expected no `vector`").await;
    refused(&one("k = 1, mode = \"MODE_COMPARE\""), &[], "got MODE_COMPARE").await;
    refused(
        &format!("{TEXTS}{dense}weight = -1.0\n"),
        &[],
        "`kind.dense.weight`: expected a number above 0",
    )
    .await;
    let text = format!("{TEXTS}{dense}");
    refused(&text, &[], "give the URL of a running one with --server").await;
    refused(&text, &["--engines", "library"], "no `questions.vectors`").await;
    refused(&text, &["--engines", "no-such-peer"], "--closed 1 also peers").await;
    let server = start_honest().await;
    refused(
        &text,
        &["--server", &server.url, "--engines", "grpc-vectors"],
        "no `questions.vectors`",
    )
    .await;
    let output = load(dir.path(), &["--rate", "0"]).await;
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
