//! Every sharing, every family and ENDX learn 64 pairs by heart.

use std::path::Path;

use dyad_encoder::config::RecurrentCell;
use dyad_encoder::data::{Last, Sampler, SamplerOptions, collate};
use dyad_encoder::model::{Model, create, create_over};
use dyad_encoder::train::{Length, TrainingStep};
use dyad_encoder::transform::{Aggregation, Creation, NewEncoder};

use super::fixture::{PAIRS, one_thread, pairs, precision, small, stage};
use crate::fixture::{golden, path_of, tiny};

const STEPS: u64 = 1500;

/// Trains until all 64 answers are found, at most [`STEPS`] steps.
fn overfit(name: &str, directory: &Path, rate: f64, settings: &str) {
    let learned = Model::open_for_training(directory, &one_thread()).unwrap();
    let options = SamplerOptions {
        seed: 3,
        batch: PAIRS,
        negatives: 0,
        last: Last::Drop,
    };
    let mut sampler = Sampler::new(pairs(&learned), options).unwrap();
    let settings =
        format!("[optimizer]\nkind = \"adamw\"\nlearning-rate = {rate}\n[schedule]\nkind = \"constant\"\n{settings}");
    let length = Length {
        steps: STEPS,
        batches: sampler.batches(),
    };
    let mut step = TrainingStep::new(learned, directory, &stage(&settings), &one_thread(), length).unwrap();
    assert!(precision(step.model()) < 0.5, "{name}: knows them before");
    let mut first = None;
    while step.steps_taken() < STEPS {
        let report = step.run(&collate(&mut sampler)).unwrap();
        let first = *first.get_or_insert(report.loss);
        if step.steps_taken().is_multiple_of(10) && precision(step.model()) > 1.0 - 1e-9 {
            assert!(
                report.loss < first || settings.contains("endx"),
                "{name}: {first} {}",
                report.loss
            );
            println!("{name}: {} steps", step.steps_taken());
            return;
        }
    }
    panic!("{name}: P@1 is {} behind {STEPS} steps", precision(step.model()));
}

#[test]
fn all_sharings_learn_64_pairs() {
    for sharing in ["sde", "ade", "ade-ste", "ade-fte", "ade-spl"] {
        let (_folder, directory) = small(sharing, 16);
        overfit(sharing, &directory, 0.01, "[loss]\nsymmetric = true");
    }
}

#[test]
fn all_families_learn_64_pairs() {
    let recurrent = |cell| NewEncoder::Recurrent {
        cell,
        layers: 1,
        hidden: 16,
        bidirectional: true,
    };
    for (name, encoder) in [
        ("lstm", recurrent(RecurrentCell::Lstm)),
        ("gru", recurrent(RecurrentCell::Gru)),
        ("rnn", recurrent(RecurrentCell::Rnn)),
        ("transformer", NewEncoder::Transformer { layers: 1 }),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("model");
        let creation = Creation {
            sharing: "ade".parse().unwrap(),
            dim: 16,
            seed: 1,
        };
        create_over(&tiny("classic-mean"), &directory, &creation, encoder, Aggregation::Mean).unwrap();
        overfit(name, &directory, 0.01, "");
    }
    overfit("roberta", &tiny("roberta-cls"), 0.004, "");
    let Some(all) = path_of("DYAD_ST_CHECKPOINTS", "all_families_learn_64_pairs") else {
        return;
    };
    for name in [
        "bert",
        "distilbert",
        "mpnet",
        "t5-relu",
        "t5-gated",
        "modernbert",
        "gte",
        "nomic-bert",
        "qwen3",
        "gemma3",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("model");
        create(
            &all.join(name),
            &directory,
            &Creation {
                sharing: "ade".parse().unwrap(),
                dim: 16,
                seed: 1,
            },
        )
        .unwrap();
        overfit(name, &directory, 0.004, "");
    }
}

#[test]
fn a_static_model_learns_64_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("model");
    let creation = Creation {
        sharing: "ade".parse().unwrap(),
        dim: 16,
        seed: 1,
    };
    create(&golden().join("static/embedding"), &directory, &creation).unwrap();
    overfit("static", &directory, 0.02, "");
}

#[test]
fn endx_learns_64_pairs_with_either_cross_encoder() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("model");
    let creation = Creation {
        sharing: "sde".parse().unwrap(),
        dim: 16,
        seed: 1,
    };
    let pooling = Aggregation::MultiHop { inner: 8, hops: 2 };
    create_over(
        &tiny("classic-mean"),
        &directory,
        &creation,
        NewEncoder::Transformer { layers: 1 },
        pooling,
    )
    .unwrap();
    for encoder in ["separate", "shared"] {
        // Weights as the tiny batch bears them: 1e4, the paper's, is for vectors of its size.
        let settings = format!(
            "[loss]\nsimilarity = \"inner-product\"\ntemperature = 1.0\n[loss.endx.cross]\nencoder = {encoder:?}\nheads = 3\n\
             aggregator = {{ kind = \"multi-hop\", inner = 8, hops = 2 }}\n[loss.endx.weights]\n\
             q-q = {{ to = 1.0, epochs = 200.0 }}\na-a = {{ to = 1.0, epochs = 200.0 }}\n"
        );
        overfit(&format!("endx {encoder}"), &directory, 0.003, &settings);
    }
}
