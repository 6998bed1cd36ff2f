//! `dyad-bench filter`: with workers whose recall and speed are known, and as a command with our own engines.

use dyad_bench::ann::{ConditionShape, FilterCorrelation, FilterRun, FilterSettings, prepare, run_filter};
use dyad_bench::harness::Measurement as _;
use dyad_command::JobCancellation;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::ann::Bench;
use crate::ann_command::{bench, json};

/// Runs two selectivities with both correlations under ranges: 60 and 12 of 120 rows pass.
fn measure(bench: &mut Bench, engines: &[&str]) -> FilterRun {
    bench.workload.filter = FilterSettings {
        groups: 2,
        selectivity: vec![50.0, 4.0],
        correlation: vec![FilterCorrelation::Positive, FilterCorrelation::Negative],
        shape: vec![ConditionShape::Range],
        ..FilterSettings::default()
    };
    let job = bench.job(engines, &JobCancellation::new());
    fs_err::create_dir_all(&job.settings.cache).unwrap();
    let ready = prepare(&bench.workload, &job.settings.cache, &JobCancellation::new(), &|_| {}).unwrap();
    run_filter(&job, &ready, &|_| {}).unwrap()
}

#[test]
fn known_recall_and_speed_give_known_goals() {
    let Some(mut bench) = Bench::new() else { return };
    let measured = [
        "dyad",
        "dyad-exact-30",
        "qdrant-edge-20",
        "qdrant-edge-40",
        "qdrant-edge-reads-5",
    ];
    let run = measure(&mut bench, &[&measured[..], &["leaks-20", "refuses-20"]].concat());
    let figures: Vec<_> = run.cells.iter().map(|cell| (cell.passing, cell.lift > 1.0)).collect();
    assert_eq!(figures, [(60, true), (60, false), (5, true), (5, false)]);
    for cell in &run.cells {
        let names: Vec<&str> = cell.points.iter().map(|point| point.engine.as_str()).collect();
        assert_eq!(names, measured, "those that failed are left out");
        for point in &cell.points {
            // The value v finds v hits: 10 are needed for 0.95 of 10, and 5 of 5; where v is less, hits are missing.
            assert_eq!(
                (point.value, point.reached, point.short),
                (if cell.passing == 60 { 10 } else { 5 }, true, 6),
                "{point:?}"
            );
        }
        // 6 queries in v times 10 ms.
        let expected = 6.0 / (f64::from(cell.points[0].value) * 0.01);
        assert!((cell.point("dyad").unwrap().qps(6) - expected).abs() < 1e-9);
    }
    let said: Vec<&str> = run.failures.iter().map(|(_, error)| error.as_str()).collect();
    assert_eq!(said[0], "refuses-20: `build`: this data does not suit me");
    assert!(
        said[1].starts_with("leaks-20: reply to `search`: expected rows that pass the filter, got row "),
        "{said:?}"
    );

    let summary = run.summary();
    let goals: Vec<(u64, u64, f64)> = summary["goals"]["dyad"]
        .as_array()
        .unwrap()
        .iter()
        .map(|goal| {
            (
                goal["met"].as_u64().unwrap(),
                goal["cells"].as_u64().unwrap(),
                goal["worst"][1].as_f64().unwrap(),
            )
        })
        .collect();
    // Recall 1; no query had all hits in every search; without filter the value is 10; the faster rival takes twice as
    // long.
    assert_eq!(goals, [(4, 4, 1.0), (0, 4, 0.0), (4, 4, 1.0), (4, 4, 2.0)]);
    let over = &summary["ratios"]["dyad"]["qdrant-edge-40"];
    assert_eq!((&over["cells"], &over["median"]), (&json!(4), &json!(4.0)));
    // It evaluates conditions while the clock runs, which `dyad` does not: their speeds are not compared.
    let ratios = |engine: &str| summary["ratios"]["dyad"].get(engine).is_some();
    assert_eq!(["qdrant-edge-20", "qdrant-edge-reads-5"].map(ratios), [true, false]);
    assert_eq!(summary["cells"]["4 % negative range"]["dyad"]["over_qdrant_edge"], 2.0);
    assert_eq!(summary["cells"]["4 % negative range"]["dyad"]["over_unfiltered"], 2.0);
    let mut table = Vec::new();
    run.write_table(&mut table).unwrap();
    let table = String::from_utf8(table).unwrap();
    assert!(table.contains("60 1.000!") && table.contains("120 1.000!"), "{table}");
    assert!(
        table
            .lines()
            .any(|line| line.starts_with("QPS at least twice that of qdrant-edge") && line.contains("4 of 4")),
        "{table}"
    );
}

const WORKLOAD: &str = r#"
name = "tiny"
metric = "ip"
m = 8
ef_construction = 60
repeats = 1
least_ms = 0
threads = 2

[filter]
groups = 3
selectivity = [20, 1, 0.1]
engines = ["dyad", "dyad-index", "dyad-exact", "dyad-index-exact"]

[data.synthetic]
kind = "clustered"
n = 1_500
dim = 48
queries = 40
clusters = 20
intrinsic = 16

[sweep]
dyad = [10, 20, 40, 80, 160, 320]
dyad-index = [10, 20, 40, 80, 160, 320]
"#;

