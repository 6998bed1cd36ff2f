//! Refuses what the types of settings allow and training does not.

use std::collections::BTreeSet;
use std::fmt::Display;

use dyad_corpus::PassageContext;

use super::{Config, EncoderInit, LossConfig, MatryoshkaConfig, Stage, TrainedKind};
use crate::config::Sharing;
use crate::device::Dtype;
use crate::loss::Similarity;

/// The largest rank of an adapter: a weight of more than that many rows and columns learns as a whole for less.
const MOST_RANK: usize = 4096;

/// Refuses settings with what is expected of the first wrong one.
pub(super) fn check(config: &Config) -> Result<(), String> {
    if !matches!(config.dtype, Dtype::F32 | Dtype::Bf16) {
        return refuse("dtype", "f32 or bf16, which hold the range of gradients", &config.dtype);
    }
    let is_random = config.model.encoder.is_some() || config.model.init == EncoderInit::Random;
    if is_random && config.model.sharing.is_none() {
        return refuse(
            "model.sharing",
            "given with a randomly initialised encoder, such as \"sde\"",
            &"nothing",
        );
    }
    check_lora(config, is_random)?;
    if config.model.sharing == Some(Sharing::SDE) && config.model.dim == 0 {
        return refuse("model.dim", "at least 1", &0);
    }
    for (setting, value) in [
        ("checkpoints.every", config.checkpoints.every),
        ("log.every", config.log.every),
    ] {
        if value == 0 {
            return refuse(setting, "at least 1", &0);
        }
    }
    if config.evaluation.depth == 0 {
        return refuse("evaluation.depth", "at least 1", &0);
    }
    if let Some(context) = config
        .evaluation
        .context
        .filter(|context| context.late_weight().is_some())
    {
        if config.evaluation.documents.is_none() {
            return refuse(
                "evaluation.documents",
                &format!("a file with evaluation.context = \"{context}\""),
                &"none",
            );
        }
        if config.evaluation.similarity != Similarity::Cosine {
            return refuse(
                "evaluation.context",
                "none or title with similarity = \"inner-product\"",
                &context,
            );
        }
    }
    if config.evaluation.dimensions.contains(&0) {
        return refuse("evaluation.dimensions", "sizes of at least 1", &0);
    }
    if config.model.kind == TrainedKind::CrossEncoder {
        check_cross_encoder(config)?;
    } else if config.evaluation.run.is_some() {
        let expected = "absent without type = \"cross-encoder\": two towers search themselves";
        return refuse("evaluation.run", expected, &"a file");
    }
    let mut names = BTreeSet::new();
    for stage in &config.stages {
        let plain = stage
            .name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
        if stage.name.is_empty() || !plain || !names.insert(&stage.name) {
            return refuse(
                "stages.name",
                "letters, digits, `-` and `_`, each name once",
                &stage.name,
            );
        }
        check_stage(config, stage)?;
    }
    Ok(())
}

/// Refuses adapters that adapt nothing, or what is random.
fn check_lora(config: &Config, is_random: bool) -> Result<(), String> {
    let Some(lora) = &config.model.lora else {
        return Ok(());
    };
    if is_random {
        let expected = "absent with a randomly initialised encoder, all of which has to learn";
        return refuse("model.lora", expected, &"one");
    }
    if lora.rank == 0 || lora.rank > MOST_RANK {
        return refuse("model.lora.rank", &format!("from 1 to {MOST_RANK}"), &lora.rank);
    }
    if !(lora.alpha.is_finite() && lora.alpha > 0.0) {
        return refuse("model.lora.alpha", "a positive number", &lora.alpha);
    }
    Ok(())
}

