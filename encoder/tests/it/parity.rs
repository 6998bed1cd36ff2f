//! The real model against sentence-transformers: a committed set of odd texts, and a thousand real ones.

use std::collections::HashMap;
use std::path::Path;

use dyad_corpus::{CorpusReader, ReadOptions, queries};
use dyad_encoder::Tower;
use dyad_encoder::tokenize::Tokens;

use crate::fixture::{cosine, embed, golden, npy, open, path_of, real_model, rows, tokens, worst};

fn lines(path: &Path) -> Vec<String> {
    fs_err::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Made by `.venv/bin/python benches/peers/st_reference.py --what golden --model MODEL --out encoder/tests/golden` with
/// all-MiniLM-L6-v2, whose weights have SHA-256 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db.
#[test]
fn odd_texts_get_the_vectors_of_sentence_transformers() {
    let Some(model) = real_model("odd_texts_get_the_vectors_of_sentence_transformers") else {
        return;
    };
    compare_odd_texts(&model, "all-MiniLM-L6-v2.npy", 384, 256);
}

/// The same of all-mpnet-base-v2, whose weights have SHA-256
/// 78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658: `deploy/model.sh all-mpnet-base-v2 DIR`, and
/// `DYAD_MPNET=DIR` (438 MB; CI goes without).
#[test]
fn odd_texts_get_the_vectors_of_mpnet_too() {
    let Some(model) = path_of("DYAD_MPNET", "odd_texts_get_the_vectors_of_mpnet_too") else {
        return;
    };
    compare_odd_texts(&model, "all-mpnet-base-v2.npy", 768, 384);
}

fn compare_odd_texts(model: &Path, reference: &str, dim: usize, max_tokens: usize) {
    let encoder = open(model);
    let texts = lines(&golden().join("all-MiniLM-L6-v2.jsonl"));
    let reference = npy(&golden().join(reference));
    assert_eq!(texts.len(), 24);
    assert_eq!((encoder.info().dim, encoder.info().max_tokens), (dim, max_tokens));
    let ours = embed(&encoder, Tower::Answer, &texts);
    for (text, (ours, theirs)) in texts.iter().zip(ours.iter().zip(&reference)) {
        let cosine = cosine(ours, theirs);
        assert!(
            cosine >= 0.999_99,
            "{cosine}: {}",
            text.chars().take(60).collect::<String>()
        );
    }
}

#[test]
fn a_real_vector_does_not_depend_on_its_batch() {
    let Some(model) = real_model("a_real_vector_does_not_depend_on_its_batch") else {
        return;
    };
    let encoder = open(&model);
    let tokens = tokens(
        &encoder,
        Tower::Answer,
        &lines(&golden().join("all-MiniLM-L6-v2.jsonl")),
    );
    let all: Vec<&Tokens> = tokens.iter().collect();
    let together = rows(&encoder.embed(Tower::Answer, &all).unwrap(), 384);
    let alone: Vec<Vec<f32>> = all
        .iter()
        .map(|text| encoder.embed(Tower::Answer, &[*text]).unwrap())
        .collect();
    let worst = worst(&together, &alone);
    assert!(worst >= 0.999_999, "{worst}");
}

/// Texts of `DYAD_DATA` by keys of the form `SET/KIND/KEY`.
fn real_texts(data: &Path, keys: &[String]) -> Vec<(Tower, String)> {
    let mut texts: HashMap<String, String> = HashMap::new();
    for set in ["scifact", "reqa-squad"] {
        let path = data.join(set);
        for document in CorpusReader::open(&path, &ReadOptions::default()).unwrap() {
            let document = document.unwrap().value;
            texts.insert(
                format!("{set}/corpus/{}", document.key),
                document.passage().into_owned(),
            );
        }
        for query in queries::read(&path.join("queries.jsonl.gz")).unwrap() {
            texts.insert(format!("{set}/queries/{}", query.key), query.text);
        }
    }
    let tower = |key: &str| {
        if key.contains("/queries/") {
            Tower::Question
        } else {
            Tower::Answer
        }
    };
    keys.iter()
        .map(|key| (tower(key), texts.remove(key).unwrap()))
        .collect()
}

/// Compares every fourth of the thousand, so that four processes share the work. The reference is made by
/// `st_reference.py` (see its head for the commands).
fn compare_a_quarter(test: &str, quarter: usize) {
    let paths = (
        real_model(test),
        path_of("DYAD_DATA", test),
        path_of("DYAD_ST_REFERENCE", test),
    );
    let (Some(model), Some(data), Some(reference)) = paths else {
        return;
    };
    let (keys, theirs) = (
        lines(&reference.join("keys.jsonl")),
        npy(&reference.join("vectors.npy")),
    );
    assert_eq!((keys.len(), theirs.len()), (1000, 1000));
    let encoder = open(&model);
    let texts = real_texts(&data, &keys);
    let mut compared = 0;
    let mut smallest = (f64::INFINITY, "");
    for tower in [Tower::Question, Tower::Answer] {
        let places: Vec<usize> = (quarter..1000)
            .step_by(4)
            .filter(|&place| texts[place].0 == tower)
            .collect();
        let texts: Vec<String> = places.iter().map(|&place| texts[place].1.clone()).collect();
        for (&place, ours) in places.iter().zip(embed(&encoder, tower, &texts)) {
            compared += 1;
            let cosine = cosine(&ours, &theirs[place]);
            if cosine < smallest.0 {
                smallest = (cosine, &keys[place]);
            }
        }
    }
    println!("smallest cosine of {compared}: {smallest:?}");
    assert_eq!(compared, 250);
    assert!(smallest.0 >= 0.999_99, "{smallest:?}");
}

#[test]
fn real_texts_get_the_vectors_of_sentence_transformers_1() {
    compare_a_quarter("real_texts_get_the_vectors_of_sentence_transformers_1", 0);
}

#[test]
fn real_texts_get_the_vectors_of_sentence_transformers_2() {
    compare_a_quarter("real_texts_get_the_vectors_of_sentence_transformers_2", 1);
}

#[test]
fn real_texts_get_the_vectors_of_sentence_transformers_3() {
    compare_a_quarter("real_texts_get_the_vectors_of_sentence_transformers_3", 2);
}

#[test]
fn real_texts_get_the_vectors_of_sentence_transformers_4() {
    compare_a_quarter("real_texts_get_the_vectors_of_sentence_transformers_4", 3);
}
