//! Many texts at once: batches side by side give what batches one after another give, and end where they are told to.

use std::sync::atomic::{AtomicUsize, Ordering};

use dyad_encoder::model::Model;
use dyad_encoder::model::VectorLength;
use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::{Compute, Dtype, Tower};
use dyad_files::Never;

use crate::fixture::{rows, tiny, tokens};

const MODELS: [&str; 3] = ["classic-mean", "newer-dense", "roberta-cls"];
const SMALL: Budget = Budget { tokens: 64, rows: 8 };

fn compute(threads: usize, dtype: Dtype) -> Compute {
    Compute {
        threads: Some(threads),
        dtype,
        ..Compute::default()
    }
}

/// Of 1 to 40 words.
fn texts() -> Vec<String> {
    (0..120)
        .map(|number| format!("what is {number} ").repeat(1 + number * 7 % 13))
        .collect()
}

#[test]
fn workers_give_what_one_thread_gives() {
    for name in MODELS {
        for dtype in [Dtype::F32, Dtype::Int8] {
            let open = |threads| Model::open(&tiny(name), &compute(threads, dtype)).unwrap();
            let alone = open(1);
            let given: Vec<Tokens> = tokens(&alone, Tower::Answer, &texts());
            let of = |encoder: &Model| {
                rows(
                    &encoder.embed_all(Tower::Answer, &given, SMALL).unwrap(),
                    alone.info().dim,
                )
            };
            let expected = of(&alone);
            for workers in [2, 5] {
                let got = of(&open(workers));
                assert_eq!(got.len(), expected.len());
                let apart = got
                    .iter()
                    .flatten()
                    .zip(expected.iter().flatten())
                    .map(|(a, b)| (a - b).abs());
                let apart = apart.fold(0.0, f32::max);
                assert!(apart < 1e-5, "{name} {dtype} {workers}: {apart}");
            }
        }
    }
}

#[test]
fn one_batch_gives_the_same_on_any_number_of_threads() {
    for (name, dtype) in MODELS
        .iter()
        .flat_map(|name| [Dtype::F32, Dtype::Int8].map(|dtype| (name, dtype)))
    {
        let open = |threads| Model::open(&tiny(name), &compute(threads, dtype)).unwrap();
        let alone = open(1);
        let given = tokens(&alone, Tower::Question, &texts());
        for threads in [2, 3] {
            let shared = open(threads);
            // All, of which each thread takes whole texts, and one, whose products are too small to be shared.
            for texts in [given.as_slice(), &given[..1]] {
                let batch: Vec<&Tokens> = texts.iter().collect();
                let expected = alone.embed(Tower::Question, &batch).unwrap();
                let before = tch::get_num_threads();
                let got = shared.embed(Tower::Question, &batch).unwrap();
                assert_eq!((tch::get_num_threads(), got.len()), (before, expected.len()));
                let apart = got
                    .iter()
                    .zip(&expected)
                    .map(|(a, b)| (a - b).abs())
                    .fold(0.0, f32::max);
                assert!(apart < 1e-5, "{name} {dtype} {threads}: {apart}");
            }
        }
    }
}

#[test]
fn towers_that_learn_give_the_same_side_by_side() {
    let of = |threads| {
        let learned = Model::open_for_training(&tiny("classic-mean"), &compute(threads, Dtype::F32)).unwrap();
        let tokenizer = learned.tokenizer();
        let given: Vec<Tokens> = texts()
            .iter()
            .map(|text| tokenizer.encode(Tower::Question, text).unwrap())
            .collect();
        learned
            .embed_until(Tower::Question, &given, VectorLength::Raw, SMALL, &Never)
            .unwrap()
            .unwrap()
    };
    let (alone, workers) = (of(1), of(3));
    assert_eq!(alone.len(), workers.len());
    assert!(alone.iter().zip(&workers).all(|(a, b)| (a - b).abs() < 1e-4));
}

#[test]
fn workers_stop_where_they_are_told_to_and_count_every_token() {
    let encoder = Model::open(&tiny("classic-mean"), &compute(2, Dtype::F32)).unwrap();
    let given = tokens(&encoder, Tower::Answer, &texts());
    let all: usize = given.iter().map(|text| text.ids.len()).sum();
    let (mut batches, mut seen) = (0, 0);
    let embedded = encoder.embed_with_progress(Tower::Answer, &given, SMALL, &Never, &mut |tokens| {
        (batches, seen) = (batches + 1, seen + tokens);
    });
    assert!(embedded.unwrap().is_some() && batches > 4);
    assert_eq!(seen, all);

    let asked = AtomicUsize::new(0);
    let stopped = encoder.embed_until(Tower::Answer, &given, VectorLength::Unit, SMALL, &|| {
        asked.fetch_add(1, Ordering::Relaxed) == 2
    });
    assert_eq!((stopped.unwrap(), asked.into_inner()), (None, 3));
    // What follows has its threads again, and works.
    assert!(encoder.embed_all(Tower::Answer, &given, SMALL).is_ok());
}
