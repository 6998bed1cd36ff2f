//! A workload: which model, which pairs in which batches, which engines. Read from TOML; unknown keys are refused.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::harness::{Error, Result, find, plain_name};

/// Engines of a workload that names none.
const ENGINES: [&str; 3] = ["dyad", "sentence-transformers", "sentence-transformers-no-dropout"];

/// What one run measures. `benches/workloads/README.md` says what every key means.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name in records.
    pub name: String,
    /// Directory of the model.
    pub model: PathBuf,
    /// Timed passes.
    #[serde(default = "defaults::repeats")]
    pub repeats: usize,
    /// Threads of every engine; 0: as many as the machine has.
    #[serde(default)]
    pub threads: usize,
    /// Of AdamW; constant.
    #[serde(default = "defaults::learning_rate")]
    pub learning_rate: f64,
    /// What cosines are divided by.
    #[serde(default = "defaults::temperature")]
    pub temperature: f64,
    /// Engines measured where the command names none.
    #[serde(default = "defaults::engines")]
    pub engines: Vec<String>,
    /// Sets of batches.
    #[serde(rename = "shape")]
    pub shapes: Vec<Shape>,
}

/// Some batches, a step with each of which is a pass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Name in records.
    pub name: String,
    /// Examples of any form that is trained on.
    pub pairs: PathBuf,
    /// Pairs of a batch.
    pub batch: usize,
    /// Batches of a pass.
    pub batches: usize,
}

mod defaults {
    //! Values of keys that a workload does not name.

    pub(super) fn repeats() -> usize {
        7
    }
    pub(super) fn learning_rate() -> f64 {
        5e-5
    }
    pub(super) fn temperature() -> f64 {
        0.05
    }
    pub(super) fn engines() -> Vec<String> {
        super::ENGINES.map(str::to_owned).to_vec()
    }
}

impl Workload {
    /// Reads and checks a workload. Relative paths of pairs are looked for beside the file, then under `data_dir`; a relative
    /// model directory beside the file, then where the command was given. `model` stands in for the workload's.
    pub fn read(path: &Path, data_dir: Option<&Path>, model: Option<&Path>) -> Result<Self> {
        let text = fs_err::read_to_string(path)?;
        let fail = |problem: String| Error::Workload { path: path.to_owned(), problem };
        let mut workload: Self = toml::from_str(&text).map_err(|error| fail(error.to_string()))?;
        workload.check().map_err(fail)?;
        let beside = path.parent().unwrap_or(Path::new(""));
        let hint = if data_dir.is_none() { ". DYAD_DATA (or --data) may name another folder to look in" } else { "" };
        for shape in &mut workload.shapes {
            shape.pairs = find(&shape.pairs, beside, data_dir)
                .map_err(|problem| fail(format!("`shape.{}.pairs`: no such file: {problem}{hint}", shape.name)))?;
        }
        let (model, beside) = model.map_or((workload.model.as_path(), beside), |model| (model, Path::new("")));
        workload.model = find(model, beside, Some(Path::new(""))).map_err(|problem| {
            fail(format!("`model`: no such directory: {problem}. `deploy/model.sh NAME DIR` fetches one"))
        })?;
        Ok(workload)
    }

    /// Keeps only the named shapes, in the workload's order.
    pub fn keep_shapes(&mut self, names: &[String]) -> std::result::Result<(), String> {
        if let Some(unknown) = names.iter().find(|name| self.shapes.iter().all(|shape| shape.name != **name)) {
            let known: Vec<&str> = self.shapes.iter().map(|shape| shape.name.as_str()).collect();
            return Err(format!("expected shapes of the workload ({}), got `{unknown}`", known.join(", ")));
        }
        if !names.is_empty() {
            self.shapes.retain(|shape| names.contains(&shape.name));
        }
        Ok(())
    }

    fn check(&self) -> std::result::Result<(), String> {
        plain_name("name", &self.name)?;
        if self.repeats == 0 {
            return Err("`repeats`: expected at least 1, got 0".to_owned());
        }
        if self.shapes.is_empty() {
            return Err("`shape`: expected at least one, got none".to_owned());
        }
        for (name, value) in [("learning_rate", self.learning_rate), ("temperature", self.temperature)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("`{name}`: expected a number above 0, got {value}"));
            }
        }
        for (at, shape) in self.shapes.iter().enumerate() {
            plain_name("shape.name", &shape.name)?;
            if self.shapes.iter().take(at).any(|other| other.name == shape.name) {
                return Err(format!("`shape.name`: expected a name for each shape, got `{}` twice", shape.name));
            }
            if shape.batch < 2 || shape.batches == 0 {
                let (name, Shape { batch, batches, .. }) = (&shape.name, shape);
                return Err(format!("`shape.{name}`: expected batches of 2 pairs at least, got {batches} of {batch}"));
            }
        }
        Ok(())
    }
}
