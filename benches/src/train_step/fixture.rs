//! A small made-up measurement whose figures can be worked out by hand, for tests.

use super::measured::{EngineAtShape, Measured, ShapeRun};
use super::protocol::Described;
use crate::harness::{test_conditions, test_passes};

fn engine(name: &str, seconds: &[f64], losses: [f64; 2], computed: u64, megabytes: u64) -> EngineAtShape {
    EngineAtShape {
        described: Described { engine: name.to_owned(), version: "1".to_owned(), settings: "made up".to_owned() },
        passes: test_passes(seconds, megabytes),
        losses: losses.to_vec(),
        tokens: 1_000,
        computed_tokens: computed,
    }
}

/// dyad, sentence-transformers, and another that failed.
pub(super) fn measured() -> Measured {
    Measured {
        conditions: test_conditions(["dyad", "sentence-transformers", "other"]),
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
    }
}
