//! Runs of several stages: mining between them, ENDX, distillation; and models that begin at random.

use serde_json::Value;
use tch::Tensor;

use super::fixture::{PAIRS, Place, weights};
use super::run::{LEARNING, evaluate, metrics};
use crate::fixture::tiny;

#[test]
fn stages_follow_one_another_and_mine_between() {
    let settings = format!(
        "{LEARNING}[evaluation]\ndata = \"beir\"\nevery = 0\n[[stages]]\nname = \"pretrain\"\ntraining = {{ steps = 60 }}\n\
         [[stages]]\nname = \"tune\"\ntraining = {{ epochs = 5.0 }}\nbatch = {{ negatives = 2, size = 16 }}\n\
         mine = {{ rank-end = 20, count = 2, relative-margin = 1.0 }}\nloss = {{ temperature = 0.1 }}\n"
    );
    let place = Place::new(&settings);
    let said = place.trained("out");
    assert!(said.contains("80 steps"), "60 and five epochs of four: {said}");
    let stages: Vec<_> = metrics(&place, "out", "train")
        .iter()
        .map(|line| line["stage"].clone())
        .collect();
    assert_eq!(
        (stages.len(), &stages[11], &stages[12]),
        (16, &"pretrain".into(), &"tune".into())
    );
    assert_eq!(metrics(&place, "out", "evaluation").len(), 2);
    let mined = fs_err::read_to_string(place.path("out/mined/tune.jsonl")).unwrap();
    assert_eq!(mined.lines().count(), PAIRS);
    let of_line = |line: &str| serde_json::from_str::<Value>(line).unwrap()["negative_passages"].clone();
    assert!(
        mined
            .lines()
            .filter(|line| of_line(line).as_array().unwrap().len() == 2)
            .count()
            > PAIRS / 2
    );
    assert!(!place.path("out/mined/tune.model").exists());
    // Ended between the stages, the run goes on with the second: it mines the same and learns the same.
    let whole = weights(&place.path("out/final"));
    for gone in ["final", "best", "mined", "checkpoints/step-00000080"] {
        fs_err::remove_dir_all(place.path("out").join(gone)).unwrap();
    }
    assert!(place.path("out/checkpoints/step-00000060").exists());
    let said = place.trained("out");
    assert!(said.contains("80 steps"), "{said}");
    assert_eq!(
        fs_err::read_to_string(place.path("out/mined/tune.jsonl")).unwrap(),
        mined
    );
    assert!(weights(&place.path("out/final")) == whole, "other weights");
    assert_eq!(metrics(&place, "out", "evaluation").len(), 2);
}

#[test]
fn stages_of_endx_keep_their_teacher() {
    let stage = |name: &str, heads: usize, rate: f64| {
        format!(
            "[[stages]]\nname = {name:?}\ntraining = {{ steps = 8 }}\noptimizer = {{ kind = \"adamw\", learning-rate = {rate}, weight-decay = 0.0 }}\n\
             loss = {{ endx = {{ cross = {{ heads = {heads}, aggregator = {{ kind = \"mean\" }} }}, weights = {{ q-q = {{ to = 0.5, epochs = 1.0 }}, a-a = {{ to = 0.5, epochs = 1.0 }} }} }} }}\n"
        )
    };
    let of_cross = |place: &Place, step: usize| {
        let path = place.path(&format!("out/checkpoints/step-{step:08}/tensors.safetensors"));
        let tensors = Tensor::read_safetensors(path).unwrap();
        let mut cross: Vec<(String, Tensor)> = tensors
            .into_iter()
            .filter(|(name, _)| name.starts_with("parameter/cross/"))
            .collect();
        cross.sort_by(|left, right| left.0.cmp(&right.0));
        cross
    };
    // The second stage changes nothing that can be seen, so that its branch is where it began.
    for (heads, kept) in [(3, true), (4, false)] {
        let stages = stage("teach", 3, 0.02) + &stage("tune", heads, 1e-30);
        let place = Place::new(&format!(
            "[batch]\nsize = 16\n[checkpoints]\nevery = 100\nkeep = 3\n{stages}"
        ));
        place.trained("out");
        let (taught, begun) = (of_cross(&place, 8), of_cross(&place, 16));
        assert!(taught.len() > 5 && taught.len() == begun.len());
        let same = taught
            .iter()
            .zip(&begun)
            .all(|(left, right)| left.0 == right.0 && left.1.equal(&right.1));
        assert_eq!(same, kept, "{heads} heads");
        // Ended between the stages, it goes on with the branch that the first one has taught.
        let whole = weights(&place.path("out/final"));
        for gone in ["final", "checkpoints/step-00000016"] {
            fs_err::remove_dir_all(place.path("out").join(gone)).unwrap();
        }
        place.trained("out");
        assert!(weights(&place.path("out/final")) == whole, "other weights");
        let again = of_cross(&place, 16);
        assert!(
            begun
                .iter()
                .zip(&again)
                .all(|(left, right)| left.0 == right.0 && left.1.equal(&right.1)),
            "{heads} heads"
        );
    }
}

