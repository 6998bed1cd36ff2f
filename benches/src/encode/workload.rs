//! A workload: which model, which texts in which shapes, which engines. Read from TOML; unknown keys are refused.

use std::path::PathBuf;

use serde::Deserialize;

use crate::harness;

/// Shortest passage: a few words between special tokens.
const MIN_PASSAGE: usize = 8;

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

impl harness::Shape for Shape {
    const OWN: &'static [&'static str] = &["dyad", "dyad-bf16", "dyad-f16", "dyad-int8"];
    const WORKER: &'static str = "encode-worker";
    const ENGINES: &'static [&'static str] = &["dyad", "sentence-transformers", "onnxruntime"];
    const REPEATS: usize = 5;
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
