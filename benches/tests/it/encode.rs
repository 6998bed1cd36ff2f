//! The encoding harness with workers whose speed and vectors are known: order, passages, failures, ratios.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dyad_bench::encode::{EncodeJob, EncodeMeasurement, EncodeTask, EncodeWorkload};
use dyad_bench::error::BenchError;
use dyad_bench::harness::{EngineSettings, Measurement as _, WorkerPrograms, run};
use dyad_command::JobCancellation;
use serde_json::json;
use tempfile::TempDir;

use crate::fake;

const WORKLOAD: &str = r#"
name = "tiny"
model = "model"
repeats = 3

[[shape]]
name = "mixed"
texts = [{ path = "a.jsonl", count = 3 }, { path = "b.jsonl", count = 2 }]

[[shape]]
name = "passages-8"
tokens = 8
texts = [{ path = "b.jsonl", count = 4 }]

[[shape]]
name = "pairs"
questions = { path = "a.jsonl", count = 2 }
texts = [{ path = "b.jsonl", count = 2 }]
"#;

/// A tokenizer that makes a token of every word between `[CLS]` and `[SEP]`.
fn write_model(dir: &Path) {
    let words = [
        "[UNK]", "[CLS]", "[SEP]", "gold", "and", "salt", "bread", "water", "river",
    ];
    let special = |token: &str, id: usize| json!({ "id": token, "ids": [id], "tokens": [token] });
    let vocabulary: serde_json::Map<_, _> = words
        .iter()
        .enumerate()
        .map(|(id, word)| ((*word).to_owned(), json!(id)))
        .collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": { "type": "Whitespace" },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{ "SpecialToken": { "id": "[CLS]", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } },
                { "SpecialToken": { "id": "[SEP]", "type_id": 0 } }],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { "[CLS]": special("[CLS]", 1), "[SEP]": special("[SEP]", 2) },
        },
        "decoder": null,
        "model": { "type": "WordLevel", "unk_token": "[UNK]", "vocab": vocabulary },
    });
    let config =
        json!({ "hidden_size": 4, "num_hidden_layers": 1, "intermediate_size": 8, "max_position_embeddings": 16 });
    fs_err::create_dir_all(dir).unwrap();
    fs_err::write(dir.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    fs_err::write(dir.join("config.json"), config.to_string()).unwrap();
    fs_err::write(
        dir.join("sentence_bert_config.json"),
        json!({ "max_seq_length": 7 }).to_string(),
    )
    .unwrap();
}

/// A folder with a workload, its texts and the fake worker; `None`, and said so, where there is no Python to run it.
struct Bench {
    dir: TempDir,
    workload: EncodeWorkload,
}

impl Bench {
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fake::worker(dir.path(), "fake_encoder.py", include_str!("fake_encoder.py"))?;
        write_model(&path("model"));
        let corpus = |texts: &[&str]| -> String {
            let row = |(at, text): (usize, &&str)| format!("{}\n", json!({ "_id": at.to_string(), "text": text }));
            texts.iter().enumerate().map(row).collect()
        };
        fs_err::write(path("a.jsonl"), corpus(&["gold", "gold and salt", "water"])).unwrap();
        // 4 x 6 words in all; the second text alone is longer than the model reads.
        let long = [
            "gold and salt and bread",
            "water and gold and salt and bread and water and gold and river",
            "salt",
            "river gold and salt and bread and water",
        ];
        fs_err::write(path("b.jsonl"), corpus(&long)).unwrap();
        fs_err::write(path("tiny.toml"), WORKLOAD).unwrap();
        let mut workload = EncodeWorkload::read(&path("tiny.toml"), None, None).unwrap();
        workload.threads = 2;
        Some(Self { dir, workload })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn job(&self, engines: &[&str], cancel: &JobCancellation) -> EncodeJob<'_> {
        let script = self.path("fake_encoder.py");
        let cache = self.path("cache");
        fs_err::create_dir_all(&cache).unwrap();
        EncodeJob {
            workload: &self.workload,
            settings: EngineSettings {
                engines: engines.iter().map(|&name| name.to_owned()).collect(),
                programs: WorkerPrograms {
                    ours: script.clone(),
                    python: PathBuf::from("python3"),
                    peers: script,
                },
                cache,
                deadline: Duration::from_secs(8),
                cancel: cancel.clone(),
            },
            device: "cpu".to_owned(),
        }
    }

    fn measure(&self, engines: &[&str]) -> EncodeMeasurement {
        run::<EncodeTask>(&self.job(engines, &JobCancellation::new()), &|_| {}).unwrap()
    }

    /// What the workers were asked: process, threads, engine and the request in words.
    fn log(&self) -> Vec<(u32, String, String)> {
        let text = fs_err::read_to_string(self.path("encode-log")).unwrap();
        let parse = |line: &str| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            (
                words.next().unwrap().parse().unwrap(),
                words.next().unwrap(),
                words.next().unwrap().trim().to_owned(),
            )
        };
        text.lines().map(parse).collect()
    }
}

