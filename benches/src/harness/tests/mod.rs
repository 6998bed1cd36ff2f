//! Synthetic runs for tests of what is written about runs, and the parts that comparisons are made of.

mod parts;

use std::io::BufRead as _;

use serde_json::Value;

use super::run_info::{MachineInfo, RunConditions, RunInfo};
use super::serve::{EngineDescription, WorkerMemory};
use super::task::{BenchTask, EngineRun, ShapeRun, TaskMeasurement};

/// No machine at all.
pub(crate) fn machine() -> MachineInfo {
    MachineInfo {
        cpu: "test".to_owned(),
        threads: 2,
        features: Vec::new(),
        memory_bytes: 0,
        kernels: "scalar",
        forced_kernels: None,
        system: String::new(),
    }
}

/// No commit at all.
pub(crate) fn run_info() -> RunInfo {
    RunInfo {
        revision: "abc".to_owned(),
        date: "2026-01-02".to_owned(),
        unix_time: 0,
    }
}

/// A run of one shape on two threads, three passes each; an engine that was asked for and is not among those measured
/// has failed.
pub(crate) fn measured<T: BenchTask>(
    asked: [&str; 3],
    shape: &str,
    task: T,
    engines: Vec<EngineRun<T>>,
) -> TaskMeasurement<T> {
    let failed = asked
        .iter()
        .filter(|name| engines.iter().all(|run| run.described.engine != **name));
    let failures = failed
        .map(|name| ((*name).to_owned(), format!("{name}: `open`: no")))
        .collect();
    TaskMeasurement {
        conditions: RunConditions {
            workload: "fixture".to_owned(),
            model: "tiny".to_owned(),
            device: "cpu".to_owned(),
            threads: 2,
            repeats: 3,
            asked: asked.map(str::to_owned).to_vec(),
            machine: machine(),
            stamp: run_info(),
        },
        shapes: vec![ShapeRun {
            name: shape.to_owned(),
            task,
            engines,
            failures,
        }],
    }
}

/// An engine with passes of these seconds, and a peak in megabytes over a baseline of 30.
pub(crate) fn engine<T: BenchTask>(
    name: &str,
    more: T::Details,
    seconds: &[f64],
    megabytes: u64,
    point: T::Point,
) -> EngineRun<T> {
    let memory = |rss: u64, peak: u64| WorkerMemory {
        rss_bytes: rss * 1_000_000,
        peak_bytes: peak * 1_000_000,
    };
    let (baseline, served) = (memory(30, 40), memory(60, 30 + megabytes));
    let (engine, version, settings) = (name.to_owned(), "1".to_owned(), "made up, for tests".to_owned());
    EngineRun {
        described: EngineDescription {
            engine,
            version,
            settings,
            more,
        },
        open_ms: 12.0,
        seconds: seconds.to_vec(),
        baseline,
        served,
        point,
    }
}

/// The lines that a function writes.
pub(crate) fn lines(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Vec<String> {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

/// What a worker of ours replies to `describe`, and to `op` while nothing is open. The rest is alike for all of them.
pub(crate) fn worker(op: &str, serve: impl Fn(&[u8], &mut Vec<u8>) -> anyhow::Result<()>) -> [Value; 2] {
    let (describe, quit, memory) = (
        r#"{"op":"describe"}"#,
        r#"{"op":"quit"}"#,
        r#"{"op":"memory","settle":true}"#,
    );
    let lines = format!("{describe}\n{{\"op\":\"{op}\"}}\nnonsense\n{memory}\n{quit}\n{describe}\n");
    let mut output = Vec::new();
    serve(lines.as_bytes(), &mut output).unwrap();
    let replies: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    assert_eq!(replies.len(), 5, "nothing is answered after `quit`");
    assert!(
        replies[2]["error"]
            .as_str()
            .unwrap()
            .starts_with("not a request of the protocol")
    );
    assert!(replies[3]["peak_bytes"].as_u64() >= replies[3]["rss_bytes"].as_u64());
    [replies[0].clone(), replies[1].clone()]
}
