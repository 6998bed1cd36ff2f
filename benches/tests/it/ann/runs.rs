//! Runs of workers whose recall and speed are known: order, ratios, reuse of an index, vectors.

use dyad_bench::ann::{AnnJob, AnnWorkload, prepare, run};
use dyad_bench::harness::Measurement as _;
use dyad_command::JobCancellation;

use super::{Bench, WORKLOAD, alive, names};

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
