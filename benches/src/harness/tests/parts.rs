//! The parts that comparisons are made of, each alone.

use std::path::Path;

use super::super::files::*;
use super::super::process::WorkerProcess;
use super::super::run_info::day;
use super::super::runner::{EngineRunner, EngineSession};
use super::super::serve::own_bytes;
use super::super::statistics::*;
use super::super::table::*;
use super::lines;
use crate::error::BenchError;
use dyad_command::JobCancellation;
use serde_json::{Value, json};

#[test]
fn rows_are_written_in_order_with_quotes_where_needed_and_without_lists() {
    let row = |value: f64| {
        join_figures([
            json!({ "name": "say \"x\", twice", "value": value }),
            json!({ "list": [value], "none": Value::Null }),
            Value::Null,
            json!({ "count": 3 }),
        ])
    };
    let written = lines(|out| write_csv(out, &[row(0.5), row(1e-7)]));
    assert_eq!(
        written,
        [
            "name,value,none,count",
            "\"say \"\"x\"\", twice\",0.5,,3",
            "\"say \"\"x\"\", twice\",1e-7,,3"
        ]
    );
    assert!(lines(|out| write_csv(out, &[])).is_empty());
}

#[test]
fn figures_are_shown_for_people() {
    for (show, value, expected) in [
        (FigureFormat::Decimals(2), json!(1.234), "1.23"),
        (FigureFormat::Megabytes, json!(2_500_000), "2.5"),
        (FigureFormat::Percent, json!(0.25), "25.0 %"),
        (FigureFormat::Power, json!(0.000_123), "1.2e-4"),
        (FigureFormat::Times, json!(2.0), "2.00x"),
        (FigureFormat::Times, Value::Null, "-"),
        (FigureFormat::Signed(2), json!(0.126), "+0.13"),
        (FigureFormat::Signed(2), json!(-0.001), "+0.00"),
        (FigureFormat::Times, json!("none"), "none"),
        (FigureFormat::Note, json!("batch 7"), "(batch 7)"),
        (FigureFormat::Note, json!(""), ""),
    ] {
        assert_eq!(show.text(&value), expected, "{show:?}");
    }
}

fn table() -> TextTable {
    let columns = [
        ShownColumn::new("qps", "QPS", FigureFormat::Decimals(1)),
        ShownColumn::new("share", "of all", FigureFormat::Percent),
        ShownColumn::new("note", "", FigureFormat::Note),
    ];
    let mut table = TextTable::of_columns("engine", &columns);
    table.push_row(
        "a",
        &columns,
        &join_figures([json!({ "share": 0.5, "qps": 1234.5, "other": 1 })]),
    );
    table.push_row("longer", &columns, &join_figures([json!({ "qps": 2, "note": "kept" })]));
    table.push("best of all", ["7"]);
    table
}

#[test]
fn a_table_is_as_wide_as_its_texts() {
    let expected = [
        "engine          QPS  of all",
        "a            1234.5  50.0 %",
        "longer          2.0       -  (kept)",
        "best of all       7",
    ];
    assert_eq!(lines(|out| table().write(out)), expected);
}

#[test]
fn a_table_of_a_readme_has_a_rule_below_its_headings() {
    let written = lines(|out| table().write_markdown(out));
    assert_eq!(
        written[..3],
        [
            "| engine | QPS | of all |  |",
            "|---|---|---|---|",
            "| a | 1234.5 | 50.0 % |  |"
        ]
    );
}

#[test]
fn objects_by_name_keep_their_order() {
    let texts = [("b".to_owned(), "late".to_owned()), ("a".to_owned(), "gone".to_owned())];
    assert_eq!(texts_by_name(&texts).to_string(), r#"{"b":"late","a":"gone"}"#);
    assert_eq!(by_name([("x".to_owned(), json!(1))]), json!({ "x": 1 }));
}

#[test]
fn chosen_items_are_evenly_spaced() {
    let items = |count: usize| (0..count).collect::<Vec<_>>();
    assert_eq!(evenly(items(10), 4), [0, 2, 5, 7]);
    assert_eq!(evenly(items(3), 3), [0, 1, 2]);
    assert_eq!(evenly(items(2), 5).len(), 2);
}

#[test]
fn lines_are_read_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pairs.jsonl");
    let pairs = [("q0".to_owned(), "a\n0".to_owned()), ("q1".to_owned(), String::new())];
    write_lines(&path, &pairs).unwrap();
    assert_eq!(
        fs_err::read_to_string(&path).unwrap(),
        "[\"q0\",\"a\\n0\"]\n[\"q1\",\"\"]\n"
    );
    assert_eq!(read_lines::<(String, String)>(&path).unwrap(), pairs);
}

