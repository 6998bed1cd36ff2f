//! A small made-up measurement whose figures can be worked out by hand, for tests.

use super::measured::{EngineAtShape, Measured, ShapeRun};
use super::protocol::{Described, Memory};
use crate::harness::{test_machine, test_stamp};

fn engine(name: &str, seconds: &[f64], losses: [f64; 2], computed: u64, megabytes: u64) -> EngineAtShape {
    let memory = |rss: u64, peak: u64| Memory { rss_bytes: rss * 1_000_000, peak_bytes: peak * 1_000_000 };
    EngineAtShape {
        described: Described { engine: name.to_owned(), version: "1".to_owned(), settings: "made up".to_owned() },
        open_ms: 12.0,
        seconds: seconds.to_vec(),
        losses: losses.to_vec(),
        tokens: 1_000,
        computed_tokens: computed,
        baseline: memory(30, 40),
        served: memory(60, 30 + megabytes),
    }
}

/// dyad, sentence-transformers, and another that failed.
pub(super) fn measured() -> Measured {
    Measured {
        workload: "fixture".to_owned(),
        model: "tiny".to_owned(),
        device: "cpu".to_owned(),
        threads: 2,
        repeats: 3,
        asked: ["dyad", "sentence-transformers", "other"].map(str::to_owned).to_vec(),
        shapes: vec![ShapeRun {
            name: "squad-32".to_owned(),
            batch: 32,
            batches: 2,
            tokens: 1_000,
            engines: vec![
                engine("dyad", &[1.0, 9.0, 0.5], [2.0, 1.0], 1_000, 70),
                engine("sentence-transformers", &[2.0, 2.0, 3.0], [2.0, 1.5], 1_250, 300),
            ],
            failures: vec![("other".to_owned(), "other: `open`: no".to_owned())],
        }],
        machine: test_machine(),
        stamp: test_stamp(),
    }
}
