//! The settings of a model directory, in both on-disk forms of sentence-transformers.
//!
//! The classic form (up to 5.3) and the newer one (from 5.4) differ in class paths, pooling keys and where the
//! longest input is written; a directory without `modules.json` is a plain Hugging Face model and gets mean pooling, as
//! sentence-transformers gives it. Reading only: no tensor, no tokenizer.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json::{JsonFile, read_value};
use super::modules::{Module, Placed};
use super::modules_json;
use super::tower::Tower;
use super::transformer::TransformerConfig;
use crate::error::Error;

/// The settings of one model directory.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The directory.
    pub(crate) root: PathBuf,
    /// Every module once, however many towers run it.
    pub(crate) modules: Vec<Placed>,
    /// The modules that the question tower and the answer tower run, in order: a transformer, a pooling, then any others.
    pub(crate) routes: [Vec<usize>; 2],
    /// Prompt of each tower.
    pub(crate) prompts: Prompts,
    /// Keep only this many leading dimensions.
    pub(crate) truncate_dim: Option<usize>,
    /// `cosine`, `dot`, ... where the model says so.
    pub(crate) similarity: Option<String>,
}

/// Prompts of the towers, put before each text; empty where the model has none.
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
        let path = root.join("modules.json");
        let (modules, routes) = match read_value(&path)? {
            Some(value) => modules_json::read(root, &path, &value)?,
            None => modules_json::plain(root)?,
        };
        let mut layout = Self {
            root: root.to_owned(),
            modules,
            routes,
            prompts: Prompts::default(),
            truncate_dim: None,
            similarity: None,
        };
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

    /// Whether the model scores pairs of texts: a cross encoder, whose both towers are one.
    pub(crate) fn scores(&self) -> bool {
        self.transformer(Tower::Answer).is_ok_and(|(_, _, config)| config.architecture.scores())
    }

    /// Whether both towers are the same.
    pub(crate) fn is_siamese(&self) -> bool {
        self.routes[0] == self.routes[1]
    }

    /// The modules that a tower runs, in order.
    pub(crate) fn route(&self, tower: Tower) -> impl Iterator<Item = &Placed> {
        self.routes[tower.index()].iter().filter_map(|&at| self.modules.get(at))
    }

    /// The transformer that a tower begins with, and its place among the modules.
    pub(crate) fn transformer(&self, tower: Tower) -> Result<(usize, &Placed, &TransformerConfig), Error> {
        let first = self.routes[tower.index()].first().and_then(|&at| Some((at, self.modules.get(at)?)));
        if let Some((at, placed)) = first
            && let Module::Transformer(config) = &placed.module
        {
            return Ok((at, placed, config));
        }
        let fix = "A tower begins with a transformer";
        Err(Error::MissingFile { path: self.root.join("config.json"), fix })
    }

    /// Whether both towers end in a `Normalize` module.
    pub(crate) fn normalizes(&self) -> bool {
        let ends = |tower| self.route(tower).last().is_some_and(|placed| placed.module == Module::Normalize);
        self.truncate_dim.is_none() && Tower::BOTH.into_iter().all(ends)
    }

    /// The modules of each tower and the length of its vectors: modules fit those before them, and both towers each other.
    pub(crate) fn towers(&self) -> Result<[Route; 2], Error> {
        let [question, answer] = [self.steps(Tower::Question)?, self.steps(Tower::Answer)?];
        if question.dim != answer.dim {
            return Err(Error::Field {
                path: self.root.join("modules.json"),
                field: "structure",
                expected: format!("towers of one dimension; the question tower gives {} values", question.dim),
                got: answer.dim.to_string(),
            });
        }
        Ok([question, answer])
    }

    fn steps(&self, tower: Tower) -> Result<Route, Error> {
        let (transformer, _, config) = self.transformer(tower)?;
        let head = config.architecture.head();
        let (mut steps, mut dim) = (Vec::new(), 0);
        for &at in &self.routes[tower.index()] {
            steps.push(Step::Module(at));
            let Some(placed) = self.modules.get(at) else { continue };
            match &placed.module {
                Module::Transformer(config) => dim = config.architecture.hidden_size(),
                Module::Pooling(pooling) => {
                    dim *= pooling.modes.len();
                    if let Some((_, last)) = head.last() {
                        steps.push(Step::OwnHead(transformer));
                        dim = last.out_features;
                    }
                }
                Module::MultiHop(settings) => {
                    placed.takes(settings.in_features, dim)?;
                    if !head.is_empty() {
                        return Err(Error::Unsupported {
                            path: self.root.join("modules.json"),
                            what: "module before DPR's own projection",
                            supported: "a `Pooling`",
                            got: placed.module.class().to_owned(),
                        });
                    }
                    dim *= settings.hops;
                }
                Module::Dense(settings) => {
                    placed.takes(settings.in_features, dim)?;
                    dim = settings.out_features;
                }
                Module::Normalize => {}
            }
        }
        Ok(Route { steps, dim: self.truncate_dim.map_or(dim, |kept| kept.min(dim)) })
    }
}

/// The next module of a tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The module at this place.
    Module(usize),
    /// The head in the own file of the transformer at this place: DPR's projection, or that of a cross encoder.
    OwnHead(usize),
}

/// The modules of one tower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) steps: Vec<Step>,
    /// Length of a vector.
    pub(crate) dim: usize,
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
