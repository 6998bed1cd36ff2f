//! Whole runs: evaluation, best model, early stop, stages, mining, and what the models are.

use std::process::Command;

use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::train::{Evaluator, METRICS};
use dyad_encoder::{Model, Tower};
use serde_json::Value;
use tch::Tensor;

use super::fixture::{PAIRS, Place, weights};
use crate::fixture::{open, path_of, tiny};

fn metrics(place: &Place, out: &str, what: &str) -> Vec<Value> {
    let text = fs_err::read_to_string(place.path(out).join("metrics.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["what"] == what).collect()
}

fn evaluate(place: &Place, model: &str) -> f64 {
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

const LEARNING: &str = "[batch]\nsize = 32\n[optimizer]\nkind = \"adamw\"\nlearning-rate = 0.02\n[log]\nevery = 5\n";

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
