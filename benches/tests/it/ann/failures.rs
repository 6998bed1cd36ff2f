//! Workers that fail, are late or are not there; interrupts.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dyad_bench::ann::{prepare, run};
use dyad_bench::error::BenchError;
use dyad_bench::harness::Measurement as _;
use dyad_command::JobCancellation;
use serde_json::json;

use super::{Bench, alive, names};

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
