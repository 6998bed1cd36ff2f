//! A workload: which model, which texts in which shapes, which engines. Read from TOML; unknown keys are refused.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::harness::{Error, Result, find, plain_name};

/// Engines of a workload that names none.
const ENGINES: [&str; 3] = ["dyad", "sentence-transformers", "onnxruntime"];
/// Shortest passage: a few words between special tokens.
const MIN_PASSAGE: usize = 8;

/// What one run measures. `benches/workloads/README.md` says what every key means.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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
    /// Engines measured where the command names none.
    #[serde(default = "defaults::engines")]
    pub engines: Vec<String>,
    /// Sets of texts.
    #[serde(rename = "shape")]
    pub shapes: Vec<Shape>,
}

/// One set of texts, handed to every engine in one call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Name in records.
    pub name: String,
    /// Passages of exactly so many tokens, special tokens counted; texts as they are where absent.
    pub tokens: Option<usize>,
    /// Where the texts come from.
    pub texts: Vec<TextSource>,
}

/// A corpus file or a BEIR folder, and how many texts are taken from it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextSource {
    /// The file or folder.
    pub path: PathBuf,
    /// Texts or passages, evenly spaced over the file.
    pub count: usize,
}

mod defaults {
    //! Values of keys that a workload does not name.

    pub(super) fn repeats() -> usize {
        5
    }
    pub(super) fn engines() -> Vec<String> {
        super::ENGINES.map(str::to_owned).to_vec()
    }
}

impl Workload {
    /// Reads and checks a workload. Relative text paths are looked for beside the file, then under `data_dir`; a relative
    /// model directory beside the file, then where the command was given. `model` stands in for the workload's.
    pub fn read(path: &Path, data_dir: Option<&Path>, model: Option<&Path>) -> Result<Self> {
        let text = fs_err::read_to_string(path)?;
        let fail = |problem: String| Error::Workload { path: path.to_owned(), problem };
        let mut workload: Self = toml::from_str(&text).map_err(|error| fail(error.to_string()))?;
        workload.check().map_err(fail)?;
        let beside = path.parent().unwrap_or(Path::new(""));
        for shape in &mut workload.shapes {
            for source in &mut shape.texts {
                source.path = find(&source.path, beside, data_dir).map_err(|problem| {
                    fail(format!("`shape.{}.texts`: no such file: {problem}{}", shape.name, data_hint(data_dir)))
                })?;
            }
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
        for (at, shape) in self.shapes.iter().enumerate() {
            plain_name("shape.name", &shape.name)?;
            if self.shapes.iter().take(at).any(|other| other.name == shape.name) {
                return Err(format!("`shape.name`: expected a name for each shape, got `{}` twice", shape.name));
            }
            if let Some(tokens) = shape.tokens.filter(|&tokens| tokens < MIN_PASSAGE) {
                return Err(format!("`shape.{}.tokens`: expected at least {MIN_PASSAGE}, got {tokens}", shape.name));
            }
            if shape.texts.is_empty() || shape.texts.iter().any(|source| source.count == 0) {
                return Err(format!("`shape.{}.texts`: expected files with a `count` of at least 1", shape.name));
            }
        }
        Ok(())
    }
}

fn data_hint(data_dir: Option<&Path>) -> &'static str {
    if data_dir.is_none() { ". DYAD_DATA (or --data) may name another folder to look in" } else { "" }
}
