//! `--dtype int8`: near f32, on tiny networks of every family and on the real one, and refused where it cannot be.

use std::path::Path;

use dyad_corpus::queries;
use dyad_encoder::config::RecurrentCell;
use dyad_encoder::model::create_over;
use dyad_encoder::model::export;
use dyad_encoder::transform::{Aggregation, Creation, NewEncoder};
use dyad_encoder::{Compute, Dtype, Model, Tower};

use crate::fixture::{embed, open, path_of, real_model, tiny, worst};

fn int8() -> Compute {
    Compute {
        threads: Some(1),
        dtype: Dtype::Int8,
        ..Compute::default()
    }
}

fn texts() -> Vec<String> {
    let words = [
        "the", "answer", "tower", "embeds", "a", "passage", "of", "question", "and", "more",
    ];
    let text = |length: usize| {
        (0..length)
            .map(|at| words[(at * 7 + length) % words.len()])
            .collect::<Vec<_>>()
            .join(" ")
    };
    [1, 2, 3, 5, 9, 9, 9, 20].map(text).to_vec()
}

/// The least that any text's vector has in common with its f32 vector.
fn nearness(model: &Path) -> f64 {
    let rounded = Model::open(model, &int8()).unwrap();
    assert_eq!(rounded.info().dtype, Dtype::Int8);
    let exact = open(model);
    assert_eq!(
        rounded.info().fingerprint,
        exact.info().fingerprint,
        "a way to compute is no other model"
    );
    let [exact, rounded] = [exact, rounded].map(|encoder| embed(&encoder, Tower::Answer, &texts()));
    assert_ne!(exact, rounded);
    worst(&exact, &rounded)
}

#[test]
fn every_transformer_is_near_its_f32_vectors() {
    for entry in fs_err::read_dir(tiny("")).unwrap() {
        let path = entry.unwrap().path();
        if !path.join("vectors.json").is_file() {
            // A cross encoder has no vectors.
            continue;
        }
        let nearness = nearness(&path);
        assert!(nearness > 0.99, "{}: {nearness}", path.display());
    }
    let Some(checkpoints) = path_of("DYAD_ST_CHECKPOINTS", "every_transformer_is_near_its_f32_vectors") else {
        return;
    };
    // Of random weights, which no training has made robust.
    for name in [
        "bert",
        "distilbert",
        "mpnet",
        "t5-gated",
        "t5-relu",
        "st5",
        "router-newer",
        "modernbert",
        "gte",
        "nomic-bert",
        "qwen3-embedding",
        "embeddinggemma",
    ] {
        let nearness = nearness(&checkpoints.join(name));
        assert!(nearness > 0.96, "{name}: {nearness}");
    }
}

#[test]
fn the_real_model_is_near_its_f32_vectors() {
    let test = "the_real_model_is_near_its_f32_vectors";
    let (Some(model), Some(data)) = (real_model(test), path_of("DYAD_DATA", test)) else {
        return;
    };
    let queries = queries::read(&data.join("reqa-squad/queries.jsonl.gz")).unwrap();
    let texts: Vec<String> = queries.into_iter().step_by(25).map(|query| query.text).collect();
    assert!(texts.len() > 400);
    let exact = embed(&open(&model), Tower::Question, &texts);
    let rounded = embed(&Model::open(&model, &int8()).unwrap(), Tower::Question, &texts);
    let worst = worst(&exact, &rounded);
    assert!(worst > 0.98, "{worst}");
    // What a search would find first is nearly always the same: the nearest of the other texts.
    let nearest = |vectors: &[Vec<f32>]| -> Vec<usize> {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        let of = |at: usize| {
            let others = (0..vectors.len()).filter(|&other| other != at);
            others
                .max_by(|&a, &b| dot(&vectors[at], &vectors[a]).total_cmp(&dot(&vectors[at], &vectors[b])))
                .unwrap()
        };
        (0..vectors.len()).map(of).collect()
    };
    let same = nearest(&exact)
        .into_iter()
        .zip(nearest(&rounded))
        .filter(|(a, b)| a == b)
        .count();
    assert!(same as f64 > 0.9 * texts.len() as f64, "{same} of {}", texts.len());
}

#[test]
fn int8_is_no_form_of_a_file() {
    let to = tempfile::tempdir().unwrap();
    let message = export(&tiny("plain"), &to.path().join("model"), Dtype::Int8)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("int8") && message.contains("`f32`, `bf16` and `f16`"),
        "{message}"
    );
    assert!(!to.path().join("model").exists());
}

#[test]
fn recurrent_encoders_are_refused() {
    let to = tempfile::tempdir().unwrap();
    let model = to.path().join("model");
    let cell = NewEncoder::Recurrent {
        cell: RecurrentCell::Gru,
        layers: 1,
        hidden: 8,
        bidirectional: false,
    };
    let creation = Creation {
        sharing: "sde".parse().unwrap(),
        dim: 8,
        seed: 1,
    };
    create_over(&tiny("classic-mean"), &model, &creation, cell, Aggregation::Kept).unwrap();
    let message = Model::open(&model, &int8()).unwrap_err().to_string();
    assert!(message.contains("int8") && message.contains("recurrent"), "{message}");
}
