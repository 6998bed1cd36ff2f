//! Late chunking: the vectors of passages from their documents, against sentence-transformers.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use dyad_corpus::{Document, PassageContext};
use dyad_encoder::model::VectorLength;
use dyad_encoder::tokenize::{Budget, DocumentWindow, Tokens};
use dyad_encoder::{Compute, Dtype, Model, Tower};
use dyad_files::Never;
use serde_json::json;

use crate::fixture::{cosine, embed, open, path_of, real_model, rows, tiny, worst};

/// A document with the bytes of its sentences.
fn document(sentences: usize) -> (String, Vec<Range<usize>>) {
    let words = [
        "the king",
        "a na\u{ef}ve river",
        "Don Quixote",
        "of 1605,",
        "went home",
        "\u{4e2d}\u{56fd}",
        "and the queen",
    ];
    let (mut text, mut passages) = (String::new(), Vec::new());
    for number in 0..sentences {
        let begin = text.len();
        let own: Vec<&str> = (0..=number % 3)
            .map(|at| words[(number * 3 + at * 5) % words.len()])
            .collect();
        text.push_str(&own.join(" "));
        text.push('.');
        passages.push(begin..text.len());
        text.push_str(if number % 4 == 3 { "\n\n" } else { " " });
    }
    (text, passages)
}

/// Both documents of every model, in one process of Python, which takes long to read its modules.
fn compare(python: &Path, models: &[PathBuf]) {
    // Passages may overlap, and come in any order.
    let (short, mut passages) = document(3);
    passages.push(passages[0].start..passages[1].end);
    passages.swap(0, 2);
    let documents = [document(60), (short, passages)];
    let mut tasks = Vec::new();
    let mut ours: Vec<Vec<Vec<f32>>> = Vec::new();
    for model in models {
        let encoder = open(model);
        assert!(encoder.pools_means(Tower::Answer), "{}", model.display());
        for (text, passages) in &documents {
            let windows = encoder.tokenizer().windows(Tower::Answer, text, passages).unwrap();
            let mut seen: Vec<usize> = windows.iter().flat_map(|window| window.passages.clone()).collect();
            seen.sort_unstable();
            assert_eq!(
                seen,
                (0..passages.len()).collect::<Vec<_>>(),
                "each passage has one window"
            );
            let longest = encoder.info().max_tokens;
            let fits = |window: &DocumentWindow| window.tokens.ids.len() <= longest && !window.tokens.truncated;
            assert!(windows.iter().all(fits), "{}, {longest} tokens", model.display());
            let tokens: Vec<Tokens> = windows.iter().map(|window| window.tokens.clone()).collect();
            let vectors = encoder
                .embed_until(Tower::Answer, &tokens, VectorLength::Unit, Budget::CPU, &Never)
                .unwrap()
                .unwrap();
            let mut left = rows(&vectors, encoder.info().dim).into_iter();
            for DocumentWindow {
                passages: numbers,
                bytes,
                ..
            } in &windows
            {
                let own = |number: &usize| {
                    [
                        passages[*number].start - bytes.start,
                        passages[*number].end - bytes.start,
                    ]
                };
                let own: Vec<[usize; 2]> = numbers.iter().map(own).collect();
                tasks.push(json!({"model": model, "window": text[bytes.clone()], "passages": own}));
                ours.push(left.by_ref().take(numbers.len()).collect());
            }
            assert_eq!(left.len(), 0);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.json");
    fs_err::write(&file, serde_json::to_vec(&tasks).unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/peers/st_late.py");
    let output = Command::new(python)
        .arg(&script)
        .arg(&file)
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Vec<Vec<Vec<f32>>> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(theirs.len(), ours.len());
    for ((ours, theirs), task) in ours.iter().zip(&theirs).zip(&tasks) {
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(theirs) {
            let cosine = cosine(ours, theirs);
            assert!(cosine >= 0.999_99, "{}: {cosine}", task["model"]);
        }
    }
    assert!(tasks.len() > 3 * models.len(), "the long document has several windows");
}

#[test]
fn passages_have_the_means_of_their_tokens_in_the_document() {
    let test = "passages_have_the_means_of_their_tokens_in_the_document";
    let (Some(python), Some(checkpoints)) = (path_of("DYAD_PYTHON", test), path_of("DYAD_ST_CHECKPOINTS", test)) else {
        return;
    };
    let mut models = [
        "bert",
        "mpnet",
        "roberta",
        "st5",
        "gtr",
        "modernbert",
        "nomic-bert",
        "gemma3",
    ]
    .map(|name| checkpoints.join(name))
    .to_vec();
    models.extend(real_model(test));
    compare(&python, &models);
}

/// In fewer digits, passages are as near to their f32 vectors as texts are: the bounds of `int8.rs`, and of bf16.
#[test]
fn passages_in_int8_and_bf16_are_near_their_f32_vectors() {
    let test = "passages_in_int8_and_bf16_are_near_their_f32_vectors";
    let mut models = vec![(tiny("plain"), 0.99), (tiny("classic-mean"), 0.99)];
    models.extend(real_model(test).map(|model| (model, 0.98)));
    for (model, int8) in models {
        let (text, passages) = document(60);
        let by = |dtype: Dtype| {
            let compute = Compute {
                threads: Some(1),
                dtype,
                ..Compute::default()
            };
            let encoder = Model::open(&model, &compute).unwrap();
            let windows = encoder.tokenizer().windows(Tower::Answer, &text, &passages).unwrap();
            let tokens: Vec<Tokens> = windows.into_iter().map(|window| window.tokens).collect();
            let vectors = encoder.embed_until(Tower::Answer, &tokens, VectorLength::Unit, Budget::CPU, &Never);
            rows(&vectors.unwrap().unwrap(), encoder.info().dim)
        };
        let exact = by(Dtype::F32);
        assert_eq!(exact.len(), passages.len());
        for (dtype, least) in [(Dtype::Int8, int8), (Dtype::Bf16, 0.99)] {
            let rounded = by(dtype);
            assert_ne!(rounded, exact, "{dtype}");
            let worst = worst(&exact, &rounded);
            assert!(worst > least, "{}, {dtype}: {worst}", model.display());
        }
    }
}

/// The vector of each passage by the formula, with one passage at a time.
pub(crate) fn by_formula(encoder: &Model, passages: &[Document], context: PassageContext) -> Vec<Vec<f32>> {
    passages
        .iter()
        .map(|passage| vector_by_formula(encoder, passage, context))
        .collect()
}

fn vector_by_formula(encoder: &Model, passage: &Document, context: PassageContext) -> Vec<f32> {
    let own = embed(encoder, Tower::Answer, &[passage.passage_in(context).into_owned()]).remove(0);
    let Some(weight) = context.late_weight() else {
        return own;
    };
    let place = passage.place.as_ref().unwrap();
    assert_eq!(place.document()[place.bytes()], passage.text);
    let windows = encoder
        .tokenizer()
        .windows(Tower::Answer, place.document(), &[place.bytes()])
        .unwrap();
    let tokens: Vec<Tokens> = windows.into_iter().map(|window| window.tokens).collect();
    let late = encoder.embed_until(Tower::Answer, &tokens, VectorLength::Unit, Budget::CPU, &Never);
    let sum: Vec<f32> = own
        .iter()
        .zip(late.unwrap().unwrap())
        .map(|(own, late)| own + weight * late)
        .collect();
    let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
    sum.into_iter().map(|value| value / length).collect()
}