/// Refuses what only two towers can have.
fn check_cross_encoder(config: &Config) -> Result<(), String> {
    let with = "absent with type = \"cross-encoder\"";
    let model = &config.model;
    let towers = [
        ("model.sharing", model.sharing.is_some()),
        ("model.encoder", model.encoder.is_some()),
        ("model.init", model.init == EncoderInit::Random),
    ];
    if let Some((setting, _)) = towers.iter().find(|(_, given)| *given) {
        return refuse(setting, &format!("{with}, which has no towers to make"), &"one");
    }
    if !config.evaluation.dimensions.is_empty() {
        return refuse(
            "evaluation.dimensions",
            &format!("{with}, which has no vectors"),
            &"some",
        );
    }
    if config.evaluation.data.is_some() && config.evaluation.run.is_none() {
        let how = "`dyad-encoder evaluate --run FILE` writes one";
        let expected = format!(
            "given with evaluation.data and type = \"cross-encoder\", which reranks the hits of another model: {how}"
        );
        return refuse("evaluation.run", &expected, &"none");
    }
    for stage in &config.stages {
        let of = |setting: &str| format!("stages.{}.{setting}", stage.name);
        if stage.batch.negatives == 0 {
            return refuse(
                &of("batch.negatives"),
                "at least 1 with type = \"cross-encoder\", which learns from them alone",
                &0,
            );
        }
        let tables = [
            ("mine", stage.mine.is_some()),
            ("loss.endx", stage.loss.endx.is_some()),
            ("loss.matryoshka", stage.loss.matryoshka.is_some()),
            ("loss.distillation", stage.loss.distillation.is_some()),
            ("loss.learned-temperature", stage.loss.learned_temperature),
        ];
        if let Some((setting, _)) = tables.iter().find(|(_, given)| *given) {
            return refuse(&of(setting), with, &"one");
        }
    }
    Ok(())
}

fn refuse(setting: &str, expected: &str, got: &dyn Display) -> Result<(), String> {
    Err(format!("`{setting}` must be {expected}, got: {got}"))
}

fn check_stage(config: &Config, stage: &Stage) -> Result<(), String> {
    let of = |setting: &str| format!("stages.{}.{setting}", stage.name);
    let batch = &stage.batch;
    for (setting, value) in [("batch.size", batch.size), ("batch.accumulate", batch.accumulate)] {
        if value == 0 {
            return refuse(&of(setting), "at least 1", &0);
        }
    }
    let epochs = stage.training.epochs;
    if !(epochs.is_finite() && epochs > 0.0) {
        return refuse(&of("training.epochs"), "a positive number", &epochs);
    }
    if stage.training.steps == Some(0) {
        return refuse(&of("training.steps"), "at least 1, or absent", &0);
    }
    let distillation = stage.loss.distillation;
    let uses = [
        ("loss.distillation", distillation.is_some()),
        ("mine", stage.mine.is_some()),
    ];
    if let Some((table, _)) = uses.iter().find(|(_, used)| *used && batch.negatives == 0) {
        return refuse(
            &of("batch.negatives"),
            &format!("at least 1 with [{table}], which works on them"),
            &0,
        );
    }
    if batch.size == 1 && batch.negatives == 0 {
        let expected = "at least 2 without batch.negatives: the loss tells an answer from the others of its batch, \
                        and alone it is 0 whatever the model does";
        return refuse(&of("batch.size"), expected, &1);
    }
    if distillation.is_some() && stage.mine.is_some() {
        let expected = "absent with [loss.distillation]: what is mined has no score of the teacher, and its cosines are of \
                        another scale. Mine first (`dyad-encoder mine`), have the teacher score that file, and train on it";
        return refuse(&of("mine"), expected, &"both");
    }
    let weights = [("loss.weight", stage.loss.weight)].into_iter();
    let more = distillation
        .into_iter()
        .map(|distillation| ("loss.distillation.weight", distillation.weight));
    for (setting, weight) in weights.chain(more) {
        if !(weight.is_finite() && weight >= 0.0) {
            return refuse(&of(setting), "a number from 0", &weight);
        }
    }
    let positive = distillation.into_iter().flat_map(|distillation| {
        [
            ("loss.distillation.temperature", distillation.temperature),
            ("loss.distillation.scale", distillation.scale),
        ]
    });
    for (setting, value) in positive {
        if !(value.is_finite() && value > 0.0) {
            return refuse(&of(setting), "a positive number", &value);
        }
    }
    check_context(config, stage, &of)?;
    if let Some(matryoshka) = &stage.loss.matryoshka {
        check_matryoshka(matryoshka, &of)?;
    }
    if stage.loss.endx.is_some() {
        check_endx(&stage.loss, &of)
    } else {
        Ok(())
    }
}

