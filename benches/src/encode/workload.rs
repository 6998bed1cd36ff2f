//! A workload: which model, which texts in which shapes, which engines. Read from TOML; unknown keys are refused.

use std::path::PathBuf;

use serde::Deserialize;

use crate::harness::{self, Parts, Shaped};

/// Engines that this binary holds: our encoder in each number type that it may know.
pub(crate) const OWN: [&str; 4] = ["dyad", "dyad-bf16", "dyad-f16", "dyad-int8"];
/// Engines of a workload that names none.
const ENGINES: [&str; 3] = ["dyad", "sentence-transformers", "onnxruntime"];
/// Shortest passage: a few words between special tokens.
const MIN_PASSAGE: usize = 8;

/// What one run measures. `benches/workloads/README.md` says what every key means.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    pub(crate) name: String,
    pub(crate) model: PathBuf,
    #[serde(default = "repeats")]
    pub(crate) repeats: usize,
    #[serde(default)]
    pub(crate) threads: usize,
    #[serde(default = "engines")]
    pub(crate) engines: Vec<String>,
    #[serde(rename = "shape")]
    pub(crate) shapes: Vec<Shape>,
}

/// One set of texts, handed to every engine in one call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub(crate) name: String,
    pub(crate) tokens: Option<usize>,
    pub(crate) texts: Vec<TextSource>,
}

/// A corpus file or a BEIR folder, and how many texts are taken from it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextSource {
    pub(crate) path: PathBuf,
    pub(crate) count: usize,
}

defaults! {
    repeats: usize = 5;
    engines: Vec<String> = ENGINES.map(str::to_owned).to_vec();
}

impl Shaped for Workload {
    type Shape = Shape;
    const OWN: &'static [&'static str] = &OWN;
    const WORKER: &'static str = "encode-worker";

    fn parts(&mut self) -> Parts<'_, Shape> {
        let Self { name, model, repeats, threads, engines, shapes } = self;
        Parts { name, model, repeats, threads: *threads, engines, shapes }
    }
}

impl harness::Shape for Shape {
    const FILES: &'static str = "texts";

    fn name(&self) -> &str {
        &self.name
    }

    fn files(&mut self) -> Vec<&mut PathBuf> {
        self.texts.iter_mut().map(|source| &mut source.path).collect()
    }

    fn check(&self) -> Result<(), String> {
        if let Some(tokens) = self.tokens.filter(|&tokens| tokens < MIN_PASSAGE) {
            return Err(format!("`shape.{}.tokens`: expected at least {MIN_PASSAGE}, got {tokens}", self.name));
        }
        if self.texts.is_empty() || self.texts.iter().any(|source| source.count == 0) {
            return Err(format!("`shape.{}.texts`: expected files with a `count` of at least 1", self.name));
        }
        Ok(())
    }
}