/// Every filter is evaluated by the set and by the index, and every hit is checked by the harness.
#[test]
fn our_engines_find_what_passes_in_every_cell() {
    let dir = tempdir().unwrap();
    fs_err::write(dir.path().join("tiny.toml"), WORKLOAD).unwrap();
    let output = bench(
        &[
            "filter",
            "--workload",
            "tiny.toml",
            "--out",
            "out",
            "--record",
            "records",
        ],
        dir.path(),
    );
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("goals of dyad: ") && table.contains("goals of dyad-index: "),
        "{table}"
    );
    let summary = json(&dir.path().join("out/summary.json"));
    let cells = summary["cells"].as_object().unwrap();
    assert_eq!(cells.len(), 27);
    for (name, engines) in cells {
        let engines = engines.as_object().unwrap();
        assert_eq!(engines.len(), 4, "{name}");
        for (engine, figures) in engines {
            assert!(
                figures["recall"].as_f64().unwrap() >= 0.95 && figures["short"] == 0,
                "{name}, {engine}: {figures}"
            );
            assert!(figures["qps"].as_f64().unwrap() > 0.0, "{name}, {engine}: {figures}");
            assert_eq!(
                figures["unfiltered_qps"].is_null(),
                engine.ends_with("-exact"),
                "{name}, {engine}: {figures}"
            );
            let lift = figures["lift"].as_f64().unwrap();
            match figures["correlation"].as_str().unwrap() {
                "positive" => assert!(lift > 1.5, "{name}: {lift}"),
                "negative" => assert!(lift < 0.7, "{name}: {lift}"),
                _ => {}
            }
        }
    }
    let passing = |cell: &str| cells[cell]["dyad"]["passing"].as_u64().unwrap();
    assert_eq!(
        ["20 % none equals", "1 % negative and", "0.1 % positive range"].map(passing),
        [300, 15, 2]
    );
    for goal in &summary["goals"]["dyad"].as_array().unwrap()[..2] {
        assert_eq!((&goal["met"], &goal["cells"]), (&json!(27), &json!(27)), "{goal}");
    }
    let csv = fs_err::read_to_string(dir.path().join("out/cells.csv")).unwrap();
    assert_eq!(csv.lines().count(), 27 * 4 + 1);
    assert_eq!(fs_err::read_dir(dir.path().join("records")).unwrap().count(), 1);

    // A part of the cells, by arguments; the index of the sets is kept, whatever is filtered by.
    let part = [
        "filter",
        "--workload",
        "tiny.toml",
        "--out",
        "part",
        "--selectivity",
        "50",
        "--correlation",
        "none",
    ];
    let more = [
        "--shape",
        "equals,range",
        "--engines",
        "dyad",
        "--queries",
        "20",
        "--keep-indexes",
    ];
    let output = bench(&[&part[..], &more].concat(), dir.path());
    assert!(output.status.success(), "{output:?}");
    let summary = json(&dir.path().join("part/summary.json"));
    let names: Vec<&str> = summary["cells"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        (names, &summary["queries"]),
        (vec!["50 % none equals", "50 % none range"], &json!(20))
    );
}

#[test]
fn what_cannot_be_filtered_is_refused() {
    let dir = tempdir().unwrap();
    let refused = |text: &str, more: &[&str], code: i32, expected: &str| {
        fs_err::write(dir.path().join("w.toml"), text).unwrap();
        let arguments = [
            &[
                "filter",
                "--workload",
                "w.toml",
                "--engines",
                "dyad-exact",
                "--out",
                "out",
            ],
            more,
        ]
        .concat();
        let output = bench(&arguments, dir.path());
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(code) && message.contains(expected),
            "{expected}: {message}"
        );
    };
    let section = |text: &str| WORKLOAD.replace("groups = 3", text);
    refused(
        &section("groups = 0"),
        &[],
        1,
        "`w.toml`: `filter`: `groups`: expected 1 to 64, got 0",
    );
    refused(&section("recall = 0"), &[], 1, "`filter`: `recall`: expected above 0");
    refused(&section("share = 3"), &[], 1, "unknown field `share`");
    refused(
        &section("groups = 41"),
        &[],
        1,
        "`groups`: expected at most as many as queries, 40, got 41",
    );
    refused(&section("shape = [\"or\"]"), &[], 1, "unknown variant `or`");
    refused(
        WORKLOAD,
        &["--selectivity", "0.015"],
        1,
        "`selectivity`: expected percents from 0.01 to 100 in steps of 0.01",
    );
    refused(WORKLOAD, &["--shape", "or"], 2, "possible values: equals, and, range");
    refused(
        WORKLOAD,
        &["--sweep", "dyad=10"],
        1,
        "--sweep dyad: not among the engines of this run: dyad-exact",
    );
    let none = [
        "--engines",
        "hnsw_rs",
        "--selectivity",
        "50",
        "--correlation",
        "none",
        "--shape",
        "equals",
    ];
    let output = bench(
        &[&["filter", "--workload", "w.toml", "--out", "out"][..], &none].concat(),
        dir.path(),
    );
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && message.contains("one engine failed: hnsw_rs"),
        "{message}"
    );
    let summary: Value = json(&dir.path().join("out/summary.json"));
    assert_eq!(
        summary["failures"]["hnsw_rs"],
        "hnsw_rs: `filter`: this engine has no filters"
    );
}
