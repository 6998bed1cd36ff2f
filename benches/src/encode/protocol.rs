//! A shape of a workload (unknown keys are refused), and what harness and workers say to each other about texts: one
//! JSON object per line, one reply per request. What all protocols share is in `harness/serve.rs`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::harness;

/// Shortest passage: a few words between special tokens.
const MIN_PASSAGE: usize = 8;

/// One set of texts, handed to every engine in one call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncodeShape {
    pub(crate) name: String,
    pub(crate) tokens: Option<usize>,
    /// Questions that a cross encoder scores the texts for, `texts` of each; without them texts are embedded.
    pub(crate) questions: Option<TextSource>,
    pub(crate) texts: Vec<TextSource>,
}

/// One text, or a question and a text that are read together: in JSON a string, or an array of two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum InputText {
    /// A text to be embedded.
    One(String),
    /// A question and a text to be scored.
    Pair(String, String),
}

/// A corpus file or a BEIR folder, and how many texts are taken from it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextSource {
    pub(crate) path: PathBuf,
    pub(crate) count: usize,
}

impl harness::TaskShape for EncodeShape {
    const NAME: &'static str = "encode";
    const OWN: &'static [&'static str] = &["dyad", "dyad-bf16", "dyad-f16", "dyad-int8"];
    const ENGINES: &'static [&'static str] = &["dyad", "sentence-transformers", "onnxruntime"];
    const REPEATS: usize = 5;
    const FILES: &'static str = "texts";

    fn name(&self) -> &str {
        &self.name
    }

    fn files(&mut self) -> Vec<&mut PathBuf> {
        self.texts
            .iter_mut()
            .chain(&mut self.questions)
            .map(|source| &mut source.path)
            .collect()
    }

    fn check(&self) -> Result<(), String> {
        if let Some(tokens) = self.tokens.filter(|&tokens| tokens < MIN_PASSAGE) {
            return Err(format!(
                "`shape.{}.tokens`: expected at least {MIN_PASSAGE}, got {tokens}",
                self.name
            ));
        }
        if self.questions.is_some() && self.tokens.is_some() {
            return Err(format!(
                "`shape.{}.tokens`: expected none with `questions`: pairs are as long as they are",
                self.name
            ));
        }
        if self.questions.as_ref().is_some_and(|source| source.count == 0) {
            return Err(format!(
                "`shape.{}.questions`: expected a file with a `count` of at least 1",
                self.name
            ));
        }
        if self.texts.is_empty() || self.texts.iter().any(|source| source.count == 0) {
            return Err(format!(
                "`shape.{}.texts`: expected files with a `count` of at least 1",
                self.name
            ));
        }
        Ok(())
    }
}

/// A request to a worker, which serves one shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum EncodeRequest {
    /// Open a model with a number of threads that compute and tokenize; `cache` is for what an engine makes of a model
    /// and keeps.
    Open {
        model: PathBuf,
        device: String,
        threads: usize,
        cache: PathBuf,
    },
    /// Load the texts, a JSON string per line; or pairs, arrays of two strings.
    Prepare { texts: PathBuf },
    /// Try the engine's own settings on some of the texts and keep the best.
    Tune,
    /// Embed all texts in one call, text in and f32 vectors out, or score all pairs (a logit is a vector of one value);
    /// to `out`, `.npy` float32 `[n, d]`, after the clock stops.
    Encode {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        out: Option<PathBuf>,
    },
    /// Multiply two large matrices of `f32` or `bf16` several times; the reply is the highest `gflops`. One engine
    /// only, the machine's limit.
    Matmul {
        dtype: String,
        device: String,
        threads: usize,
    },
}

/// What an engine says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncodeDetails {
    /// Number type of its products: `f32`, `bf16`, `int8`.
    pub(super) dtype: String,
}

impl EncodeDetails {
    /// The number type whose products limit it: int8 is compared with f32, which it is to beat.
    pub(super) fn limited_by(&self) -> &'static str {
        if self.dtype == "bf16" { "bf16" } else { "f32" }
    }
}

/// Loaded texts.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PreparedTexts {
    pub(super) texts: usize,
}

/// Chosen settings in words; empty where there is nothing to choose.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TunedReply {
    pub(super) settings: String,
}

/// Embedded texts.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EncodedTexts {
    /// Wall time from texts to vectors.
    pub(super) seconds: f64,
    /// Tokens of all texts, special tokens counted, padding not; where the engine knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<u64>,
    /// Tokens that the linear layers saw, padding counted; where the engine knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) computed_tokens: Option<u64>,
}
