//! A small synthetic measurement whose ratios can be worked out by hand.

use std::collections::BTreeMap;

use crate::ann::measured::{AnnEngineRun, AnnMeasurement, FirstPass, IndexRecord, MemoryOverTime, SweepPoint};
use crate::ann::protocol::{AnnDescription, AnnDetails, BuiltIndex};
use crate::ann::workload::AnnWorkload;
use crate::harness::WorkerMemory;
use crate::harness::tests::{machine, run_info};

fn memory(megabytes: u64) -> WorkerMemory {
    WorkerMemory {
        rss_bytes: megabytes * 1_000_000,
        peak_bytes: 0,
    }
}

/// An engine with `(recall, seconds for 1,000 queries)` points.
pub(in crate::ann) fn engine(name: &str, points: &[(f64, f64)], build_s: f64, megabytes: u64) -> AnnEngineRun {
    let point = |(at, &(recall, seconds)): (usize, &(f64, f64))| SweepPoint {
        value: 10 * (at as u32 + 1),
        recall,
        recalls: vec![recall; 3],
        seconds: vec![seconds; 3],
        seconds_all_threads: vec![seconds / 2.0],
        rounds: 1,
        passes_p50_us: vec![seconds * 1e3, seconds * 2e3, 0.0],
        passes_p99_us: vec![seconds * 2e3; 3],
        latencies_us: vec![seconds * 1e3; 1_000],
        ids: Vec::new(),
    };
    AnnEngineRun {
        described: AnnDescription {
            engine: name.to_owned(),
            version: "1".to_owned(),
            settings: "f32, made up".to_owned(),
            more: AnnDetails {
                sweep: "ef".to_owned(),
                defaults: vec![10],
                variants: Vec::new(),
                skipped: BTreeMap::new(),
                single_threaded: false,
                reads_attributes: false,
                index_of: None,
            },
        },
        index: IndexRecord {
            made_from: String::new(),
            built: BuiltIndex {
                build_s,
                index_bytes: megabytes * 1_000_000,
            },
            reused: false,
        },
        open_ms: 1.5,
        first_pass: FirstPass {
            value: 20,
            first_us: 80.0,
            seconds: 0.5,
            p50_us: 40.0,
            p99_us: 90.0,
        },
        points: points.iter().enumerate().map(point).collect(),
        memory: MemoryOverTime {
            baseline: memory(10),
            opened: memory(20),
            served: memory(30 + megabytes),
            evicted: memory(10 + megabytes),
            evicted_pass: memory(12 + megabytes),
        },
    }
}

/// dyad and hnswlib, three points each.
pub(in crate::ann) fn measured() -> AnnMeasurement {
    AnnMeasurement {
        workload: toml::from_str::<AnnWorkload>(
            "name = \"fixture\"\nmetric = \"ip\"\nthreads = 2\nrepeats = 3\n[data]\nhdf5 = \"fixture.hdf5\"\n",
        )
        .unwrap(),
        rows: 1_000,
        dim: 8,
        queries: 1_000,
        cold: false,
        memory_limit: None,
        engines: vec![
            // 10,000, 1,000 and 100 queries per second.
            engine("dyad", &[(0.94, 0.1), (0.96, 1.0), (0.98, 10.0)], 2.0, 5),
            // 1,000, 100 and 10.
            engine("hnswlib", &[(0.93, 1.0), (0.97, 10.0), (0.995, 100.0)], 4.0, 20),
        ],
        families: Vec::new(),
        failures: Vec::new(),
        skipped: Vec::new(),
        machine: machine(),
        stamp: run_info(),
    }
}
