//! The cross-encoder branch of ENDX.
//!
//! | file | what |
//! |---|---|
//! | `equations.rs` | its scores against the equations, one pair at a time |
//! | `training.rs` | its gradients, its names, and what it refuses |

use std::path::PathBuf;

use dyad_encoder::cross::{Aggregator, CrossBranchEncoder, CrossSettings};
use dyad_encoder::model::VectorLength;
use dyad_encoder::model::{Model, Output, create_with};
use dyad_encoder::tokenize::Tokens;
use dyad_encoder::transform::{Aggregation, Creation};
use dyad_encoder::{Compute, Tower};

use crate::fixture::tiny;

mod equations;
mod training;

/// Values of a token vector of the tiny model.
const H: i64 = 12;
const HEADS: i64 = 3;

const QUESTIONS: [&str; 4] = [
    "who was the king",
    "the river",
    "a",
    "what is the light of the city and the river",
];

const ANSWERS: [&str; 4] = [
    "the queen of light",
    "water in the mountain",
    "the king was in the city of the river",
    "a light",
];

fn settings(aggregator: Aggregator) -> CrossSettings {
    let (encoder, heads) = (CrossBranchEncoder::Shared, HEADS as usize);
    CrossSettings {
        encoder,
        heads,
        feed_forward: Some(20),
        aggregator,
        one_side: false,
        seed: Some(5),
    }
}

const MULTI_HOP: Aggregator = Aggregator::MultiHop { inner: 5, hops: 2 };

fn compute() -> Compute {
    Compute {
        threads: Some(1),
        ..Compute::default()
    }
}

fn model_dir(sharing: &str) -> (tempfile::TempDir, PathBuf, Model) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    let creation = Creation {
        sharing: sharing.parse().unwrap(),
        dim: 6,
        seed: 1,
    };
    create_with(
        &tiny("classic-mean"),
        &to,
        &creation,
        Aggregation::MultiHop { inner: 5, hops: 2 },
    )
    .unwrap();
    let learned = Model::open_for_training(&to, &compute()).unwrap();
    (folder, to, learned)
}

fn states(learned: &Model, tower: Tower, texts: &[&str]) -> Output {
    let tokens: Vec<Tokens> = texts
        .iter()
        .map(|text| learned.tokenizer().encode(tower, text).unwrap())
        .collect();
    learned
        .forward(tower, &tokens.iter().collect::<Vec<_>>(), VectorLength::Raw)
        .unwrap()
}