#[test]
fn passes_are_interleaved_with_the_limit_and_every_shape_has_its_own_processes() {
    let Some(bench) = Bench::new() else { return };
    let measured = bench.measure(&["dyad", "fake-20"]);
    assert!(measured.failed().is_empty(), "{:?}", measured.failed());
    let log = bench.log();
    assert!(log.iter().all(|(_, threads, _)| threads == "2"), "{log:?}");
    let words: Vec<&str> = log.iter().map(|(_, _, words)| words.as_str()).collect();
    let timed: Vec<&str> = words
        .iter()
        .copied()
        .filter(|words| words.ends_with("encode") || words.starts_with("matmul matmul"))
        .collect();
    let turn = |first: &'static str, second: &'static str| ["matmul matmul f32", first, second];
    let (ours, peer) = ("dyad encode", "fake-20 encode");
    let passes = [turn(ours, peer), turn(peer, ours), turn(ours, peer)].concat();
    assert_eq!(timed, [passes.clone(), passes.clone(), passes].concat());
    // Baseline before the model, tuning before the warm-up, a new peak of memory after it.
    let process = log.iter().find(|(_, _, words)| words == "fake-20 open").unwrap().0;
    let of_one: Vec<&str> = log
        .iter()
        .filter(|(id, ..)| *id == process)
        .map(|(_, _, words)| words.trim_start_matches("fake-20 "))
        .collect();
    let expected = [
        "describe",
        "memory",
        "open",
        "prepare",
        "tune",
        "encode  out",
        "memory",
        "encode",
        "encode",
        "encode",
        "memory",
    ];
    assert_eq!(of_one, [&expected[..], &["quit"]].concat());
    let opened = words.iter().filter(|words| words.ends_with("open")).count();
    assert_eq!(opened, 6, "two engines at three shapes");
    assert!(
        log.iter()
            .all(|(process, ..)| !Path::new(&format!("/proc/{process}")).exists()),
        "every worker has ended"
    );
}

#[test]
fn known_speed_gives_known_figures() {
    let Some(bench) = Bench::new() else { return };
    let measured = bench.measure(&["dyad", "fake-20", "fake-bf16-40"]);
    let summary = measured.summary();
    let figure = |path: &str| {
        summary
            .pointer(path)
            .and_then(serde_json::Value::as_f64)
            .unwrap_or(f64::NAN)
    };
    let near = |path: &str, expected: f64| assert!((figure(path) - expected).abs() < 1e-6, "{path}: {}", figure(path));
    for shape in ["mixed", "passages-8", "pairs"] {
        near(&format!("/ratios/dyad/fake-20/{shape}"), 2.0);
        near(&format!("/ratios/dyad/fake-bf16-40/{shape}"), 4.0);
        near(&format!("/engines/dyad/{shape}/texts_per_s"), 100.0);
        near(&format!("/engines/fake-20/{shape}/padding_share"), 0.5);
        near(&format!("/engines/fake-20/{shape}/smallest_cosine"), 1.0);
        near(&format!("/engines/fake-20/{shape}/peak_bytes"), 20e6);
    }
    // Two questions with two texts each.
    near("/engines/dyad/pairs/texts", 4.0);
    near("/engines/dyad/mixed/matmul_gflops", 100.0);
    near("/engines/fake-bf16-40/mixed/matmul_gflops", 400.0);
    // Passages have exactly 8 tokens, as many as the model reads; 8 x (2 x (4 x 16 + 2 x 32)) + 4 x 64 x 4
    // each.
    near("/engines/dyad/passages-8/tokens", 32.0);
    near("/engines/dyad/passages-8/max_tokens", 8.0);
    near("/engines/dyad/mixed/max_tokens", 7.0);
    near("/engines/dyad/passages-8/flops", 4.0 * 3072.0);
    near(
        "/engines/fake-20/passages-8/share_of_matmul",
        4.0 * 3072.0 / (4.0 * 0.020) / 100e9,
    );
    near(
        "/engines/fake-bf16-40/passages-8/share_of_matmul",
        4.0 * 3072.0 / (4.0 * 0.040) / 400e9,
    );
}

