//! Whole runs: evaluation, the best model, early stop.

use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::train::{Evaluator, METRICS};
use dyad_encoder::{Model, Tower};
use serde_json::Value;

use super::fixture::{PAIRS, Place, weights};
use crate::fixture::open;

pub(super) fn metrics(place: &Place, out: &str, what: &str) -> Vec<Value> {
    let text = fs_err::read_to_string(place.path(out).join("metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["what"] == what).collect()
}

pub(super) fn evaluate(place: &Place, model: &str) -> f64 {
    let encoder: Model = open(&place.path(model));
    let evaluator = Evaluator::open(&place.path("beir"), "dev", &encoder).unwrap();
    assert_eq!(evaluator.size(), (PAIRS, PAIRS));
    let embed = |tower: Tower, texts: &[Tokens]| encoder.embed_all(tower, texts, Budget::CPU).map(Some);
    let run = evaluator
        .search(&embed, encoder.info().dim, tch::Device::Cpu)
        .unwrap()
        .unwrap();
    evaluator.measure(&run).mean(METRICS[0]).unwrap()
}

pub(super) const LEARNING: &str =
    "[batch]\nsize = 32\n[optimizer]\nkind = \"adamw\"\nlearning-rate = 0.02\n[log]\nevery = 5\n";

#[test]
fn the_best_model_is_the_one_that_evaluation_finds() {
    // Far too high a rate after a good start: the last model is worse than the best.
    let settings = "[batch]\nsize = 32\n[optimizer]\nkind = \"adamw\"\nlearning-rate = 0.3\n[schedule]\nkind = \"linear\"\nwarm-up = 120\n\
                    [clipping]\nmax-norm = 0.0\n[training]\nsteps = 120\n[evaluation]\ndata = \"beir\"\nevery = 10\n[log]\nevery = 5\n";
    let place = Place::new(settings);
    let said = place.trained("out");
    let evaluations = metrics(&place, "out", "evaluation");
    assert_eq!(evaluations.len(), 12);
    let value = |line: &Value| line["recip_rank"].as_f64().unwrap();
    let best = evaluations.iter().map(value).fold(0.0, f64::max);
    assert!((evaluate(&place, "out/best") - best).abs() < 1e-6, "{said}");
    // Its vectors have run together: two may swap their ranks by the rounding of other operators.
    let last = evaluate(&place, "out/final");
    assert!(
        (last - value(&evaluations[11])).abs() < 1e-3,
        "{last} {}",
        value(&evaluations[11])
    );
    assert!(
        best > value(&evaluations[11]) + 0.05,
        "{best} {}",
        value(&evaluations[11])
    );
    assert!(said.contains(&format!("best recip_rank {best:.4}")), "{said}");
    // Measured once before the first step, and told at the end.
    let before = metrics(&place, "out", "before");
    assert_eq!((before.len(), before[0]["step"].as_u64()), (1, Some(0)));
    assert!((evaluate(&place, "out/start") - value(&before[0])).abs() < 1e-6);
    assert!(
        said.contains(&format!("(before training {:.4})", value(&before[0]))),
        "{said}"
    );
    let lines = metrics(&place, "out", "train");
    assert_eq!(lines.len(), 24);
    for field in [
        "loss",
        "rate",
        "norm",
        "examples-per-second",
        "tokens-per-second",
        "epoch",
        "temperature",
    ] {
        assert!(lines[0][field].is_number(), "{field}");
    }
    assert_eq!(fs_err::read_dir(place.path("out/tensorboard")).unwrap().count(), 1);

    // The same with patience ends early, with the same best model.
    place.settings(&settings.replace("every = 10", "every = 10\npatience = 2"));
    let said = place.trained("patient");
    let stopped = metrics(&place, "patient", "evaluation");
    assert!(stopped.len() < 12, "{said}");
    assert_eq!(
        stopped.last().unwrap()["step"].as_u64().unwrap(),
        10 * stopped.len() as u64
    );
    assert!(said.contains(&format!("{} steps", 10 * stopped.len())), "{said}");
    // It ends with the best weights, also where it was ended between the last step and the final model.
    let best = weights(&place.path("patient/best"));
    assert!(weights(&place.path("patient/final")) == best, "not the best weights");
    assert!(best == weights(&place.path("out/best")));
    fs_err::remove_dir_all(place.path("patient/final")).unwrap();
    place.trained("patient");
    assert!(
        weights(&place.path("patient/final")) == best,
        "not the best weights once more"
    );
    // So does the next stage, whose rate here changes nothing, begin with them.
    let patient = settings.replace("every = 10", "every = 10\npatience = 2");
    let stages = "[[stages]]\nname = \"one\"\n[[stages]]\nname = \"two\"\ntraining = { steps = 1 }\noptimizer = { learning-rate = 1e-30 }\n";
    place.settings(&format!("{patient}{stages}"));
    place.trained("staged");
    assert!(
        weights(&place.path("staged/final")) == best,
        "the next stage began from others"
    );
}

#[test]
fn a_model_that_got_worse_is_told() {
    let place = Place::new(&format!("{LEARNING}[training]\nsteps = 60\n"));
    place.trained("out");
    let settings = format!(
        "threads = 1\n[model]\npath = \"out/final\"\n[data]\npaths = [\"pairs.jsonl\"]\n[training]\nsteps = 10\n\
         [evaluation]\ndata = \"beir\"\nevery = 5\n{}",
        LEARNING.replace("0.02", "3.0")
    );
    fs_err::write(place.path("settings.toml"), settings).unwrap();
    let output = place.train("worse").output().unwrap();
    let [said, logged] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let before = evaluate(&place, "out/final");
    let expected = format!("(before training {before:.4}, which is better: training made it worse)");
    assert!(said.contains(&expected), "{said}");
    assert!(
        logged.contains("no model of this run is better than the one that it began from"),
        "{logged}"
    );
    // Where two towers are made, the model that they are made from is what they are held to.
    let text = fs_err::read_to_string(place.path("settings.toml")).unwrap();
    let text = text.replace("from =", "sharing = \"sde\"\ndim = 4\nfrom =");
    fs_err::write(place.path("settings.toml"), text).unwrap();
    let said = place.trained("made");
    assert!(said.contains(&format!("(before training {before:.4}")), "{said}");
    assert!(said.contains("nothing to do") || place.trained("made").contains(&format!("(before training {before:.4}")));
}

/// As a power loss may leave a model that an earlier release has written.
#[test]
fn a_torn_final_is_written_again() {
    let place = Place::new(&format!("{LEARNING}[training]\nsteps = 5\n"));
    place.trained("out");
    let (model_dir, whole) = (place.path("out/final"), weights(&place.path("out/final")));
    let (name, content) = whole.iter().max_by_key(|(_, content)| content.len()).unwrap().clone();
    let mut flipped = content.clone();
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    let tears: [&dyn Fn(); 4] = [
        &|| fs_err::remove_file(model_dir.join("dyad.json")).unwrap(),
        &|| fs_err::write(model_dir.join("dyad.json"), "").unwrap(),
        &|| fs_err::write(model_dir.join(&name), &content[..content.len() / 2]).unwrap(),
        &|| fs_err::write(model_dir.join(&name), &flipped).unwrap(),
    ];
    for (number, tear) in tears.iter().enumerate() {
        tear();
        let said = place.trained("out");
        assert!(said.starts_with("trained 5 steps"), "{number}: {said}");
        assert!(weights(&model_dir) == whole, "{number}");
        assert!(place.trained("out").starts_with("nothing to do"), "{number}");
    }
    // So is a initial model, which nothing else would notice to be without its ties.
    fs_err::remove_file(place.path("out/start/dyad.json")).unwrap();
    fs_err::remove_dir_all(&model_dir).unwrap();
    place.trained("out");
    assert!(weights(&model_dir) == whole && place.path("out/start/dyad.json").exists());
}

#[test]
fn the_criterion_is_the_metric_that_was_asked_for() {
    for metric in ["mrr", "r@1", "ndcg@10"] {
        let settings = format!(
            "{LEARNING}[training]\nsteps = 30\n[evaluation]\ndata = \"beir\"\nevery = 10\nmetric = \"{metric}\"\n"
        );
        let place = Place::new(&settings);
        let said = place.trained("out");
        let best = said.lines().find_map(|line| line.strip_prefix("best ")).unwrap();
        let (name, rest) = best.split_once(' ').unwrap();
        let expected = [("mrr", "recip_rank"), ("r@1", "recall_1"), ("ndcg@10", "ndcg_cut_10")];
        assert!(expected.contains(&(metric, name)), "{metric}: {best}");
        let values = metrics(&place, "out", "evaluation");
        let most = values
            .iter()
            .map(|line| line[name].as_f64().unwrap())
            .fold(0.0, f64::max);
        assert!(rest.starts_with(&format!("{most:.4} ")), "{metric}: {best}, {most}");
    }
}
