//! The settings of a run: what is read, refused and printed.

use serde_json::Value;

use super::read::DEFAULT;
use super::same::first_difference;
use super::*;
use crate::optim::OptimizerSettings;

/// Keys of answers that are read in their documents, which exclude [loss.endx].
const CONTEXT: [&str; 2] = ["context", "documents"];

/// The default with every setting that is commented out, but those of some tables, and some keys: [mine] and
/// [loss.distillation] exclude each other.
fn uncommented(but: &[&str]) -> String {
    let setting = |line: &str| {
        let Some(rest) = line.strip_prefix("# ") else {
            return false;
        };
        let key = rest
            .split(['=', '.', ']'])
            .next()
            .unwrap_or_default()
            .trim()
            .trim_start_matches('[');
        let named = key
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || "-1".contains(letter))
            && !key.is_empty();
        named && key != "run" && !but.contains(&key) && (rest.contains(" = ") || rest.starts_with('['))
    };
    let begins_table = |line: &str, table: &str| {
        let rest = line.strip_prefix("# [").and_then(|rest| rest.strip_prefix(table));
        rest.is_some_and(|rest| rest.starts_with([']', '.']))
    };
    let mut left_out = false;
    let line = |line: &'static str| {
        left_out = !line.is_empty() && (left_out || but.iter().any(|but| begins_table(line, but)));
        if setting(line) && !left_out { &line[2..] } else { line }
    };
    let text = DEFAULT.lines().map(line).collect::<Vec<_>>().join("\n");
    // What is commented out asks for some, and ENDX for its own similarity.
    let text = text.replace("negatives = 0", "negatives = 1");
    if but.contains(&"loss.endx") {
        return text;
    }
    text.replacen("similarity = \"cosine\"", "similarity = \"inner-product\"", 1)
        .replacen("temperature = 0.05", "temperature = 1.0", 1)
}

#[test]
fn what_is_printed_is_the_default() {
    let (nothing, printed) = (Config::parse("").unwrap(), Config::parse(DEFAULT).unwrap());
    assert_eq!(nothing, printed);
    assert_eq!(nothing.stages.len(), 1);
    assert_eq!(
        nothing.stages[0].optimizer,
        OptimizerSettings::AdamW(crate::optim::AdamWSettings::default())
    );
    // Settings that are absent by default are in the text too, and are read as they stand there.
    let all = Config::parse(&uncommented(
        &[&CONTEXT[..], &["loss.distillation", "model.lora"]].concat(),
    ))
    .unwrap();
    assert_eq!(
        all.stages.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>(),
        ["pretrain", "fine-tune"]
    );
    let [pretrain, tune] = &all.stages[..] else { panic!() };
    // The cross-encoder branch is initialised from the seed of the run.
    let mut endx = EndxConfig::default();
    endx.cross.seed = Some(0);
    assert_eq!(pretrain.loss.endx, Some(endx));
    assert_eq!(
        pretrain.mine,
        Some(MineConfig {
            corpus: Some("corpus.jsonl".into()),
            ..MineConfig::default()
        })
    );
    assert_eq!(
        (
            tune.batch.negatives,
            tune.mine.as_ref().unwrap().rank_end,
            tune.training.steps
        ),
        (1, 50, Some(20000))
    );
    let distillation = DistillationConfig {
        kind: DistillationKind::Kl,
        weight: 1.0,
        temperature: 1.0,
        scale: 1.0,
    };
    let distilled = Config::parse(&uncommented(&[&CONTEXT[..], &["mine", "model.lora"]].concat())).unwrap();
    assert!(
        distilled
            .stages
            .iter()
            .all(|stage| stage.loss.distillation == Some(distillation) && stage.mine.is_none())
    );
    let model = &all.model;
    assert_eq!(
        (model.sharing, model.encoder),
        (Some(crate::config::Sharing::SDE), Some(EncoderKind::Lstm))
    );
}

/// Every path to a value.
fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, value)| paths(value, &format!("{path}.{key}"), found)),
        Value::Array(items) => items.iter().for_each(|item| paths(item, path, found)),
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn every_setting_stands_in_the_text() {
    let mut found = Vec::new();
    // Adapters are of a model that has learned something.
    let without_context = |table| [&CONTEXT[..], &[table, "model.lora"]].concat();
    for but in [
        without_context("mine"),
        without_context("loss.distillation"),
        vec!["loss.endx", "loss.distillation", "encoder"],
    ] {
        let all = Config::parse(&uncommented(&but)).unwrap();
        paths(&serde_json::from_str(&all.facts().unwrap()).unwrap(), "", &mut found);
    }
    assert!(found.len() > 70, "{}", found.len());
    assert!(
        CONTEXT
            .iter()
            .all(|key| found.iter().any(|path| path.ends_with(&format!("data.{key}"))))
    );
    for path in found {
        let key = path.rsplit('.').next().unwrap();
        assert!(DEFAULT.contains(&format!("{key} = ")), "{path}");
    }
}

