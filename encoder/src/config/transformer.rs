//! A transformer and how its tokenizer is used: `config.json`, `sentence_bert_config.json` and their kin.

use std::path::Path;

use super::architecture::Architecture;
use super::json::JsonFile;
use crate::error::Error;

/// Names under which sentence-transformers has kept the transformer's own settings.
const SETTINGS: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];
/// The longest input of a model that names none and whose positions have no end.
const UNLIMITED_TOKENS: usize = 512;
/// The longest input that a model may ask for.
const LONGEST_INPUT: usize = 32_768;

/// Settings of a `Transformer` module.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TransformerConfig {
    pub(crate) architecture: Architecture,
    /// Longest input in tokens as configured, if it is.
    pub(crate) max_seq_length: Option<usize>,
    /// Lowercase texts before the tokenizer sees them.
    pub(crate) lower_case: bool,
}

impl TransformerConfig {
    /// From a transformer's folder.
    pub(super) fn read(folder: &Path) -> Result<Self, Error> {
        let architecture = Architecture::read(&folder.join("config.json"))?;
        let mut config = Self { architecture, max_seq_length: None, lower_case: false };
        for name in SETTINGS {
            if let Some(settings) = JsonFile::open_if_present(&folder.join(name))? {
                config.max_seq_length = settings.count("max_seq_length")?;
                config.lower_case = settings.flag("do_lower_case")?.unwrap_or(false);
                break;
            }
        }
        if config.max_seq_length.is_none()
            && let Some(settings) = JsonFile::open_if_present(&folder.join("tokenizer_config.json"))?
        {
            config.max_seq_length = settings.count("model_max_length")?;
        }
        if config.max_tokens() > LONGEST_INPUT {
            return Err(Error::Field {
                path: folder.join("sentence_bert_config.json"),
                field: "max_seq_length",
                expected: format!("at most {LONGEST_INPUT} tokens: attention takes the square of them"),
                got: config.max_tokens().to_string(),
            });
        }
        Ok(config)
    }

    /// Longest input in tokens: as configured, and no longer than there are positions for.
    pub(crate) fn max_tokens(&self) -> usize {
        match self.max_seq_length.unwrap_or(usize::MAX).min(self.architecture.max_positions()) {
            usize::MAX => UNLIMITED_TOKENS,
            tokens => tokens,
        }
    }
}
