//! What a model directory says about itself, in both on-disk forms of sentence-transformers, before any weight is read.
//!
//! The classic form (up to 5.3) and the newer one (from 5.4) differ in class paths, pooling keys and where the
//! longest input is written; a directory without `modules.json` is a plain Hugging Face model and gets mean pooling, as
//! sentence-transformers gives it. Reading only: no tensor, no tokenizer.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json::{JsonFile, read_value};
use super::modules::{DenseConfig, PoolingConfig};
use crate::error::Error;
use crate::tower::Tower;

const REFETCH: &str = "Fetch the whole model directory again";

/// Names under which sentence-transformers has kept the transformer's own settings.
const TRANSFORMER_SETTINGS: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];

/// A step after the transformer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Module {
    Pooling(PoolingConfig),
    /// The folder of its weights, and its settings.
    Dense(PathBuf, DenseConfig),
    Normalize,
}

/// The settings of one model directory.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Folder of `config.json`, the weights and the tokenizer.
    pub(crate) transformer: PathBuf,
    /// Steps after the transformer, in order; the first is always a pooling.
    pub(crate) modules: Vec<Module>,
    /// Longest input in tokens as configured, if it is.
    pub(crate) max_tokens: Option<usize>,
    /// Lowercase texts before the tokenizer sees them.
    pub(crate) lower_case: bool,
    /// Prompt of each tower.
    pub(crate) prompts: Prompts,
    /// Keep only this many leading dimensions.
    pub(crate) truncate_dim: Option<usize>,
    /// `cosine`, `dot`, ... where the model says so.
    pub(crate) similarity: Option<String>,
}

/// What is put before a text, per tower; empty where the model has no prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prompts {
    pub(crate) question: String,
    pub(crate) answer: String,
}

impl Prompts {
    pub(crate) fn of(&self, tower: Tower) -> &str {
        match tower {
            Tower::Question => &self.question,
            Tower::Answer => &self.answer,
        }
    }
}

impl Layout {
    /// Reads the settings of `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, Error> {
        if !root.is_dir() {
            return Err(Error::NoDirectory { path: root.to_owned() });
        }
        let modules_path = root.join("modules.json");
        let (transformer, modules) = match read_value(&modules_path)? {
            Some(value) => read_modules(root, &modules_path, &value)?,
            None => (root.to_owned(), vec![Module::Pooling(PoolingConfig::mean())]),
        };
        let mut layout = Self {
            transformer,
            modules,
            max_tokens: None,
            lower_case: false,
            prompts: Prompts::default(),
            truncate_dim: None,
            similarity: None,
        };
        layout.read_transformer_settings()?;
        if let Some(settings) = JsonFile::open_if_present(&root.join("config_sentence_transformers.json"))? {
            layout.prompts = read_prompts(&settings)?;
            layout.truncate_dim = settings.count("truncate_dim")?;
            layout.similarity = settings.text("similarity_fn_name")?.map(ToOwned::to_owned);
            if layout.truncate_dim == Some(0) {
                return Err(settings.wrong("truncate_dim", "a whole number of at least 1"));
            }
        }
        Ok(layout)
    }

    fn read_transformer_settings(&mut self) -> Result<(), Error> {
        for name in TRANSFORMER_SETTINGS {
            if let Some(settings) = JsonFile::open_if_present(&self.transformer.join(name))? {
                self.max_tokens = settings.count("max_seq_length")?;
                self.lower_case = settings.flag("do_lower_case")?.unwrap_or(false);
                break;
            }
        }
        if self.max_tokens.is_none()
            && let Some(settings) = JsonFile::open_if_present(&self.transformer.join("tokenizer_config.json"))?
        {
            self.max_tokens = settings.count("model_max_length")?;
        }
        Ok(())
    }
}

fn read_modules(root: &Path, path: &Path, value: &Value) -> Result<(PathBuf, Vec<Module>), Error> {
    let wrong = |field, expected: &str, got: String| Error::Field {
        path: path.to_owned(),
        field,
        expected: expected.into(),
        got,
    };
    let entries = value.as_array().ok_or_else(|| wrong("(whole file)", "a list of modules", value.to_string()))?;
    let mut transformer = None;
    let mut modules = Vec::new();
    for (position, entry) in entries.iter().enumerate() {
        let text = |field: &'static str| {
            let value = entry.get(field);
            value.and_then(Value::as_str).ok_or_else(|| {
                wrong(field, "a string in every module", value.map_or_else(|| "nothing".into(), ToString::to_string))
            })
        };
        let class = text("type")?;
        let folder = root.join(
            relative(text("path")?)
                .ok_or_else(|| wrong("path", "a folder inside the model directory", entry.to_string()))?,
        );
        match (position, class.rsplit('.').next().unwrap_or(class)) {
            (0, "Transformer") => transformer = Some(folder),
            (1.., "Pooling") => modules.push(Module::Pooling(PoolingConfig::read(&folder)?)),
            (1.., "Dense") => modules.push(Module::Dense(folder.clone(), DenseConfig::read(&folder)?)),
            (1.., "Normalize") => modules.push(Module::Normalize),
            _ => {
                return Err(Error::Unsupported {
                    path: path.to_owned(),
                    what: "module",
                    supported: "a `Transformer`, a `Pooling`, then any of `Dense` and `Normalize`",
                    got: class.to_owned(),
                });
            }
        }
    }
    let poolings = modules.iter().filter(|module| matches!(module, Module::Pooling(_))).count();
    match transformer {
        Some(transformer) if poolings == 1 && matches!(modules.first(), Some(Module::Pooling(_))) => {
            Ok((transformer, modules))
        }
        _ => Err(wrong("type", "a `Transformer` first and one `Pooling` second", format!("{} modules", entries.len()))),
    }
}

/// The folder of a module, unless it would lead out of the model directory.
fn relative(folder: &str) -> Option<&Path> {
    use std::path::Component;
    let path = Path::new(folder);
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)).then_some(path)
}

/// The question tower uses prompt `query`; the answer tower `document`, else `passage`, else `corpus`; both fall back to
/// the default prompt.
fn read_prompts(settings: &JsonFile) -> Result<Prompts, Error> {
    let empty = serde_json::Map::new();
    let prompts = match settings.get("prompts") {
        None => &empty,
        Some(Value::Object(prompts)) => prompts,
        Some(_) => return Err(settings.wrong("prompts", "an object of strings")),
    };
    if prompts.values().any(|prompt| !prompt.is_string() && !prompt.is_null()) {
        return Err(settings.wrong("prompts", "an object of strings"));
    }
    let named = |name: &str| prompts.get(name).and_then(Value::as_str);
    let fallback = match settings.text("default_prompt_name")? {
        None => "",
        Some(name) => {
            named(name).ok_or_else(|| settings.wrong("default_prompt_name", "the name of one of the `prompts`"))?
        }
    };
    let answer = ["document", "passage", "corpus"].into_iter().find_map(named);
    Ok(Prompts {
        question: named("query").unwrap_or(fallback).to_owned(),
        answer: answer.unwrap_or(fallback).to_owned(),
    })
}

/// The error for a folder of a module without its settings.
pub(crate) fn module_settings(folder: &Path) -> Result<JsonFile, Error> {
    JsonFile::open(&folder.join("config.json"), REFETCH)
}
