//! A file to a [`Config`]. The user's tables are laid over the default's, and a stage's over those, before anything is read:
//! a value stands in one place only, and a key that nothing knows is refused with its path.

use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use super::{Config, Stage, Weights};
use crate::device::Dtype;
use crate::dual::Sharing;
use crate::train::TrainError;

/// Every setting with its default and what it means.
pub const DEFAULT: &str = include_str!("default.toml");

/// Tables that a stage may hold.
const OF_STAGES: [&str; 8] = ["data", "batch", "loss", "optimizer", "schedule", "clipping", "training", "mine"];

impl Config {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<Self, TrainError> {
        let text = fs_err::read_to_string(path)?;
        Self::parse(&text).map_err(|reason| TrainError::Config { path: path.to_owned(), reason })
    }

    /// Reads the text of a file; the error names the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parsed = |text: &str| text.parse::<Table>().map_err(|error| error.to_string());
        let mut run = over(parsed(DEFAULT)?, parsed(text)?);
        let stages = match run.remove("stages") {
            None => vec![Table::from_iter([("name".to_owned(), Value::String("train".into()))])],
            Some(stages) => tables(stages)?,
        };
        let mut common = Table::new();
        for section in OF_STAGES {
            common.extend(run.remove(section).map(|table| (section.to_owned(), table)));
        }
        // Checked by itself first, so that a mistake in it is not told as one of the first stage.
        let mut alone = common.clone();
        alone.insert("name".into(), Value::String("train".into()));
        read::<Stage>(alone, "")?;
        let mut read_stages = Vec::new();
        for (number, stage) in stages.into_iter().enumerate() {
            let stage: Stage = read(over(common.clone(), stage), &format!("stages[{number}]."))?;
            read_stages.push(Value::try_from(&stage).map_err(|error| error.to_string())?);
        }
        run.insert("stages".into(), Value::Array(read_stages));
        let config: Self = read(run, "")?;
        config.check()?;
        Ok(config)
    }

    /// Refuses what the types allow and training does not.
    fn check(&self) -> Result<(), String> {
        let refuse = |setting: &str, expected: &str, got: &dyn std::fmt::Display| {
            Err(format!("`{setting}` must be {expected}, got: {got}"))
        };
        if !matches!(self.dtype, Dtype::F32 | Dtype::Bf16) {
            return refuse("dtype", "f32 or bf16, which hold the range of gradients", &self.dtype);
        }
        let is_drawn = self.model.encoder.is_some() || self.model.weights == Weights::Drawn;
        if is_drawn && self.model.sharing.is_none() {
            return refuse("model.sharing", "given where an encoder is drawn anew, such as \"sde\"", &"nothing");
        }
        if self.model.sharing == Some(Sharing::SDE) && self.model.dim == 0 {
            return refuse("model.dim", "at least 1", &0);
        }
        for (setting, value) in [("checkpoints.every", self.checkpoints.every), ("log.every", self.log.every)] {
            if value == 0 {
                return refuse(setting, "at least 1", &0);
            }
        }
        let mut names = std::collections::BTreeSet::new();
        for stage in &self.stages {
            let of = |setting: &str| format!("stages.{}.{setting}", stage.name);
            let plain = stage.name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
            if stage.name.is_empty() || !plain || !names.insert(&stage.name) {
                return refuse("stages.name", "letters, digits, `-` and `_`, each name once", &stage.name);
            }
            for (setting, value) in [("batch.size", stage.batch.size), ("batch.accumulate", stage.batch.accumulate)] {
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
            let uses = [("loss.distillation", distillation.is_some()), ("mine", stage.mine.is_some())];
            if let Some((table, _)) = uses.iter().find(|(_, used)| *used && stage.batch.negatives == 0) {
                return refuse(
                    &of("batch.negatives"),
                    &format!("at least 1 beside [{table}], which works on them"),
                    &0,
                );
            }
            let weights = [("loss.weight", stage.loss.weight)].into_iter();
            let more = distillation.into_iter().map(|distillation| ("loss.distillation.weight", distillation.weight));
            for (setting, weight) in weights.chain(more) {
                if !(weight.is_finite() && weight >= 0.0) {
                    return refuse(&of(setting), "a number from 0", &weight);
                }
            }
            if let Some(distillation) = distillation
                && !(distillation.temperature.is_finite() && distillation.temperature > 0.0)
            {
                return refuse(&of("loss.distillation.temperature"), "a positive number", &distillation.temperature);
            }
        }
        Ok(())
    }
}

fn tables(stages: Value) -> Result<Vec<Table>, String> {
    let wrong = || "`stages` must be tables, each under [[stages]], and at least one".to_owned();
    let Value::Array(stages) = stages else { return Err(wrong()) };
    let stages: Vec<Table> = stages
        .into_iter()
        .map(|stage| if let Value::Table(stage) = stage { Ok(stage) } else { Err(wrong()) })
        .collect::<Result<_, _>>()?;
    if stages.is_empty() { Err(wrong()) } else { Ok(stages) }
}

/// `upper` over `lower`, key by key. A table of another `kind` takes nothing over.
fn over(mut lower: Table, upper: Table) -> Table {
    for (key, value) in upper {
        let value = match (lower.remove(&key), value) {
            (Some(Value::Table(below)), Value::Table(above))
                if !above.contains_key("kind") || above.get("kind") == below.get("kind") =>
            {
                Value::Table(over(below, above))
            }
            (_, value) => value,
        };
        lower.insert(key, value);
    }
    lower
}

fn read<'de, T: Deserialize<'de>>(table: Table, prefix: &str) -> Result<T, String> {
    serde_path_to_error::deserialize(Value::Table(table)).map_err(|error| {
        let (path, reason) = (error.path().to_string(), error.inner().message().to_owned());
        if path == "." { format!("{prefix}{reason}") } else { format!("`{prefix}{path}`: {reason}") }
    })
}