/// Refuses sizes that no vector has, and weights that are not theirs.
fn check_matryoshka(matryoshka: &MatryoshkaConfig, of: &dyn Fn(&str) -> String) -> Result<(), String> {
    let MatryoshkaConfig {
        dims,
        weights,
        dims_per_step,
    } = matryoshka;
    let given = BTreeSet::from_iter(dims);
    if dims.is_empty() || given.len() < dims.len() || given.contains(&0) {
        return refuse(
            &of("loss.matryoshka.dims"),
            "one size or more, each once and at least 1",
            &format!("{dims:?}"),
        );
    }
    let is_weight = |weight: &f64| weight.is_finite() && *weight >= 0.0;
    let fits =
        weights.len() == dims.len() && weights.iter().all(is_weight) && weights.iter().any(|weight| *weight > 0.0);
    if !weights.is_empty() && !fits {
        let expected = format!(
            "absent, or {} numbers from 0, not all of them 0: one for each of dims",
            dims.len()
        );
        return refuse(&of("loss.matryoshka.weights"), &expected, &format!("{weights:?}"));
    }
    match dims_per_step {
        Some(count) if *count == 0 || *count > dims.len() => {
            let expected = format!("absent, or from 1 to {}, the number of dims", dims.len());
            refuse(&of("loss.matryoshka.dims-per-step"), &expected, count)
        }
        _ => Ok(()),
    }
}

/// Refuses a context that cannot be had, or that something else contradicts.
fn check_context(config: &Config, stage: &Stage, of: &dyn Fn(&str) -> String) -> Result<(), String> {
    let late = stage.data.context.and_then(PassageContext::late_weight);
    if late.is_none() && stage.data.documents.is_some() {
        let got = stage
            .data
            .context
            .map_or_else(|| "none".to_owned(), |context| context.to_string());
        return refuse(
            &of("data.context"),
            "late or title+late with data.documents, which nothing else reads",
            &got,
        );
    }
    let Some(context) = stage.data.context else {
        return Ok(());
    };
    if context.has_title() && !stage.data.titles {
        return refuse(&of("data.context"), "none or late with data.titles = false", &context);
    }
    if late.is_none() {
        return Ok(());
    }
    if stage.data.documents.is_none() {
        return refuse(
            &of("data.documents"),
            &format!("a file with data.context = \"{context}\""),
            &"none",
        );
    }
    let without = [
        (
            "type = \"cross-encoder\", which reads a passage with its question",
            config.model.kind == TrainedKind::CrossEncoder,
        ),
        (
            "[loss.endx], whose cross encoder reads answers by themselves",
            stage.loss.endx.is_some(),
        ),
        (
            "loss.similarity = \"inner-product\", whose vectors have any length",
            stage.loss.similarity != Similarity::Cosine,
        ),
    ];
    match without.iter().find(|(_, is)| *is) {
        Some((other, _)) => refuse(&of("data.context"), &format!("none or title with {other}"), &context),
        None => Ok(()),
    }
}

/// Most that the terms within questions and within answers may weigh, where these are not near themselves alone.
const MOST_WITHIN: f64 = 100.0;

/// The temperature of the dual loss is that of the cross encoder's and of the kernels: were it learned, it would be by
/// the dual loss alone.
fn check_endx(loss: &LossConfig, of: &dyn Fn(&str) -> String) -> Result<(), String> {
    if loss.learned_temperature {
        let expected = "false with [loss.endx], whose geometry terms compare distributions of one temperature";
        return refuse(&of("loss.learned-temperature"), expected, &true);
    }
    let as_the_paper = loss.similarity == Similarity::InnerProduct && (loss.temperature - 1.0).abs() < f64::EPSILON;
    let weights = loss.endx.map(|endx| endx.weights).unwrap_or_default();
    for (setting, weight) in [
        ("loss.endx.weights.q-q", weights.q_q.to),
        ("loss.endx.weights.a-a", weights.a_a.to),
    ] {
        if weight > MOST_WITHIN && !as_the_paper {
            let expected = "at most 100 but with similarity = \"inner-product\" and temperature = 1.0, for which the paper's 1e4 is; \
                            about 0.5 does over a temperature such as 0.05";
            return refuse(&of(setting), expected, &weight);
        }
    }
    Ok(())
}