#[test]
fn adafactor_is_printed_with_its_defaults() {
    let line = DEFAULT
        .lines()
        .find_map(|line| line.strip_prefix("# In one line: "))
        .unwrap();
    let config = Config::parse(&format!("optimizer = {line}")).unwrap();
    let default = crate::optim::AdafactorSettings::default();
    assert_eq!(config.stages[0].optimizer, OptimizerSettings::Adafactor(default));
    // Every one of them, but the one that is absent.
    let fields = serde_json::to_value(default).unwrap();
    for (name, value) in fields.as_object().unwrap() {
        assert!(line.contains(&format!("{name} = ")) || value.is_null(), "{name}");
    }
}

#[test]
fn a_gaussian_kernel_is_read_as_printed() {
    let line = DEFAULT.lines().find(|line| line.contains("gaussian")).unwrap();
    let kernel = line.split_once(", or ").unwrap().1.split_once(" with").unwrap().0;
    let config = Config::parse(&format!(
        "{ENDX_LOSS}[loss.endx.geometry]\ndual = {kernel}\ncross-learns = true"
    ))
    .unwrap();
    let endx = config.stages[0].loss.endx.as_ref().unwrap();
    assert_eq!(endx.geometry.dual, crate::loss::Kernel::Gaussian { width: 1.0 });
    assert_eq!(endx.geometry.cross, crate::loss::Kernel::InnerProduct);
    assert!(endx.geometry.cross_learns);
}

#[test]
fn every_schedule_is_read_without_a_warm_up() {
    use crate::optim::Schedule;
    for (name, expected) in [
        ("constant", Schedule::Constant { warm_up: 0 }),
        ("linear", Schedule::Linear { warm_up: 0 }),
        ("inverse-square-root", Schedule::InverseSquareRoot { warm_up: 0 }),
    ] {
        let config = Config::parse(&format!("[schedule]\nkind = \"{name}\"")).unwrap();
        assert_eq!(config.stages[0].schedule, expected);
    }
}

/// The other settings that ENDX requires.
const ENDX_LOSS: &str = "[loss]\nsimilarity = \"inner-product\"\ntemperature = 1.0\n";

#[test]
fn what_the_cross_side_draws_follows_the_run_unless_it_is_told() {
    let seed = |text: &str| {
        Config::parse(&format!("seed = 7\n{ENDX_LOSS}{text}")).unwrap().stages[0]
            .loss
            .endx
            .unwrap()
            .cross
            .seed
    };
    assert_eq!(seed("[loss.endx.cross]\nheads = 4"), Some(7));
    assert_eq!(seed("[loss.endx.cross]\nseed = 3"), Some(3));
}

fn refusal(text: &str) -> String {
    Config::parse(text).unwrap_err()
}

