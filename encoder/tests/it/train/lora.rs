//! Low-rank adapters: what they learn, what stays, and that the models of a run have them merged.

use std::collections::BTreeMap;
use std::path::Path;

use dyad_encoder::data::{Last, Sampler, SamplerOptions, collate};
use dyad_encoder::model::{LoraSettings, Model};
use dyad_encoder::train::{Length, TrainingStep};
use dyad_encoder::{Compute, Tower};
use tch::{Kind, Tensor};

use super::fixture::{PAIRS, Place, model_dir, one_thread, pairs, precision, stage, weights};
use crate::fixture::{embed, open, path_of, tiny, worst};

const RANK: usize = 3;
const STEPS: u64 = 1500;

fn settings(targets: &[&str]) -> LoraSettings {
    LoraSettings {
        rank: RANK,
        alpha: 6.0,
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
    }
}

/// All parameters of a model by name.
fn tensors(model: &Path) -> BTreeMap<String, Tensor> {
    let learned = Model::open_for_training(model, &Compute::default()).unwrap();
    let parameters = learned.parameters().iter();
    parameters
        .map(|parameter| (parameter.name.clone(), parameter.tensor.detach().to_kind(Kind::Double)))
        .collect()
}

/// Trains adapters over a model until this share of the 64 answers is found. The merged model gives the vectors that it
/// gave while it was trained; the parameters of the model before and after.
fn learned(name: &str, directory: &Path, targets: &[&str], (rate, share): (f64, f64)) -> [BTreeMap<String, Tensor>; 2] {
    let model = Model::open_for_adapters(directory, &one_thread(), &settings(targets), 7).unwrap();
    let options = SamplerOptions {
        seed: 3,
        batch: PAIRS,
        negatives: 0,
        last: Last::Drop,
    };
    let mut sampler = Sampler::new(pairs(&model), options).unwrap();
    let toml = format!("[optimizer]\nkind = \"adamw\"\nlearning-rate = {rate}\n[schedule]\nkind = \"constant\"\n");
    let length = Length {
        steps: STEPS,
        batches: sampler.batches(),
    };
    let texts: Vec<String> = (0..PAIRS).map(|number| super::fixture::pair(number).1).collect();
    let before = embed(&open(directory), Tower::Answer, &texts);
    let mut step = TrainingStep::new(model, directory, &stage(&toml), &one_thread(), length).unwrap();
    let first = embed(step.model(), Tower::Answer, &texts);
    assert!(worst(&before, &first) > 0.999_999, "{name}: it begins as another model");
    while precision(step.model()) < share {
        assert!(step.steps_taken() < STEPS, "{name}: {}", precision(step.model()));
        for _ in 0..10 {
            step.run(&collate(&mut sampler)).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let merged = folder.path().join("merged");
    step.model().write(directory, &merged).unwrap();
    let trained = embed(step.model(), Tower::Answer, &texts);
    let after = embed(&open(&merged), Tower::Answer, &texts);
    assert!(
        worst(&trained, &after) > 0.999_99,
        "{name}: {}",
        worst(&trained, &after)
    );
    assert!(worst(&before, &after) < 0.99, "{name}: nothing was learned");
    [tensors(directory), tensors(&merged)]
}

/// The rank of what was added to each weight that has changed.
fn ranks([before, after]: &[BTreeMap<String, Tensor>; 2]) -> BTreeMap<String, i64> {
    assert!(before.keys().eq(after.keys()));
    let changed = before.iter().filter(|(name, tensor)| after[*name] != **tensor);
    let rank = |(name, tensor): (&String, &Tensor)| {
        let added = &after[name] - tensor;
        let limit = Tensor::from(1e-4 * added.abs().max().double_value(&[]));
        let rank = match added.dim() {
            2 => added.linalg_matrix_rank_tol_tensor(&limit, false).int64_value(&[]),
            _ => i64::MAX,
        };
        (name.clone(), rank)
    };
    changed.map(rank).collect()
}

#[test]
fn maps_change_by_their_rank_and_nothing_else_of_a_transformer_does() {
    let (_folder, directory) = model_dir("classic-mean", "ade-spl", 10);
    let all = ranks(&learned("all-linear", &directory, &["all-linear"], (0.02, 1.0)));
    let (projection, maps): (Vec<_>, Vec<_>) = all.iter().partition(|(name, _)| name.contains("Dense"));
    assert!(!projection.is_empty(), "what follows the transformer learns as a whole");
    // Two towers of two layers with six maps each.
    assert_eq!(maps.len(), 24, "{all:?}");
    assert!(
        maps.iter()
            .all(|(name, rank)| **rank <= RANK as i64 && name.ends_with(".weight")),
        "{all:?}"
    );

    let some = ranks(&learned("some", &directory, &["self.query", "value"], (0.02, 0.4)));
    let maps: Vec<&String> = some.keys().filter(|name| !name.contains("Dense")).collect();
    assert_eq!(maps.len(), 8, "{some:?}");
    assert!(
        maps.iter().all(|name| name.contains("query") || name.contains("value")),
        "{some:?}"
    );
}

#[test]
fn tied_towers_share_their_adapters() {
    let (_folder, directory) = model_dir("classic-mean", "sde", 10);
    let found = ranks(&learned("sde", &directory, &["all-linear"], (0.02, 1.0)));
    assert_eq!(
        found.keys().filter(|name| !name.contains("Dense")).count(),
        12,
        "{found:?}"
    );
}

#[test]
fn encoders_with_rotary_positions_take_adapters() {
    let Some(all) = path_of("DYAD_ST_CHECKPOINTS", "encoders_with_rotary_positions_take_adapters") else {
        return;
    };
    for (name, targets) in [("modernbert", ["Wqkv", "mlp.Wi"]), ("qwen3", ["q_proj", "v_proj"])] {
        let found = ranks(&learned(name, &all.join(name), &targets, (0.01, 1.0)));
        assert_eq!(found.len(), 8, "{name}: {found:?}");
        assert!(found.values().all(|rank| *rank <= RANK as i64), "{name}: {found:?}");
    }
}

#[test]
fn names_that_no_map_has_are_refused() {
    let message = Model::open_for_adapters(&tiny("plain"), &one_thread(), &settings(&["c_attn"]), 7)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("model.lora.targets") && message.contains("c_attn"),
        "{message}"
    );
}

#[test]
fn a_killed_run_ends_with_the_same_weights() {
    let place = Place::new("");
    let model = tiny("classic-mean");
    let settings = |lora: &str, steps: u64| {
        format!(
            "threads = 1\n[model]\npath = {model:?}\nsharing = \"ade\"\ndim = 16\n{lora}[data]\npaths = [\"pairs.jsonl\"]\n\
             [batch]\nsize = 16\n[training]\nsteps = {steps}\n[schedule]\nkind = \"constant\"\n[checkpoints]\nevery = 5\n"
        )
    };
    let write = |text: String| fs_err::write(place.path("settings.toml"), text).unwrap();
    let lora = "[model.lora]\nrank = 2\n";
    write(settings(lora, 20));
    place.trained("whole");
    let mut child = place.train("killed").spawn().unwrap();
    let checkpoint = place.path("killed/checkpoints/step-00000005");
    while !checkpoint.exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // SIGKILL.
    let _ = child.kill();
    child.wait().unwrap();
    place.trained("killed");
    let whole = weights(&place.path("whole/final"));
    assert!(whole == weights(&place.path("killed/final")), "other weights");
    assert!(whole != weights(&place.path("whole/start")), "nothing was learned");

    write(settings("[model.lora]\nrank = 4\n", 20));
    let message = place.refusal("whole");
    assert!(message.contains("lora.rank"), "{message}");
    for (wrong, expected) in [
        ("[model.lora]\nrank = 0\n", "model.lora.rank"),
        ("[model.lora]\nrank = 2\nalpha = -1.0\n", "model.lora.alpha"),
        ("[model.lora]\nrank = 2\ndropout = 0.1\n", "dropout"),
        ("encoder = \"lstm\"\n[model.lora]\nrank = 2\n", "model.lora"),
    ] {
        write(settings(wrong, 20));
        let message = place.refusal("refused");
        assert!(message.contains(expected), "{message}");
    }
}
