//! What a run leaves, as sentence-transformers, TensorBoard and `evaluate` read it.

use std::process::Command;

use dyad_encoder::Tower;
use dyad_encoder::train::METRICS;

use super::fixture::{PAIRS, Place};
use super::run::LEARNING;
use crate::fixture::{open, path_of};

#[test]
fn models_are_read_by_sentence_transformers() {
    let test = "models_are_read_by_sentence_transformers";
    let Some(python) = path_of("DYAD_PYTHON", test) else {
        return;
    };
    let place = Place::new(&format!("{LEARNING}[training]\nsteps = 30\n"));
    place.trained("out");
    let model_dir = place.path("out/final");
    let encoder = open(&model_dir);
    let text = super::fixture::pair(9);
    let script = "import json, sys\nfrom sentence_transformers import SentenceTransformer\n\
                  model = SentenceTransformer(sys.argv[1], device='cpu')\n\
                  print(json.dumps([model.encode_query([sys.argv[2]])[0].tolist(), model.encode_document([sys.argv[3]])[0].tolist()]))";
    let output = Command::new(python)
        .args(["-c", script, &model_dir.display().to_string(), &text.0, &text.1])
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Vec<Vec<f32>> = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    for ((tower, text), theirs) in [(Tower::Question, text.0), (Tower::Answer, text.1)]
        .into_iter()
        .zip(&theirs)
    {
        let ours = encoder
            .embed(tower, &[&encoder.tokenizer().encode(tower, &text).unwrap()])
            .unwrap();
        assert!(crate::fixture::cosine(&ours, theirs) > 0.999_99, "{tower}");
    }
}

#[test]
fn tensorboard_reads_the_events() {
    let Some(python) = path_of("DYAD_PYTHON", "tensorboard_reads_the_events") else {
        return;
    };
    let check = Command::new(&python)
        .args(["-c", "import tensorboard"])
        .output()
        .unwrap();
    if !check.status.success() {
        println!("tensorboard_reads_the_events: skipped, that Python has no tensorboard");
        return;
    }
    let place = Place::new(&format!("{LEARNING}[training]\nsteps = 10\n"));
    place.trained("out");
    let script = "import sys\nfrom tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n\
                  events = EventAccumulator(sys.argv[1]); events.Reload()\n\
                  print([event.step for event in events.Scalars('train/loss')])";
    let folder = place.path("out/tensorboard").display().to_string();
    let output = Command::new(python).args(["-c", script, &folder]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "[5, 10]",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn evaluate_compares_models_by_paired_tests() {
    let place = Place::new(&format!("{LEARNING}[training]\nsteps = 60\n"));
    place.trained("out");
    let evaluate = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
        command.args([
            "evaluate",
            "--model",
            "out/start",
            "--data",
            "beir",
            "--split",
            "dev",
            "--threads",
            "1",
        ]);
        let output = command.args(more).current_dir(place.path("")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let alone = evaluate(&["--run", "start.run"]);
    assert_eq!(alone.lines().count(), METRICS.len());
    assert_eq!(dyad_corpus::run::read(&place.path("start.run")).unwrap().len(), PAIRS);
    let compared = evaluate(&["--compare", "out/final"]);
    let line = compared.lines().find(|line| line.starts_with("recip_rank")).unwrap();
    let fields: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(fields[1], alone.split_whitespace().nth(1).unwrap());
    assert!(fields[3].parse::<f64>().unwrap() > 0.2, "{line}");
    assert!(
        fields[fields.len() - 2].trim_end_matches(',').parse::<f64>().unwrap() < 0.001,
        "{line}"
    );
}
