//! A transformer and how its tokenizer is used: `config.json`, `sentence_bert_config.json` and their kin.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::architecture::{Architecture, LONGEST_INPUT};
use super::json::JsonFile;
use super::static_model::{StaticConfig, StaticTokenizer};
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

/// Settings of a `Transformer` module.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TransformerConfig {
    pub(crate) architecture: Architecture,
    /// Longest input in tokens as configured, if it is.
    pub(crate) max_seq_length: Option<usize>,
    /// Lowercase texts before the tokenizer sees them.
    pub(crate) lower_case: bool,
    /// What else decides its tokenizer.
    pub(crate) tokenizer: TokenizerSource,
}

/// What a tokenizer depends on in addition to its own files.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TokenizerSource {
    /// `model_type` of `config.json`, whose tokenizer class is taken where no file names one.
    pub(crate) model_type: String,
    /// `tokenizer_class` of `config.json`.
    pub(crate) class: Option<String>,
    /// `processor_kwargs` of `sentence_bert_config.json`, which go before the fields of `tokenizer_config.json`.
    pub(crate) processor_kwargs: Map<String, Value>,
    /// `config_kwargs` of the same file, which go before the fields of `config.json`, but not for the tokenizer.
    pub(crate) config_kwargs: Map<String, Value>,
    /// Of a static model, whose tokenizer is one file.
    pub(crate) of_static: Option<StaticTokenizer>,
}

impl TokenizerSource {
    /// A `config.json` with its overrides and the name of its class, so that the class does not follow from the model
    /// type.
    pub(crate) fn named(&self, mut config: Value) -> Value {
        if let Some(fields) = config.as_object_mut() {
            fields.extend(self.config_kwargs.clone());
        }
        let class = self.class.as_deref().or(registered_class(&self.model_type));
        if let (Some(fields), Some(class)) = (config.as_object_mut(), class) {
            fields.insert("tokenizer_class".to_owned(), json!(class));
        }
        config
    }
}

/// The tokenizer class of a model type, which transformers takes where no file names one (`TOKENIZER_MAPPING_NAMES`).
pub(crate) fn registered_class(model_type: &str) -> Option<&'static str> {
    Some(match model_type {
        "bert" | "distilbert" | "nomic_bert" => "BertTokenizer",
        "dpr" => "DPRQuestionEncoderTokenizer",
        "mpnet" => "MPNetTokenizer",
        "roberta" => "RobertaTokenizer",
        "xlm-roberta" | "gte" => "XLMRobertaTokenizer",
        "camembert" => "CamembertTokenizer",
        "t5" => "T5Tokenizer",
        "qwen3" => "Qwen2Tokenizer",
        "gemma3_text" => "GemmaTokenizer",
        _ => return None,
    })
}

/// The settings under `new`, or under the name `old` that they had before.
fn object_of_either(settings: &JsonFile, new: &'static str, old: &'static str) -> Result<Map<String, Value>, Error> {
    let older = settings.object(old)?;
    if older.is_empty() {
        settings.object(new)
    } else {
        Ok(older)
    }
}

/// The longest input in tokens, as a tokenizer's file states it.
fn longest_input(file: &JsonFile) -> Result<Option<usize>, Error> {
    match file.count("model_max_length")? {
        Some(tokens) => Ok(Some(tokens)),
        None => file.count("max_len"),
    }
}

impl TransformerConfig {
    /// From a transformer's folder. `with_settings`: also by `sentence_bert_config.json` and its kin, which
    /// sentence-transformers reads where there is a `modules.json`.
    pub(super) fn read(folder: &Path, with_settings: bool) -> Result<Self, Error> {
        let settings = if with_settings { settings_file(folder)? } else { None };
        let empty = || JsonFile::new(folder.join(SETTINGS[0]), json!({}));
        let settings = settings.map_or_else(empty, Ok)?;
        let processor_kwargs = object_of_either(&settings, "processor_kwargs", "tokenizer_args")?;
        let config_kwargs = object_of_either(&settings, "config_kwargs", "config_args")?;
        let config = JsonFile::required(&folder.join("config.json"))?;
        let class = config.text("tokenizer_class")?.map(ToOwned::to_owned);
        let config = config.with(config_kwargs.clone());
        let tokenizer_config = folder.join("tokenizer_config.json");
        let mut max_seq_length = longest_input(&JsonFile::new(folder.join(SETTINGS[0]), json!(processor_kwargs))?)?;
        if max_seq_length.is_none() {
            max_seq_length = settings.count("max_seq_length")?;
        }
        if let (None, Some(file)) = (max_seq_length, JsonFile::open_if_present(&tokenizer_config)?) {
            max_seq_length = longest_input(&file)?;
        }
        let config = Self {
            tokenizer: TokenizerSource {
                model_type: config.text("model_type")?.unwrap_or("bert").to_owned(),
                class,
                processor_kwargs,
                config_kwargs,
                of_static: None,
            },
            architecture: Architecture::from_json(&config)?,
            max_seq_length,
            lower_case: settings.flag("do_lower_case")?.unwrap_or(false),
        };
        if config.max_tokens() > LONGEST_INPUT {
            return Err(Error::Field {
                path: folder.join(SETTINGS[0]),
                field: "max_seq_length",
                expected: format!("at most {LONGEST_INPUT} tokens: attention takes the square of them"),
                got: config.max_tokens().to_string(),
            });
        }
        Ok(config)
    }

    /// The table that a static model is.
    pub(crate) fn static_table(&self) -> Option<&StaticConfig> {
        match &self.architecture {
            Architecture::Static(config) => Some(config),
            _ => None,
        }
    }

    /// Whether nothing says how long an input may be.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.max_seq_length
            .unwrap_or(usize::MAX)
            .min(self.architecture.max_positions())
            > LONGEST_INPUT
    }

    /// Longest input in tokens: as configured, and no longer than there are positions for.
    pub(crate) fn max_tokens(&self) -> usize {
        match self
            .max_seq_length
            .unwrap_or(usize::MAX)
            .min(self.architecture.max_positions())
        {
            usize::MAX => UNLIMITED_TOKENS,
            tokens => tokens,
        }
    }
}

/// The first of the files in which sentence-transformers keeps the settings, as long as it is not empty.
pub(super) fn settings_file(folder: &Path) -> Result<Option<JsonFile>, Error> {
    for name in SETTINGS {
        if let Some(settings) = JsonFile::open_if_present(&folder.join(name))?
            && settings.names().next().is_some()
        {
            return Ok(Some(settings));
        }
    }
    Ok(None)
}
