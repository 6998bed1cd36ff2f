//! A small made-up measurement whose figures can be worked out by hand, for tests.

use std::collections::BTreeMap;

use super::measured::{EngineAtShape, Measured, ShapeRun};
use super::model::ModelSize;
use super::protocol::Described;
use crate::harness::{test_conditions, test_passes};

/// An engine with these seconds and this peak in megabytes over a baseline of 30.
pub(super) fn engine(name: &str, seconds: &[f64], computed: Option<u64>, megabytes: u64) -> EngineAtShape {
    EngineAtShape {
        described: Described {
            engine: name.to_owned(),
            version: "1".to_owned(),
            dtype: "f32".to_owned(),
            settings: "made up, for tests".to_owned(),
        },
        tuned: "batch 32".to_owned(),
        passes: test_passes(seconds, megabytes),
        computed_tokens: computed,
        smallest_cosine: 0.9999,
    }
}

/// dyad, sentence-transformers, and an onnxruntime that failed.
pub(super) fn measured() -> Measured {
    Measured {
        conditions: test_conditions(["dyad", "sentence-transformers", "onnxruntime"]),
        size: ModelSize { layers: 1, linear_weights: 1, attention_width: 1 },
        shapes: vec![ShapeRun {
            name: "mixed".to_owned(),
            texts: 100,
            tokens: 1_000,
            max_tokens: 256,
            flops: 8e9,
            limits: BTreeMap::from([("f32".to_owned(), vec![15.0, 16.0, 40.0])]),
            engines: vec![
                engine("dyad", &[2.0, 9.0, 1.0], Some(1_250), 70),
                engine("sentence-transformers", &[5.0, 5.0, 6.0], None, 300),
            ],
            failures: vec![("onnxruntime".to_owned(), "onnxruntime: `open`: no".to_owned())],
        }],
    }
}
