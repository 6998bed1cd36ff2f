//! The parts that comparisons are made of, each alone.

use std::path::Path;

use super::super::files::*;
use super::super::output::*;
use super::super::run_info::day;
use super::super::runner::{EngineSession, Runner};
use super::super::serve::own_bytes;
use super::lines;
use crate::error::Error;
use serde_json::{Value, json};

#[test]
fn rows_are_written_in_order_with_quotes_where_needed_and_without_lists() {
    let columns: [Figure<f64>; 5] = [
        ("name", |_| json!("say \"x\", twice")),
        ("value", |value| json!(value)),
        ("list", |value| json!([value])),
        ("none", |_| Value::Null),
        ("count", |_| json!(3)),
    ];
    let written = lines(|out| write_csv(out, &[row(&columns, &0.5), row(&columns, &1e-7)]));
    assert_eq!(
        written,
        ["name,value,none,count", "\"say \"\"x\"\", twice\",0.5,,3", "\"say \"\"x\"\", twice\",1e-7,,3"]
    );
    assert!(lines(|out| write_csv(out, &[])).is_empty());
}

#[test]
fn figures_are_shown_for_people() {
    for (show, value, expected) in [
        (Show::Decimals(2), json!(1.234), "1.23"),
        (Show::Megabytes, json!(2_500_000), "2.5"),
        (Show::Percent, json!(0.25), "25.0 %"),
        (Show::Power, json!(0.000_123), "1.2e-4"),
        (Show::Times, json!(2.0), "2.00x"),
        (Show::Times, Value::Null, "-"),
        (Show::Note, json!("batch 7"), "  (batch 7)"),
        (Show::Note, json!(""), ""),
    ] {
        assert_eq!(show.text(&value), expected, "{show:?}");
    }
    let line = lines(|out| write_line(out, 4, "a", ["1", ""]));
    assert_eq!(line, ["a              1"]);
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
    assert_eq!(fs_err::read_to_string(&path).unwrap(), "[\"q0\",\"a\\n0\"]\n[\"q1\",\"\"]\n");
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

impl EngineSession for &str {
    fn engine(&self) -> &str {
        self
    }
}

fn refused(engine: &str) -> Error {
    Error::Engine { engine: engine.to_owned(), problem: "`open`: no".to_owned() }
}

#[test]
fn another_session_begins_each_turn_and_those_that_fail_leave() {
    let mut runner = Runner::new(&|_| {});
    runner.each(3, |_| Err(Error::Interrupted)).unwrap();
    for engine in ["a", "b", "c", "d"] {
        runner.admit(engine, Ok(engine)).unwrap();
    }
    let mut order = Vec::new();
    let step = |session: &mut &'static str| {
        order.push(*session);
        if *session == "d" || *session == "b" { Err(refused(session)) } else { Ok(()) }
    };
    runner.each(2, step).unwrap();
    assert_eq!(order, ["c", "d", "a", "b"]);
    let (sessions, failed) = runner.close(|session| session);
    assert_eq!(failed.iter().map(|(engine, _)| engine.as_str()).collect::<Vec<_>>(), ["b", "d"]);
    assert_eq!(sessions, ["a", "c"]);
}

#[test]
fn an_interrupt_is_nobodys_failure() {
    let mut runner: Runner<'_, &str> = Runner::new(&|_| {});
    assert!(runner.fail("a", Error::Interrupted).is_err());
    runner.admit("b", Err(refused("b"))).unwrap();
    assert!(runner.has_failed("b") && !runner.has_failed("a"));
    assert_eq!(runner.close(|session| session).1, [("b".to_owned(), "b: `open`: no".to_owned())]);
}

#[test]
fn medians_and_percentiles() {
    assert_eq!(
        (median(&[]), median(&[3.0]), median(&[3.0, 1.0]), median(&[9.0, 1.0, 2.0])),
        (None, Some(3.0), Some(2.0), Some(2.0))
    );
    let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
    let at = |share| percentile(&values, share).to_bits();
    assert_eq!((at(0.5), at(0.99), at(1.0)), (50f64.to_bits(), 99f64.to_bits(), 100f64.to_bits()));
    assert_eq!((extremes(&values), extremes(&[])), ((1.0, 100.0), (f64::INFINITY, 0.0)));
    assert_eq!(percentile(&[], 0.5).to_bits(), 0f64.to_bits());
}

#[test]
fn the_peak_is_no_less_than_what_is_there() {
    assert!(own_bytes("VmHWM").unwrap() >= 4096);
    assert!(own_bytes("VmNone").unwrap_err().to_string().contains("`VmNone`"));
}