/// From a teacher's scores alone, without the softmax in the batch.
#[test]
fn a_teacher_is_learned_from() {
    for (kind, positive) in [("kl", 20.0), ("margin-mse", 0.9)] {
        let place = Place::new("");
        place.settings(&format!(
            "[batch]\nsize = 16\nnegatives = 15\n[optimizer]\nkind = \"adamw\"\nlearning-rate = 0.02\n[log]\nevery = 5\n\
             [training]\nsteps = 120\n[loss]\nweight = 0.0\n[loss.distillation]\nkind = \"{kind}\"\n"
        ));
        let line = |number: usize, scored: bool| {
            let (question, answer) = super::fixture::pair(number);
            let others = (1..16).map(|step| super::fixture::pair((number + 4 * step + step % 2) % PAIRS).1);
            let mut line =
                serde_json::json!({"query": question, "positive": answer, "negatives": others.collect::<Vec<_>>()});
            if scored {
                let scores: Vec<f64> = (0..16).map(|place| if place == 0 { positive } else { 0.0 }).collect();
                line["scores"] = serde_json::json!(scores);
            }
            format!("{line}\n")
        };
        fs_err::write(
            place.path("pairs.jsonl"),
            (0..PAIRS).map(|number| line(number, true)).collect::<String>(),
        )
        .unwrap();
        place.trained("out");
        let losses: Vec<f64> = metrics(&place, "out", "train")
            .iter()
            .map(|line| line["loss-distillation"].as_f64().unwrap())
            .collect();
        assert!(losses[losses.len() - 1] < 0.3 * losses[0], "{kind}: {losses:?}");
        let [before, after] = ["out/start", "out/final"].map(|model| evaluate(&place, model));
        assert!(after > before + 0.2, "{kind}: {before} {after}");
        // Without a score there is nothing to learn from.
        fs_err::write(
            place.path("pairs.jsonl"),
            (0..PAIRS).map(|number| line(number, false)).collect::<String>(),
        )
        .unwrap();
        let message = place.refusal("unscored");
        assert!(
            message.contains("scored by a teacher") && message.contains("loss.distillation"),
            "{message}"
        );
    }
}

/// Without any weights: a tokenizer and `config.json` are enough, and the model learns the pairs.
#[test]
fn training_begins_from_nothing() {
    let place = Place::new("");
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        fs_err::create_dir_all(place.path("bare")).unwrap();
        fs_err::copy(tiny("plain").join(name), place.path("bare").join(name)).unwrap();
    }
    let settings = |model: &str| {
        let text = format!(
            "threads = 1\n[model]\npath = \"bare\"\ndim = 16\npooling = \"mean\"\n{model}\n[data]\npaths = [\"pairs.jsonl\"]\n\
             {LEARNING}[training]\nsteps = 120\n[evaluation]\ndata = \"beir\"\nevery = 0\n"
        );
        fs_err::write(place.path("settings.toml"), text).unwrap();
    };
    settings("sharing = \"ade-spl\"\ninit = \"random\"");
    place.trained("out");
    let [before, after] = ["out/start", "out/final"].map(|model| evaluate(&place, model));
    assert!(before < 0.3 && after > 0.9, "{before} {after}");
    // From the seed alone.
    place.trained("again");
    assert!(
        weights(&place.path("out/final")) == weights(&place.path("again/final")),
        "other weights"
    );
    // Pretrained weights are not there.
    settings("sharing = \"ade-spl\"");
    assert!(
        place.refusal("pretrained").contains("safetensors"),
        "{}",
        place.refusal("pretrained")
    );
    settings("init = \"random\"");
    assert!(
        place.refusal("whole").contains("`model.sharing` must be given"),
        "{}",
        place.refusal("whole")
    );
}
