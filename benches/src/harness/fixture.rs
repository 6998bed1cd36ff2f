//! Where and when a made-up run took place, and what its passes took, for tests of what is written about runs; and what every
//! worker of ours has to answer.

use std::io::BufRead as _;

use serde_json::Value;

use super::conditions::Conditions;
use super::machine::{Machine, Stamp};
use super::passes::Passes;
use super::replies::Memory;

/// No machine at all.
pub(crate) fn test_machine() -> Machine {
    Machine {
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
pub(crate) fn test_stamp() -> Stamp {
    Stamp { revision: "abc".to_owned(), date: "2026-01-02".to_owned(), unix_time: 0 }
}

/// A run of these engines on two threads, three passes each.
pub(crate) fn test_conditions(asked: [&str; 3]) -> Conditions {
    Conditions {
        workload: "fixture".to_owned(),
        model: "tiny".to_owned(),
        device: "cpu".to_owned(),
        threads: 2,
        repeats: 3,
        asked: asked.map(str::to_owned).to_vec(),
        machine: test_machine(),
        stamp: test_stamp(),
    }
}

/// Passes of these seconds, and a peak of so many megabytes over a baseline of 30.
pub(crate) fn test_passes(seconds: &[f64], megabytes: u64) -> Passes {
    let memory = |rss: u64, peak: u64| Memory { rss_bytes: rss * 1_000_000, peak_bytes: peak * 1_000_000 };
    let (baseline, served) = (memory(30, 40), memory(60, 30 + megabytes));
    Passes { open_ms: 12.0, seconds: seconds.to_vec(), baseline, served }
}

/// What a worker of ours replies to `describe`, and to `op` while nothing is open. The rest is alike for all of them.
pub(crate) fn test_worker(op: &str, serve: impl Fn(&[u8], &mut Vec<u8>) -> anyhow::Result<()>) -> [Value; 2] {
    let (describe, quit, memory) = (r#"{"op":"describe"}"#, r#"{"op":"quit"}"#, r#"{"op":"memory","settle":true}"#);
    let lines = format!("{describe}\n{{\"op\":\"{op}\"}}\nnonsense\n{memory}\n{quit}\n{describe}\n");
    let mut output = Vec::new();
    serve(lines.as_bytes(), &mut output).unwrap();
    let replies: Vec<Value> = output.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!(replies.len(), 5, "nothing is answered after `quit`");
    assert!(replies[2]["error"].as_str().unwrap().starts_with("not a request of the protocol"));
    assert!(replies[3]["peak_bytes"].as_u64() >= replies[3]["rss_bytes"].as_u64());
    [replies[0].clone(), replies[1].clone()]
}