#[test]
fn mistakes_are_named() {
    for (text, expected) in [
        ("sede = 1", "unknown field `sede`"),
        (
            "[lora]\nrank = 8",
            "`data`, `batch`, `loss`, `optimizer`, `schedule`, `clipping`, `training`, `mine`",
        ),
        (
            "[loss]\ntemprature = 1.0",
            "`loss.temprature`: unknown field `temprature`",
        ),
        (
            "[optimizer]\nkind = \"adafactor\"\nbeta2 = 0.9",
            "unknown field `beta2`",
        ),
        ("[optimizer]\nkind = \"sgd\"", "unknown variant `sgd`"),
        ("[loss.endx.weights]\ndaul = 1.0", "unknown field `daul`"),
        (
            "[batch]\nsize = \"many\"",
            "`batch.size`: invalid type: string \"many\"",
        ),
        (
            "[batch]\nsize = 0",
            "`stages.train.batch.size` must be at least 1, got: 0",
        ),
        (
            "[training]\nepochs = -1.0",
            "`stages.train.training.epochs` must be a positive number, got: -1",
        ),
        ("[evaluation]\nmetric = \"map\"", "unknown variant `map`"),
        (
            "[evaluation]\nrun = \"dense.run\"",
            "`evaluation.run` must be absent without type = \"cross-encoder\"",
        ),
        ("[evaluation]\ndepth = 0", "`evaluation.depth` must be at least 1"),
        (
            "[batch]\nnegatives = 1\n[loss.distillation]\nkind = \"margin-mse\"\nscale = 0.0",
            "`stages.train.loss.distillation.scale` must be a positive number, got: 0",
        ),
        ("device = \"gpu\"", "`device`: device must be `cpu`"),
        ("dtype = \"f16\"", "`dtype` must be f32 or bf16"),
        ("[model]\nsharing = \"spl\"", "`ade-spl`"),
        ("[model]\nencoder = \"gru\"", "`model.sharing` must be given"),
        ("[model]\ninit = \"random\"", "`model.sharing` must be given"),
        ("[model]\ninit = \"zero\"", "`model.init`: unknown variant `zero`"),
        (
            "[mine]\nrank-end = 10",
            "`stages.train.batch.negatives` must be at least 1 with [mine], which works on them, got: 0",
        ),
        (
            "[loss.distillation]\nkind = \"kl\"",
            "`stages.train.batch.negatives` must be at least 1 with [loss.distillation]",
        ),
        (
            "[batch]\nsize = 1",
            "`stages.train.batch.size` must be at least 2 without batch.negatives",
        ),
        (
            "[batch]\nnegatives = 1\n[mine]\nrank-end = 10\n[loss.distillation]\nkind = \"kl\"",
            "`stages.train.mine` must be absent with [loss.distillation]",
        ),
        (
            "[loss.endx]",
            "`stages.train.loss.endx.weights.q-q` must be at most 100 but with similarity = \"inner-product\"",
        ),
        (
            "[loss]\nsimilarity = \"inner-product\"\ntemperature = 1.0\nlearned-temperature = true\n[loss.endx]",
            "`stages.train.loss.learned-temperature` must be false with [loss.endx]",
        ),
        (
            "[[stages]]\nname = \"a\"\n[[stages]]\nname = \"a\"",
            "each name once, got: a",
        ),
        (
            "[[stages]]\nname = \"a\"\nsteps = 3",
            "`stages[0].steps`: unknown field `steps`",
        ),
        ("[[stages]]\ndata = { split = \"x\" }", "stages[0].missing field `name`"),
        ("stages = []", "`stages` must be tables"),
        ("[batch", "line 1"),
    ] {
        let message = refusal(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn a_stage_is_laid_over_the_common_tables() {
    let text = "[batch]\nsize = 8\nnegatives = 2\n[optimizer]\nkind = \"adafactor\"\n\
                [[stages]]\nname = \"a\"\nbatch = { size = 4 }\n[[stages]]\nname = \"b\"\nschedule = { kind = \"constant\" }";
    let config = Config::parse(text).unwrap();
    let batches: Vec<_> = config
        .stages
        .iter()
        .map(|stage| (stage.batch.size, stage.batch.negatives))
        .collect();
    assert_eq!(batches, [(4, 2), (8, 2)]);
    assert_eq!(
        config.stages[1].schedule,
        crate::optim::Schedule::Constant { warm_up: 0 }
    );
    assert_eq!(config.stages[0].schedule, crate::optim::Schedule::Linear { warm_up: 0 });
    assert!(matches!(config.stages[0].optimizer, OptimizerSettings::Adafactor(_)));
}

#[test]
fn a_difference_is_named_where_it_matters() {
    let facts = |text: &str| Config::parse(text).unwrap().facts().unwrap();
    let trained = |then: &str, now: &str| first_difference(then, now, RunProgress::Trained);
    let then = facts("");
    assert_eq!(
        trained(&then, &facts("threads = 3\n[checkpoints]\nkeep = 9\n[log]\nevery = 1")),
        None
    );
    let (path, before, now) = trained(&then, &facts("[batch]\nsize = 65")).unwrap();
    assert_eq!(
        (path.as_str(), before.as_str(), now.as_str()),
        ("stages[0].batch.size", "64", "65")
    );
    // Runs that were begun before this setting was there go on.
    assert!(!then.contains("pretrained"));
    let (stored, random) = (
        "[model]\nsharing = \"sde\"",
        "[model]\nsharing = \"sde\"\ninit = \"random\"",
    );
    let (path, _, now) = trained(&facts(stored), &facts(random)).unwrap();
    assert_eq!((path.as_str(), now.as_str()), ("model.init", "\"random\""));
    let (path, ..) = trained(&then, &facts("[training]\nsteps = 3")).unwrap();
    assert_eq!(path, "stages[0].training.steps");
}

/// Before the first checkpoint, what is there depends on some of the settings only.
#[test]
fn what_was_made_decides_which_settings_matter() {
    let facts = |text: &str| {
        Config::parse(&format!("{text}\n[batch]\nnegatives = 1\n[mine]\nrank-end = 10"))
            .unwrap()
            .facts()
            .unwrap()
    };
    let then = facts("");
    for (text, start, mined) in [
        ("seed = 1", true, true),
        ("[model]\ndim = 5", true, true),
        ("dtype = \"bf16\"", false, true),
        ("[data]\nanswer-tokens = 9", false, true),
        ("[loss]\ntemperature = 0.1", false, false),
    ] {
        let differs = |made| first_difference(&then, &facts(text), made).is_some();
        assert_eq!(
            [RunProgress::Start, RunProgress::Mined, RunProgress::Trained].map(differs),
            [start, mined, true],
            "{text}"
        );
    }
    let other = facts("").replace("\"rank-end\":10", "\"rank-end\":11");
    let (path, ..) = first_difference(&then, &other, RunProgress::Mined).unwrap();
    assert_eq!(
        (path.as_str(), first_difference(&then, &other, RunProgress::Start)),
        ("stages[0].mine.rank-end", None)
    );
}