#[test]
fn days_of_the_calendar() {
    for (time, expected) in [
        (0, "1970-01-01"),
        (951_782_400, "2000-02-29"),
        (951_868_800, "2000-03-01"),
        (1_767_225_599, "2025-12-31"),
        (1_767_225_600, "2026-01-01"),
    ] {
        assert_eq!(day(time), expected);
    }
}

#[test]
fn files_are_found_in_order_and_names_are_plain() {
    let dir = tempfile::tempdir().unwrap();
    let (beside, other) = (dir.path().join("a"), dir.path().join("b"));
    for folder in [&beside, &other] {
        fs_err::create_dir(folder).unwrap();
    }
    fs_err::write(other.join("x"), "").unwrap();
    let error = find(Path::new("x"), &beside, None).unwrap_err();
    assert!(error.ends_with("a/x`"), "{error}");
    assert_eq!(find(Path::new("x"), &beside, Some(&other)), Ok(other.join("x")));
    fs_err::write(beside.join("x"), "").unwrap();
    assert_eq!(find(Path::new("x"), &beside, Some(&other)), Ok(beside.join("x")));
    assert!(plain_names("name", ["a-b_c.1", "d"]).is_ok());
    for (names, expected) in [
        (&[""][..], "expected letters"),
        (&["a/b"], "expected letters"),
        (&["a b"], "expected letters"),
        (&["a", "a"], "expected each name once, got `a` twice"),
        (&[], "expected at least one"),
    ] {
        let error = plain_names("name", names.iter().copied()).unwrap_err();
        assert!(error.starts_with("`name`: ") && error.contains(expected), "{error}");
    }
    fs_err::create_dir(other.join("inner")).unwrap();
    fs_err::write(other.join("inner/y"), "").unwrap();
    let mut files = files_under(&other).unwrap();
    files.sort();
    assert_eq!(files, [other.join("inner/y"), other.join("x")]);
}

/// An engine whose worker says nothing, and ends when it is asked to.
fn session(engine: &str) -> EngineSession<String> {
    let deadline = std::time::Duration::from_secs(5);
    let worker = WorkerProcess::start(
        engine,
        std::process::Command::new("cat"),
        deadline,
        JobCancellation::new(),
    );
    EngineSession {
        worker: worker.unwrap(),
        run: engine.to_owned(),
    }
}

fn refused(engine: &str) -> BenchError {
    BenchError::Engine {
        engine: engine.to_owned(),
        problem: "`open`: no".to_owned(),
    }
}

#[test]
fn another_session_begins_each_turn_and_those_that_fail_leave() {
    let mut runner = EngineRunner::new(&|_| {});
    runner.each(3, |_| Err(BenchError::Interrupted)).unwrap();
    for engine in ["a", "b", "c", "d"] {
        runner.admit(engine, Ok(session(engine))).unwrap();
    }
    let mut order = Vec::new();
    let step = |session: &mut EngineSession<String>| {
        let engine = session.engine().to_owned();
        order.push(engine.clone());
        if engine == "d" || engine == "b" {
            Err(refused(&engine))
        } else {
            Ok(())
        }
    };
    runner.each(2, step).unwrap();
    assert_eq!(order, ["c", "d", "a", "b"]);
    let (sessions, failed) = runner.close();
    assert_eq!(
        failed.iter().map(|(engine, _)| engine.as_str()).collect::<Vec<_>>(),
        ["b", "d"]
    );
    assert_eq!(sessions, ["a", "c"]);
}

#[test]
fn an_interrupt_is_nobodys_failure() {
    let mut runner: EngineRunner<'_, String> = EngineRunner::new(&|_| {});
    assert!(runner.fail("a", BenchError::Interrupted).is_err());
    runner.admit("b", Err(refused("b"))).unwrap();
    assert!(runner.has_failed("b") && !runner.has_failed("a"));
    assert_eq!(runner.close().1, [("b".to_owned(), "b: `open`: no".to_owned())]);
}

#[test]
fn medians_and_percentiles() {
    assert_eq!(
        (
            median(&[]),
            median(&[3.0]),
            median(&[3.0, 1.0]),
            median(&[9.0, 1.0, 2.0])
        ),
        (None, Some(3.0), Some(2.0), Some(2.0))
    );
    let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
    let at = |share| percentile(&values, share).to_bits();
    assert_eq!(
        (at(0.5), at(0.99), at(1.0)),
        (50f64.to_bits(), 99f64.to_bits(), 100f64.to_bits())
    );
    assert_eq!((extremes(&values), extremes(&[])), ((1.0, 100.0), (f64::INFINITY, 0.0)));
    assert_eq!(percentile(&[], 0.5).to_bits(), 0f64.to_bits());
}

#[test]
fn the_peak_is_no_less_than_what_is_there() {
    assert!(own_bytes("VmHWM").unwrap() >= 4096);
    assert!(own_bytes("VmNone").unwrap_err().to_string().contains("`VmNone`"));
}