#[test]
fn an_engine_that_fails_leaves_the_others_measured() {
    let Some(mut bench) = Bench::new() else { return };
    bench.workload.keep_shapes(&["passages-8".to_owned()]).unwrap();
    let engines = [
        "dyad",
        "dies-20",
        "refuses-20",
        "lies-20",
        "short-20",
        "fewer-20",
        "turned-20",
        "hangs-20",
    ];
    let measured = bench.measure(&engines);
    let shape = &measured.shapes[0];
    let left: Vec<&str> = shape.engines.iter().map(|run| run.described.engine.as_str()).collect();
    assert_eq!(left, ["dyad", "turned-20"]);
    assert!((shape.engine("turned-20").unwrap().point.smallest_cosine + 1.0).abs() < 1e-6);
    let said = |engine: &str| {
        shape
            .failures
            .iter()
            .find(|(name, _)| name == engine)
            .unwrap()
            .1
            .clone()
    };
    assert!(
        said("dies-20").contains("ended during `encode` (exit status: 3)") && said("dies-20").contains("out of luck")
    );
    assert_eq!(said("refuses-20"), "refuses-20: `open`: this model does not suit me");
    assert_eq!(
        said("lies-20"),
        "lies-20: reply to `describe`: expected lies-20, got someone-else"
    );
    assert_eq!(
        said("short-20"),
        "short-20: reply to `encode`: expected 32 tokens, got 31 tokens"
    );
    assert_eq!(
        said("fewer-20"),
        "fewer-20: reply to `encode`: expected 4 vectors of 2 values, got 3 vectors of 2 values"
    );
    assert_eq!(
        said("hangs-20"),
        "hangs-20: no answer to `encode` within 8 s; the worker was killed"
    );
    assert_eq!(measured.failed().len(), 6);
}

#[test]
fn without_the_limit_there_are_no_shares() {
    let Some(mut bench) = Bench::new() else { return };
    bench.workload.keep_shapes(&["mixed".to_owned()]).unwrap();
    let mut job = bench.job(&["dyad", "fake-20"], &JobCancellation::new());
    job.settings.programs.python = PathBuf::from("/nowhere/python");
    let measured = run::<EncodeTask>(&job, &|_| {}).unwrap();
    let summary = measured.summary();
    assert!(summary["engines"]["dyad"]["mixed"]["share_of_matmul"].is_null());
    assert!((summary["engines"]["dyad"]["mixed"]["texts_per_s"].as_f64().unwrap() - 100.0).abs() < 1e-6);
    for engine in ["matmul", "fake-20"] {
        let error = summary["failures"][engine]["mixed"].as_str().unwrap();
        assert!(
            error.contains("cannot start `/nowhere/python`") && error.contains("--python"),
            "{error}"
        );
    }
}

#[test]
fn an_interrupt_ends_the_run_and_its_workers() {
    let cancel = JobCancellation::new();
    let Some(bench) = Bench::new() else { return };
    let mut job = bench.job(&["dyad", "hangs-20"], &cancel);
    job.settings.deadline = Duration::from_secs(100);
    let log = bench.path("encode-log");
    let watcher = std::thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(50);
        while Instant::now() < until {
            let text = fs_err::read_to_string(&log).unwrap_or_default();
            if text.lines().any(|line| line.trim_end().ends_with("hangs-20 encode")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        cancel.cancel();
    });
    let error = run::<EncodeTask>(&job, &|_| {}).unwrap_err();
    watcher.join().unwrap();
    assert!(matches!(error, BenchError::Interrupted), "{error}");
    assert!(
        bench
            .log()
            .iter()
            .all(|(process, ..)| !Path::new(&format!("/proc/{process}")).exists())
    );
    let left: Vec<_> = fs_err::read_dir(bench.path("cache"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        left.iter().all(|name| !name.to_string_lossy().starts_with("scratch")),
        "{left:?}"
    );
}
