//! Vectors of several sizes: trained by the loss of all of them, measured by each.

use std::process::Command;

use dyad_encoder::Tower;
use dyad_encoder::loss::Similarity;
use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::train::{Config, Evaluator, METRICS};
use serde_json::Value;

use super::fixture::Place;
use super::run::{LEARNING, metrics};
use crate::fixture::open;

/// Sizes of the vectors of the models that a [`Place`] trains, and of their beginnings.
const DIM: usize = 16;
const CUT: usize = 3;

fn settings(matryoshka: &str) -> String {
    format!(
        "{LEARNING}[training]\nsteps = 80\n[evaluation]\ndata = \"beir\"\nevery = 40\ndimensions = [{CUT}]\n{matryoshka}"
    )
}

#[test]
fn sizes_that_are_named_learn_and_are_measured() {
    let place = Place::new(&settings(""));
    place.trained("whole");
    let sizes = format!("[loss.matryoshka]\ndims = [{DIM}, {CUT}]\nweights = [1.0, 2.0]\n");
    place.settings(&settings(&sizes));
    place.trained("both");
    let name = format!("recip_rank-of-{CUT}-dimensions");
    let cut = |out: &str| -> f64 {
        let last: Value = metrics(&place, out, "evaluation").pop().unwrap();
        last[&name].as_f64().unwrap()
    };
    assert!(cut("both") > cut("whole") + 0.1, "{} {}", cut("both"), cut("whole"));

    // The same as a model of that size has, and as `evaluate` prints.
    let model = open(&place.path("both/final"));
    let evaluator = Evaluator::open(&place.path("beir"), "dev", &model).unwrap();
    let embed = |tower: Tower, texts: &[Tokens]| model.embed_all(tower, texts, Budget::CPU).map(Some);
    let whole = evaluator.embed(&embed, DIM).unwrap().unwrap();
    let vectors = whole.cut(CUT, Similarity::Cosine).unwrap();
    let run = evaluator.search_vectors(&vectors, tch::Device::Cpu).unwrap();
    let expected = evaluator.measure(&run).mean(METRICS[0]).unwrap();
    assert!((cut("both") - expected).abs() < 1e-3, "{} {expected}", cut("both"));
    let message = whole.cut(DIM + 1, Similarity::Cosine).unwrap_err().to_string();
    assert!(message.contains("from 1 to 16"), "{message}");
    let output = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"))
        .args(["evaluate", "--data", "beir", "--split", "dev", "--model", "both/final"])
        .args(["--dimensions", "8,3", "--threads", "1"])
        .current_dir(place.path("."))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let row: Vec<&str> = said.lines().nth(1).unwrap().split_whitespace().collect();
    let sizes: Vec<&str> = said.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(sizes, ["dimensions", "all", "8", "3"]);
    assert_eq!(
        (row[0], row[3]),
        ("recip_rank", format!("{expected:.4}").as_str()),
        "{said}"
    );
}

#[test]
fn sizes_that_no_vector_has_are_refused() {
    let of_model = |dims: &str| format!("{LEARNING}[training]\nsteps = 1\n[loss.matryoshka]\ndims = {dims}\n");
    let place = Place::new(&of_model("[17, 4]"));
    let message = place.refusal("out");
    assert!(
        message.contains("loss.matryoshka.dims") && message.contains("at most 16"),
        "{message}"
    );
    for (settings, expected) in [
        ("dims = []", "one size or more"),
        ("dims = [4, 4]", "each once"),
        ("dims = [4, 0]", "at least 1"),
        ("dims = [4, 2]\nweights = [1.0]", "or 2 numbers from 0"),
        ("dims = [4, 2]\nweights = [0.0, 0.0]", "not all of them 0"),
        ("dims = [4, 2]\ndims-per-step = 3", "from 1 to 2"),
    ] {
        let message = Config::parse(&format!("[loss.matryoshka]\n{settings}\n")).unwrap_err();
        assert!(message.contains(expected), "{settings}: {message}");
    }
}
