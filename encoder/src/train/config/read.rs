//! A file to a [`Config`]. The user's tables are merged over the defaults, and a stage's over those, before anything is
//! parsed: a value stands in one place only, and a key that nothing knows is refused with its path.

use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use super::check::check;
use super::{Config, Stage};
use crate::train::TrainError;

/// Every setting with its default and what it means.
pub const DEFAULT: &str = include_str!("default.toml");

/// Tables that a stage may hold.
const OF_STAGES: [&str; 8] = [
    "data",
    "batch",
    "loss",
    "optimizer",
    "schedule",
    "clipping",
    "training",
    "mine",
];

impl Config {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<Self, TrainError> {
        let text = fs_err::read_to_string(path)?;
        Self::parse(&text).map_err(|reason| TrainError::Config {
            path: path.to_owned(),
            reason,
        })
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
        let mut config: Self = read(run, "").map_err(with_tables_of_stages)?;
        check(&config)?;
        for endx in config.stages.iter_mut().filter_map(|stage| stage.loss.endx.as_mut()) {
            endx.cross.seed.get_or_insert(config.seed);
        }
        Ok(config)
    }
}

fn tables(stages: Value) -> Result<Vec<Table>, String> {
    let wrong = || "`stages` must be tables, each under [[stages]], and at least one".to_owned();
    let Value::Array(stages) = stages else {
        return Err(wrong());
    };
    let stages: Vec<Table> = stages
        .into_iter()
        .map(|stage| {
            if let Value::Table(stage) = stage {
                Ok(stage)
            } else {
                Err(wrong())
            }
        })
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

/// A key that nothing knows is told with those that there are: in the file that is those of stages too.
fn with_tables_of_stages(reason: String) -> String {
    let path = reason.split_once(": unknown field").map(|(path, _)| path);
    if path.is_some_and(|path| !path.contains('.')) {
        return format!("{reason}, `{}`", OF_STAGES.join("`, `"));
    }
    reason
}

fn read<'de, T: Deserialize<'de>>(table: Table, prefix: &str) -> Result<T, String> {
    serde_path_to_error::deserialize(Value::Table(table)).map_err(|error| {
        let (path, reason) = (error.path().to_string(), error.inner().message().to_owned());
        if path == "." {
            format!("{prefix}{reason}")
        } else {
            format!("`{prefix}{path}`: {reason}")
        }
    })
}
