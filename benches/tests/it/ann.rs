//! The harness with workers whose recall and speed are known: order, failures, deadlines, ratios.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dyad_bench::ann::{AnnJob, AnnMeasurement, AnnWorkload, prepare, run};
use dyad_bench::error::BenchError;
use dyad_bench::harness::{EngineSettings, Measurement as _, WorkerPrograms};
use dyad_command::JobCancellation;
use serde_json::json;
use tempfile::TempDir;

use crate::fake;

const WORKLOAD: &str = r#"
name = "tiny"
metric = "ip"
repeats = 3
threaded_repeats = 1
threads = 2
targets = [0.5, 0.7, 0.9]

[data.synthetic]
kind = "clustered"
n = 120
dim = 8
queries = 6
clusters = 4
intrinsic = 3
"#;

/// A folder with a workload and the fake worker; `None`, and said so, where there is no Python to run it.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) workload: AnnWorkload,
}

impl Bench {
    pub(crate) fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        fake::worker(dir.path(), "fake_worker.py", include_str!("fake_worker.py"))?;
        let toml = dir.path().join("tiny.toml");
        fs_err::write(&toml, WORKLOAD).unwrap();
        let workload = AnnWorkload::read(&toml, None).unwrap();
        Some(Self { dir, workload })
    }

    pub(crate) fn job(&self, engines: &[&str], cancel: &JobCancellation) -> AnnJob<'_> {
        let script = self.dir.path().join("fake_worker.py");
        let settings = EngineSettings {
            engines: engines.iter().map(|&name| name.to_owned()).collect(),
            programs: WorkerPrograms {
                ours: script.clone(),
                python: PathBuf::from("python3"),
                peers: script,
            },
            cache: self.dir.path().join("cache"),
            deadline: Duration::from_secs(3),
            cancel: cancel.clone(),
        };
        AnnJob::new(&self.workload, settings, Duration::from_secs(20))
    }

    fn measure(&self, engines: &[&str]) -> AnnMeasurement {
        let job = self.job(engines, &JobCancellation::new());
        fs_err::create_dir_all(&job.settings.cache).unwrap();
        let ready = prepare(&self.workload, &job.settings.cache, &JobCancellation::new(), &|_| {}).unwrap();
        run(&job, &ready, &|_| {}).unwrap()
    }

    /// What the workers were asked: process, engine, and the request in words.
    fn log(&self) -> Vec<(u32, String, String)> {
        let text = fs_err::read_to_string(self.dir.path().join("log")).unwrap();
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

fn alive(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

fn names(measured: &AnnMeasurement) -> Vec<&str> {
    measured
        .engines
        .iter()
        .map(|run| run.described.engine.as_str())
        .collect()
}

#[test]
fn sweeps_are_interleaved_and_another_engine_begins_every_pass() {
    let Some(bench) = Bench::new() else { return };
    let measured = bench.measure(&["dyad", "fake-20"]);
    assert_eq!(
        (names(&measured), measured.failures.len()),
        (vec!["dyad", "fake-20"], 0)
    );
    let log = bench.log();
    let searches: Vec<String> = log
        .iter()
        .filter(|(_, _, words)| words.starts_with("search"))
        .map(|(_, engine, words)| format!("{engine} {}", words.trim_start_matches("search ")))
        .collect();
    let sweep = |first: &str, second: &str, words: &str| -> Vec<String> {
        [2, 5, 9, 10]
            .iter()
            .flat_map(|v| [first, second].map(|engine| format!("{engine} {v} {words}")))
            .collect()
    };
    let warm_up = 2 * (1 + 4);
    let passes = [
        sweep("dyad", "fake-20", "1 batch"),
        sweep("dyad", "fake-20", "1 each"),
        sweep("fake-20", "dyad", "1 batch"),
        sweep("fake-20", "dyad", "1 each"),
        sweep("dyad", "fake-20", "1 batch"),
        sweep("dyad", "fake-20", "1 each"),
        sweep("dyad", "fake-20", "2 batch"),
    ];
    assert_eq!(searches[warm_up..][..7 * 8], passes.concat());
    // Memory is asked for before `open`, and an index is built in another process than it is opened in.
    let of = |engine: &str, op: &str| {
        log.iter()
            .position(|(_, name, words)| name == engine && words == op)
            .unwrap()
    };
    assert!(of("dyad", "memory") < of("dyad", "open") && of("dyad", "open") < of("dyad", "prepare"));
    let process = |op: &str| {
        log.iter()
            .find(|(_, name, words)| name == "dyad" && words.starts_with(op))
            .unwrap()
            .0
    };
    assert_ne!(process("build"), process("open"));
    assert!(
        log.iter().all(|(process, ..)| !alive(*process)),
        "every worker has ended"
    );
}

#[test]
fn known_recall_and_speed_give_known_ratios() {
    let Some(bench) = Bench::new() else { return };
    let measured = bench.measure(&["dyad", "fake-20", "family"]);
    let points: Vec<(u32, f64)> = measured.engines[0]
        .points
        .iter()
        .map(|point| (point.value, (point.recall * 1e9).round() / 1e9))
        .collect();
    assert_eq!(points, [(2, 0.2), (5, 0.5), (9, 0.9), (10, 1.0)]);
    let summary = measured.summary();
    let ratio = |path: &str| summary.pointer(path).unwrap().as_f64().unwrap();
    for target in ["0.5", "0.7", "0.9"] {
        // Twice the time at every point is half the speed at every recall.
        assert!((ratio(&format!("/ratios/fake-20/{target}")) - 2.0).abs() < 1e-9);
        // The other member of the family, which was not asked for by its own name.
        assert!((ratio(&format!("/ratios/fake-30/{target}")) - 3.0).abs() < 1e-9);
        assert!((ratio(&format!("/ratios_all_threads/fake-20/{target}")) - 2.0).abs() < 1e-9);
    }
    assert!(
        (ratio("/build_ratio/fake-20") - 0.5).abs() < 1e-9 && (ratio("/rss_ratio_served/fake-20") - 0.5).abs() < 1e-9
    );
    assert!((ratio("/engines/dyad/open_ms") - 0.5).abs() < 1e-9);
    assert!((ratio("/engines/dyad/first_query_us") - 1.0).abs() < 1e-9);
    // 6 queries in 5 times 10 ms.
    assert!((ratio("/engines/dyad/qps_at/0.5") - 120.0).abs() < 1e-9);
    let mut table = Vec::new();
    measured.write_table(&mut table).unwrap();
    let table = String::from_utf8(table).unwrap();
    let row: Vec<&str> = table
        .lines()
        .rfind(|line| line.starts_with("fake-20"))
        .unwrap()
        .split_whitespace()
        .collect();
    let expected = [
        "2.00x", "2.00x", "2.00x", "2.00x", "2.00x", "0.50x", "0.50x", "0.50x", "0.50x",
    ];
    assert_eq!(row[1..], expected, "{table}");
}

#[test]
fn an_engine_that_fails_leaves_the_others_measured() {
    let Some(bench) = Bench::new() else { return };
    let engines = [
        "dyad",
        "dies-20",
        "refuses-20",
        "lies-20",
        "strays-20",
        "omits-20",
        "chatters-20",
    ];
    let measured = bench.measure(&engines);
    assert_eq!(names(&measured), ["dyad", "chatters-20"]);
    let said = |engine: &str| {
        let failure = measured.failures.iter().find(|(name, _)| name == engine);
        failure.map_or_else(|| panic!("{engine} did not fail"), |(_, error)| error.clone())
    };
    let died = said("dies-20");
    assert!(
        died.contains("ended during `search` (exit status: 3)") && died.contains("out of luck"),
        "{died}"
    );
    assert_eq!(said("refuses-20"), "refuses-20: `build`: this data does not suit me");
    assert_eq!(
        said("lies-20"),
        "lies-20: reply to `describe`: expected lies-20, got someone-else"
    );
    let short = said("omits-20");
    assert!(
        short.starts_with("omits-20: reply to `prepare`: expected the fields of the protocol"),
        "{short}"
    );
    assert_eq!(
        said("strays-20"),
        "strays-20: reply to `search`: expected ids of rows, or -1, got 120"
    );
    let summary = measured.summary();
    assert_eq!(summary["failures"].as_object().unwrap().len(), 5);
    assert!((summary["ratios"]["chatters-20"]["0.9"].as_f64().unwrap() - 2.0).abs() < 1e-9);
}

#[test]
fn a_worker_that_is_late_is_killed() {
    let Some(bench) = Bench::new() else { return };
    let measured = bench.measure(&["hangs-20", "dyad"]);
    assert_eq!(names(&measured), ["dyad"]);
    let (_, error) = &measured.failures[0];
    assert_eq!(
        error,
        "hangs-20: no answer to `search` within 3 s; the worker was killed"
    );
    assert!(bench.log().iter().all(|(process, ..)| !alive(*process)));
}

#[test]
fn an_interrupt_ends_the_run_and_its_workers() {
    let cancel = JobCancellation::new();
    let Some(bench) = Bench::new() else { return };
    let mut job = bench.job(&["dyad", "hangs-20"], &cancel);
    job.settings.deadline = Duration::from_secs(100);
    fs_err::create_dir_all(&job.settings.cache).unwrap();
    let ready = prepare(&bench.workload, &job.settings.cache, &JobCancellation::new(), &|_| {}).unwrap();
    let log = bench.dir.path().join("log");
    let hangs = move || {
        let until = Instant::now() + Duration::from_secs(50);
        while Instant::now() < until {
            let text = fs_err::read_to_string(&log).unwrap_or_default();
            if text.lines().any(|line| line.contains("hangs-20 search 5")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        cancel.cancel();
    };
    let watcher = std::thread::spawn(hangs);
    let error = run(&job, &ready, &|_| {}).unwrap_err();
    watcher.join().unwrap();
    assert!(matches!(error, BenchError::Interrupted), "{error}");
    assert!(bench.log().iter().all(|(process, ..)| !alive(*process)));
    let left: Vec<_> = fs_err::read_dir(&job.settings.cache)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        left.iter().all(|name| !name.to_string_lossy().starts_with("scratch")),
        "{left:?}"
    );
}

#[test]
fn an_index_is_kept_where_that_is_asked_for_and_vectors_and_settings_are_the_same() {
    let Some(mut bench) = Bench::new() else { return };
    let builds = |bench: &Bench| {
        bench
            .log()
            .iter()
            .filter(|(_, _, words)| words.starts_with("build"))
            .count()
    };
    let measure = |bench: &Bench, keep_indexes: bool| {
        let job = AnnJob {
            keep_indexes,
            ..bench.job(&["dyad", "fake-20"], &JobCancellation::new())
        };
        let ready = prepare(&bench.workload, &job.settings.cache, &JobCancellation::new(), &|_| {}).unwrap();
        run(&job, &ready, &|_| {}).unwrap()
    };
    fs_err::create_dir_all(bench.dir.path().join("cache")).unwrap();
    assert!(!measure(&bench, true).engines[0].index.reused);
    assert_eq!(builds(&bench), 2);
    let again = measure(&bench, true);
    assert_eq!(
        (builds(&bench), again.engines.iter().all(|run| run.index.reused)),
        (2, true)
    );
    assert!(
        (again.engines[1].index.built.build_s - 2.0).abs() < 1e-9,
        "the time of the first build"
    );
    // An index of an earlier run has a time of its own, and no ratio.
    assert!(again.summary()["build_ratio"]["fake-20"].is_null());
    measure(&bench, false);
    assert_eq!(builds(&bench), 4);
    bench.workload.m = 8;
    measure(&bench, true);
    assert_eq!(builds(&bench), 6);
    fs_err::write(
        bench.dir.path().join("tiny.toml"),
        WORKLOAD.replace("n = 120", "n = 121"),
    )
    .unwrap();
    bench.workload = AnnWorkload::read(&bench.dir.path().join("tiny.toml"), None).unwrap();
    bench.workload.m = 8;
    measure(&bench, true);
    assert_eq!(builds(&bench), 8, "of other vectors");
}

#[test]
fn a_sweep_is_for_an_engine_of_the_run_or_for_all_that_a_name_stands_for() {
    let Some(mut bench) = Bench::new() else { return };
    bench.workload.sweep = [("family".to_owned(), vec![3, 10]), ("fake-30".to_owned(), vec![4, 10])].into();
    let sweep = |engine: &str, measured: &AnnMeasurement| -> Vec<u32> {
        let run = measured
            .engines
            .iter()
            .find(|run| run.described.engine == engine)
            .unwrap();
        run.points.iter().map(|point| point.value).collect()
    };
    let measured = bench.measure(&["dyad", "family"]);
    assert_eq!(sweep("fake-20", &measured), [3, 10]);
    assert_eq!(sweep("fake-30", &measured), [4, 10], "its own before its family's");
    assert_eq!(sweep("dyad", &measured), [2, 5, 9, 10]);
    let ready = prepare(
        &bench.workload,
        &bench.job(&["dyad"], &JobCancellation::new()).settings.cache,
        &JobCancellation::new(),
        &|_| {},
    )
    .unwrap();
    let swept = |name: &str| {
        let mut job = bench.job(&["dyad", "family"], &JobCancellation::new());
        job.swept = vec![name.to_owned()];
        run(&job, &ready, &|_| {})
    };
    swept("family").unwrap();
    swept("fake-30").unwrap();
    let error = swept("fake-40").unwrap_err().to_string();
    assert_eq!(
        error,
        "--sweep fake-40: not among the engines of this run: dyad, fake-20, fake-30"
    );
}

#[test]
fn an_interrupt_while_vectors_are_made_is_seen() {
    let cancel = JobCancellation::new();
    cancel.cancel();
    let Some(bench) = Bench::new() else { return };
    let cache = bench.job(&["dyad"], &JobCancellation::new()).settings.cache;
    fs_err::create_dir_all(&cache).unwrap();
    assert!(matches!(
        prepare(&bench.workload, &cache, &cancel, &|_| {}),
        Err(BenchError::Interrupted)
    ));
}

#[test]
fn every_workload_of_the_repository_can_be_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    // Only whether the files are there is asked, not what is in them.
    let data = tempfile::tempdir().unwrap();
    for (folder, files) in [
        (
            "minilm-vectors",
            &["base.f16.npy", "queries.f32.npy", "neighbors.ibin"][..],
        ),
        ("wikipedia-sentences", &["base", "queries"]),
        ("towers", &["base", "queries"]),
    ] {
        fs_err::create_dir(data.path().join(folder)).unwrap();
        for file in files {
            fs_err::write(data.path().join(folder).join(file), "").unwrap();
        }
    }
    let mut names = Vec::new();
    for entry in fs_err::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap();
            // Those of `dyad-bench encode`, `train-step` and `load` have readers of their own.
            if ["encode-", "train-step-", "load-"]
                .iter()
                .any(|other| stem.starts_with(other))
            {
                continue;
            }
            let workload = AnnWorkload::read(&path, Some(data.path())).unwrap();
            assert_eq!(workload.name, stem);
            names.push(workload.name);
        }
    }
    assert!(names.len() >= 7, "{names:?}");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let Some(bench) = Bench::new() else { return };
    let mut job = bench.job(&["dyad", "fake-20"], &JobCancellation::new());
    job.settings.programs.python = PathBuf::from("/nowhere/python");
    fs_err::create_dir_all(&job.settings.cache).unwrap();
    let ready = prepare(&bench.workload, &job.settings.cache, &JobCancellation::new(), &|_| {}).unwrap();
    let measured = run(&job, &ready, &|_| {}).unwrap();
    assert_eq!(names(&measured), ["dyad"]);
    let (_, error) = &measured.failures[0];
    assert!(
        error.starts_with("fake-20: cannot start `/nowhere/python`: ") && error.contains("--python"),
        "{error}"
    );
    assert_eq!(measured.summary()["ratios"], json!({}));
}
