//! `probe`, `mine` and `reqa` as people run them.

use std::path::Path;
use std::process::{Command, Output};

use dyad_corpus::examples::{ExampleOptions, ExampleReader, Passage, TrainingExample};
use dyad_encoder::Tower;
use serde_json::Value;

use crate::fixture::{embed, open, tiny};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dyad-encoder"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Thirty pairs of texts that the tiny model can tell apart.
fn pairs(root: &Path) -> String {
    let path = root.join("pairs.tsv");
    let word = |number: usize| char::from(b'b' + (number % 25) as u8);
    let line = |number: usize| {
        let (one, other) = (word(number), word(number / 3 + 7));
        format!("who is the {one} {other} of {number}\tthe king {other} was {one} in the city {number}")
    };
    fs_err::write(&path, (0..30).map(line).collect::<Vec<_>>().join("\n")).unwrap();
    path.display().to_string()
}

#[test]
fn a_probe_prints_its_numbers_and_draws_the_same_picture_again() {
    let root = tempfile::tempdir().unwrap();
    let (model, data, out) = (
        tiny("plain").display().to_string(),
        pairs(root.path()),
        root.path().join("tsne.svg"),
    );
    let out = out.display().to_string();
    let arguments = [
        "probe", "--model", &model, "--data", &data, "--out", &out, "--pairs", "20", "--json",
    ];
    let first = run(&arguments);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let found: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!((&found["model"], &found["pairs"]), (&"plain".into(), &20.into()));
    let accuracy = found["separation"]["accuracy"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&accuracy));
    assert!(found["geometry"]["alignment"].as_f64().unwrap() > 0.0);
    let picture = fs_err::read(&out).unwrap();
    assert_eq!(text(&picture).matches("r=\"3\"").count(), 40);
    assert!(run(&arguments).status.success());
    assert_eq!(fs_err::read(&out).unwrap(), picture);

    let words = run(&arguments[..arguments.len() - 1]);
    assert!(text(&words.stdout).contains("separable   "), "{}", text(&words.stdout));
    fs_err::write(&data, "who\tthe king\nwhat\tthe king").unwrap();
    let few = run(&arguments);
    assert!(
        text(&few.stderr).contains("10 different questions with different answers at least, got: 1"),
        "{}",
        text(&few.stderr)
    );
}

#[test]
fn mined_negatives_are_the_best_that_do_not_answer() {
    let root = tempfile::tempdir().unwrap();
    let (model, data, out) = (tiny("plain"), pairs(root.path()), root.path().join("mined.jsonl"));
    let (model_path, out_path) = (model.display().to_string(), out.display().to_string());
    let arguments = [
        &["mine", "--model", &model_path, "--data", &data, "--out", &out_path][..],
        &[
            "--rank-start",
            "1",
            "--rank-end",
            "8",
            "--negatives",
            "3",
            "--best",
            "--relative-margin",
            "1",
        ],
    ]
    .concat();
    let mined = run(&arguments);
    assert!(mined.status.success(), "{}", text(&mined.stderr));
    assert!(
        text(&mined.stdout).contains("for 30 examples among 30 candidates"),
        "{}",
        text(&mined.stdout)
    );

    let read = |path: &Path| -> Vec<TrainingExample> {
        ExampleReader::open(path, &ExampleOptions::default())
            .unwrap()
            .map(|example| example.unwrap())
            .collect()
    };
    let (given, found) = (read(Path::new(&data)), read(&out));
    let encoder = open(&model);
    let texts = |of: fn(&TrainingExample) -> String| given.iter().map(of).collect::<Vec<String>>();
    let answers = texts(|example| example.positives[0].text.clone());
    let asked = embed(&encoder, Tower::Question, &texts(|example| example.question.clone()));
    let vectors = embed(&encoder, Tower::Answer, &answers);
    for (number, (given, found)) in given.iter().zip(&found).enumerate() {
        assert_eq!(
            (&found.question, &found.positives[0].text),
            (&given.question, &given.positives[0].text)
        );
        let score = |answer: usize| {
            asked[number]
                .iter()
                .zip(&vectors[answer])
                .map(|(x, y)| x * y)
                .sum::<f32>()
        };
        let mut order: Vec<usize> = (0..30).filter(|&answer| answer != number).collect();
        order.sort_by(|&one, &other| score(other).total_cmp(&score(one)));
        let own = found.positives[0].score.unwrap();
        assert!((own - score(number)).abs() < 1e-5);
        let expected: Vec<f32> = order[1..8]
            .iter()
            .map(|&answer| score(answer))
            .filter(|score| *score <= own)
            .take(3)
            .collect();
        let scores: Vec<f32> = found.negatives.iter().map(|negative| negative.score.unwrap()).collect();
        assert_eq!(scores.len(), expected.len(), "{number}");
        assert!(
            scores
                .iter()
                .zip(&expected)
                .all(|(found, expected)| (found - expected).abs() < 1e-5),
            "{scores:?} {expected:?}"
        );
        let is_own = |negative: &Passage| negative.text == given.positives[0].text;
        assert!(!found.negatives.iter().any(is_own));
    }

    let again = run(&arguments);
    assert!(
        text(&again.stderr).contains("already exists"),
        "{}",
        text(&again.stderr)
    );
    fs_err::remove_file(&out).unwrap();
    let wrong = run(&[&arguments[..7], &["--rank-start", "5", "--rank-end", "5"]].concat());
    assert!(
        text(&wrong.stderr).contains("`rank-end` must be above `rank-start` 5, got: 5"),
        "{}",
        text(&wrong.stderr)
    );
    assert!(!out.exists());
}

#[test]
fn squad_becomes_a_beir_folder() {
    let root = tempfile::tempdir().unwrap();
    let (squad, out) = (root.path().join("dev.json"), root.path().join("reqa"));
    let context = "The king was here. The queen left.";
    let question =
        serde_json::json!({"id": "q", "question": "who left?", "answers": [{"text": "queen", "answer_start": 23}]});
    let data = serde_json::json!({"data": [{"paragraphs": [{"context": context, "qas": [question]}]}]});
    fs_err::write(&squad, data.to_string()).unwrap();
    let (squad, out) = (squad.display().to_string(), out.display().to_string());
    let written = run(&["reqa", "--squad", &squad, "--out", &out]);
    assert!(
        text(&written.stdout).starts_with("2 candidates, 1 questions, 1 judgements"),
        "{}",
        text(&written.stderr)
    );
    let options = ExampleOptions {
        split: "test".into(),
        ..ExampleOptions::default()
    };
    let found = ExampleReader::open(Path::new(&out), &options)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(
        (found.question.as_str(), found.positives[0].text.as_str()),
        ("who left?", "The queen left.")
    );
    assert_eq!(
        run(&["reqa", "--squad", &squad, "--out", &out, "--split", "../x"])
            .status
            .code(),
        Some(2)
    );
}
