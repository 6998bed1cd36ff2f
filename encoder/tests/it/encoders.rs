//! Randomly initialised encoders over pretrained token vectors: every sharing, gradients, batches, saving and loading.
//! The cells' equations are tested next to their code.

use std::path::PathBuf;

use dyad_encoder::config::RecurrentCell;
use dyad_encoder::model::{Model, create_over};
use dyad_encoder::tokenize::Tokens;
use dyad_encoder::transform::{Aggregation, Creation, NewEncoder};
use dyad_encoder::{Compute, Dtype, Tower};

use crate::fixture::{embed, open, rows, tiny, tokens, worst};

const DIM: usize = 6;

fn encoders() -> [NewEncoder; 4] {
    let recurrent = |cell, bidirectional| NewEncoder::Recurrent {
        cell,
        layers: 2,
        hidden: 7,
        bidirectional,
    };
    let transformer = NewEncoder::Transformer { layers: 2 };
    [
        recurrent(RecurrentCell::Lstm, true),
        recurrent(RecurrentCell::Gru, false),
        recurrent(RecurrentCell::Rnn, false),
        transformer,
    ]
}

fn made(sharing: &str, encoder: NewEncoder, aggregation: Aggregation) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    let creation = Creation {
        sharing: sharing.parse().unwrap(),
        dim: DIM,
        seed: 1,
    };
    create_over(&tiny("classic-mean"), &to, &creation, encoder, aggregation).unwrap();
    assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
    (folder, to)
}

fn texts() -> Vec<String> {
    [
        "the river",
        "who was the king of the city",
        "a light",
        "water and light in the city",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
fn every_encoder_learns_in_every_sharing() {
    let hops = Aggregation::MultiHop { inner: 4, hops: 2 };
    for encoder in encoders() {
        for (sharing, aggregation) in [
            ("sde", Aggregation::Kept),
            ("ade", hops),
            ("ade-ste", Aggregation::Mean),
            ("ade-fte", hops),
            ("ade-spl", hops),
            ("token=separate,transformer=shared,projection=separate", hops),
        ] {
            let (_folder, model_dir) = made(sharing, encoder, aggregation);
            let served = open(&model_dir);
            let learned = Model::open_for_training(
                &model_dir,
                &Compute {
                    threads: Some(1),
                    ..Compute::default()
                },
            )
            .unwrap();
            let mut sums = Vec::new();
            for tower in [Tower::Question, Tower::Answer] {
                let tokens = tokens(&served, tower, &texts());
                let vectors = learned.vectors(tower, &tokens.iter().collect::<Vec<_>>()).unwrap();
                let ours = Vec::<Vec<f32>>::try_from(vectors.detach()).unwrap();
                assert!(
                    worst(&ours, &embed(&served, tower, &texts())) > 0.999_99,
                    "{encoder:?} {sharing}, {tower}"
                );
                sums.push(vectors.select(1, 0).sum(None));
            }
            tch::Tensor::stack(&sums, 0).sum(None).backward();
            for parameter in learned.parameters() {
                let gradient = parameter.tensor.grad();
                let table = parameter.name.ends_with("embeddings.weight") && !parameter.name.contains("position");
                assert_eq!(
                    parameter.frozen,
                    sharing == "ade-fte" && table && !parameter.name.contains("type")
                );
                assert_eq!(
                    gradient.defined(),
                    !parameter.frozen,
                    "{encoder:?} {sharing}: {}",
                    parameter.name
                );
                // Keys' biases cancel in the softmax.
                if gradient.defined() && !parameter.name.ends_with("key.bias") {
                    let largest = gradient.abs().max().double_value(&[]);
                    assert!(largest > 0.0, "{encoder:?} {sharing}: {}", parameter.name);
                }
            }
        }
    }
}

#[test]
fn a_vector_does_not_depend_on_its_batch() {
    for encoder in encoders() {
        let (_folder, model_dir) = made("sde", encoder, Aggregation::MultiHop { inner: 4, hops: 2 });
        let opened = open(&model_dir);
        let tokens = tokens(&opened, Tower::Answer, &texts());
        let all: Vec<&Tokens> = tokens.iter().collect();
        let together = rows(&opened.embed(Tower::Answer, &all).unwrap(), DIM);
        let alone: Vec<Vec<f32>> = all
            .iter()
            .map(|text| opened.embed(Tower::Answer, &[*text]).unwrap())
            .collect();
        assert!(worst(&together, &alone) > 0.999_999, "{encoder:?}");
        // Different texts are told apart, and the gate of golden vectors holds in half precision too.
        assert!(worst(&together[..1], &together[1..2]) < 0.9999, "{encoder:?}");
        let compute = Compute {
            dtype: Dtype::Bf16,
            threads: Some(1),
            ..Compute::default()
        };
        assert!(Model::open(&model_dir, &compute).is_ok(), "{encoder:?}");
    }
}

#[test]
fn a_seed_makes_one_model() {
    for encoder in encoders() {
        let [one, two] = [0, 1].map(|_| {
            let (_folder, model_dir) = made("ade-spl", encoder, Aggregation::Kept);
            open(&model_dir).info().fingerprint.clone()
        });
        assert_eq!(one, two, "{encoder:?}");
    }
}

#[test]
fn cells_see_token_vectors_of_size_one() {
    let size = |values: &tch::Tensor| {
        values
            .to_kind(tch::Kind::Double)
            .square()
            .mean(None)
            .sqrt()
            .double_value(&[])
    };
    let table = |model_dir: &std::path::Path| {
        let learned = Model::open_for_training(model_dir, &Compute::default()).unwrap();
        let table = learned
            .parameters()
            .iter()
            .find(|parameter| parameter.name.ends_with("embeddings.weight"))
            .unwrap();
        table.tensor.detach().copy()
    };
    let (_of_cells, cells) = made("sde", encoders()[0], Aggregation::Mean);
    let (_of_transformer, transformer) = made("sde", encoders()[3], Aggregation::Mean);
    let (scaled, kept) = (table(&cells), table(&transformer));
    assert!((size(&scaled) - 1.0).abs() < 1e-5, "{}", size(&scaled));
    // The same directions.
    let apart = (&kept / size(&kept) - &scaled).abs().max().double_value(&[]);
    assert!(apart < 1e-5, "{apart}");
}

#[test]
fn a_projection_has_any_size() {
    for dim in [1, 256, 768, 2048, 4096] {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("model");
        let creation = Creation {
            sharing: "ade-spl".parse().unwrap(),
            dim,
            seed: 2,
        };
        create_over(&tiny("classic-mean"), &to, &creation, encoders()[3], Aggregation::Mean).unwrap();
        let opened = open(&to);
        assert_eq!(opened.info().dim, dim);
        for vector in embed(&opened, Tower::Question, &texts()) {
            let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
            assert!(vector.len() == dim && (length - 1.0).abs() < 1e-5, "{dim}: {length}");
        }
    }
}
