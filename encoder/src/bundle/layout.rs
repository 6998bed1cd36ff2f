//! What a model directory says about itself, in both on-disk forms of sentence-transformers, before any weight is read.
//!
//! The classic form (up to 5.3) and the newer one (from 5.4) differ in class paths, pooling keys and where the
//! longest input is written; a directory without `modules.json` is a plain Hugging Face model and gets mean pooling, as
//! sentence-transformers gives it. Reading only: no tensor, no tokenizer.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json::{JsonFile, read_value};
use super::modules::{DenseConfig, MultiHopConfig, PoolingConfig};
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

/// A module and its settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Module {
    Transformer(TransformerSettings),
    Pooling(PoolingConfig),
    MultiHop(MultiHopConfig),
    Dense(DenseConfig),
    Normalize,
}

impl Module {
    /// Name of its class, without the package.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Self::Transformer(_) => "Transformer",
            Self::Pooling(_) => "Pooling",
            Self::MultiHop(_) => "MultiHopAttention",
            Self::Dense(_) => "Dense",
            Self::Normalize => "Normalize",
        }
    }

    fn read(class: &str, folder: &Path) -> Result<Option<Self>, Error> {
        Ok(Some(match class.rsplit('.').next().unwrap_or(class) {
            "Transformer" => Self::Transformer(TransformerSettings::read(folder)?),
            "Pooling" => Self::Pooling(PoolingConfig::read(folder)?),
            "MultiHopAttention" => Self::MultiHop(MultiHopConfig::read(folder)?),
            "Dense" => Self::Dense(DenseConfig::read(folder)?),
            "Normalize" => Self::Normalize,
            _ => return Ok(None),
        }))
    }
}

/// How the tokenizer of a transformer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TransformerSettings {
    /// Longest input in tokens as configured, if it is.
    pub(crate) max_tokens: Option<usize>,
    /// Lowercase texts before the tokenizer sees them.
    pub(crate) lower_case: bool,
}

impl TransformerSettings {
    fn read(folder: &Path) -> Result<Self, Error> {
        let mut found = Self::default();
        for name in TRANSFORMER_SETTINGS {
            if let Some(settings) = JsonFile::open_if_present(&folder.join(name))? {
                found.max_tokens = settings.count("max_seq_length")?;
                found.lower_case = settings.flag("do_lower_case")?.unwrap_or(false);
                break;
            }
        }
        if found.max_tokens.is_none()
            && let Some(settings) = JsonFile::open_if_present(&folder.join("tokenizer_config.json"))?
        {
            found.max_tokens = settings.count("model_max_length")?;
        }
        Ok(found)
    }
}

/// A module and where it lies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    /// Its folder below the model's; empty for the model's own.
    pub(crate) id: String,
    pub(crate) folder: PathBuf,
    pub(crate) module: Module,
}

/// The settings of one model directory.
#[derive(Debug)]
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
        let path = root.join("modules.json");
        let (modules, routes) = match read_value(&path)? {
            Some(value) => Reader { root, path: &path, modules: Vec::new() }.read(&value)?,
            None => plain(root)?,
        };
        let root_path = root.to_owned();
        let mut layout = Self {
            root: root_path,
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

    /// Whether both towers are one.
    pub(crate) fn is_siamese(&self) -> bool {
        self.routes[0] == self.routes[1]
    }
}

/// Names under which the two towers of a pair without `modules.json` lie: DPR's, Tevatron's, and plain ones.
const PAIRS: [[&str; 2]; 3] =
    [["question_encoder", "ctx_encoder"], ["query_model", "passage_model"], ["question", "answer"]];

/// A Hugging Face directory, or a pair of them.
fn plain(root: &Path) -> Result<Modules, Error> {
    let has_config = |folder: &Path| folder.join("config.json").is_file();
    let pair = PAIRS.iter().find(|pair| pair.iter().all(|name| has_config(&root.join(name))));
    let ids: &[&str] = match pair {
        Some(pair) if !has_config(root) => pair,
        _ => &[""],
    };
    let mut modules = Vec::new();
    let mut routes = Vec::new();
    for id in ids {
        let folder = root.join(id);
        let dpr = JsonFile::open_if_present(&folder.join("config.json"))?
            .is_some_and(|config| matches!(config.text("model_type"), Ok(Some("dpr"))));
        let pooling = if dpr { PoolingConfig::cls() } else { PoolingConfig::mean() };
        routes.push(vec![modules.len(), modules.len() + 1]);
        let settings = TransformerSettings::read(&folder)?;
        let placed = |module| Placed { id: (*id).to_owned(), folder: folder.clone(), module };
        modules.extend([placed(Module::Transformer(settings)), placed(Module::Pooling(pooling))]);
    }
    let question = routes.first().cloned().unwrap_or_default();
    let answer = routes.pop().unwrap_or_default();
    Ok((modules, [question, answer]))
}

/// All modules, and those of each tower.
type Modules = (Vec<Placed>, [Vec<usize>; 2]);

/// Reads `modules.json`, and `router_config.json` where the first module is a `Router`.
struct Reader<'a> {
    root: &'a Path,
    path: &'a Path,
    modules: Vec<Placed>,
}

impl Reader<'_> {
    fn read(mut self, value: &Value) -> Result<Modules, Error> {
        let entries = value.as_array().ok_or_else(|| self.wrong("(whole file)", "a list of modules", value))?;
        let mut routes = [Vec::new(), Vec::new()];
        for (position, entry) in entries.iter().enumerate() {
            let text = |field: &'static str| {
                let value = entry.get(field).unwrap_or(&Value::Null);
                value.as_str().ok_or_else(|| self.wrong(field, "a string in every module", value))
            };
            let class = text("type")?;
            let id = text("path")?;
            if relative(id).is_none() {
                return Err(self.wrong("path", "a folder inside the model directory", entry));
            }
            if position == 0 && matches!(class.rsplit('.').next(), Some("Router" | "Asym")) {
                routes = self.router(id)?;
                continue;
            }
            let at = self.place(id.to_owned(), class)?;
            for route in &mut routes {
                route.push(at);
            }
        }
        for route in &routes {
            self.check(route)?;
        }
        Ok((self.modules, routes))
    }

    /// The routes of a `Router` in folder `id`: modules of its sub-folders, one that is named twice is one.
    fn router(&mut self, id: &str) -> Result<[Vec<usize>; 2], Error> {
        let folder = self.root.join(id);
        let path = [folder.join("router_config.json"), folder.join("config.json")];
        let path = path.iter().find(|path| path.is_file()).unwrap_or(&path[0]);
        let settings = JsonFile::open(path, REFETCH)?;
        let mut routes = [Vec::new(), Vec::new()];
        for (route, names) in
            routes.iter_mut().zip([&["query", "question"][..], &["document", "answer", "passage"][..]])
        {
            let structure = settings.get("structure");
            let ids = names.iter().find_map(|name| structure?.get(name)?.as_array());
            let ids =
                ids.ok_or_else(|| settings.wrong("structure", "routes `query` and `document`, lists of modules"))?;
            for entry in ids {
                let name = entry.as_str().filter(|name| relative(name).is_some());
                let class = name.and_then(|name| settings.get("types")?.get(name)?.as_str());
                let (Some(name), Some(class)) = (name, class) else {
                    return Err(settings.wrong("types", "a class for every module of `structure`"));
                };
                let id = Path::new(id).join(name).to_string_lossy().into_owned();
                route.push(self.place(id, class)?);
            }
        }
        Ok(routes)
    }

    /// The place of the module in folder `id`, read where it is new.
    fn place(&mut self, id: String, class: &str) -> Result<usize, Error> {
        let folder = self.root.join(&id);
        let is = |placed: &Placed| placed.id == id && class.rsplit('.').next() == Some(placed.module.class());
        if let Some(known) = self.modules.iter().position(is) {
            return Ok(known);
        }
        let module = Module::read(class, &folder)?.ok_or_else(|| self.unsupported(class))?;
        self.modules.push(Placed { id, folder, module });
        Ok(self.modules.len() - 1)
    }

    fn check(&self, route: &[usize]) -> Result<(), Error> {
        let repeated = |(place, at): (usize, &usize)| {
            route.iter().take(place).any(|before| before == at)
                && self.modules.get(*at).is_some_and(|placed| matches!(placed.module, Module::Dense(_)))
        };
        if route.iter().enumerate().any(repeated) {
            let got = Value::String("one that stands twice in a tower".into());
            return Err(self.wrong("path", "a folder of its own for every module of a tower", &got));
        }
        let kinds: Vec<&Module> = route.iter().filter_map(|&at| Some(&self.modules.get(at)?.module)).collect();
        let ordered = matches!(kinds.as_slice(), [Module::Transformer(_), Module::Pooling(_) | Module::MultiHop(_), rest @ ..]
            if rest.iter().all(|module| matches!(module, Module::Dense(_) | Module::Normalize)));
        if ordered {
            return Ok(());
        }
        if kinds.iter().skip(1).any(|module| matches!(module, Module::Transformer(_))) {
            return Err(self.unsupported("Transformer"));
        }
        Err(Error::Field {
            path: self.path.to_owned(),
            field: "type",
            expected: "a `Transformer` first and one `Pooling` or `MultiHopAttention` second".into(),
            got: format!("{} modules", kinds.len()),
        })
    }

    fn unsupported(&self, class: &str) -> Error {
        Error::Unsupported {
            path: self.path.to_owned(),
            what: "module",
            supported: "a `Transformer` or a `Router` of two, a `Pooling` or `dyad.models.MultiHopAttention`, then any of `Dense` and `Normalize`",
            got: class.to_owned(),
        }
    }

    fn wrong(&self, field: &'static str, expected: &str, got: &Value) -> Error {
        let got = if got.is_null() { "nothing".to_owned() } else { got.to_string() };
        Error::Field { path: self.path.to_owned(), field, expected: expected.into(), got }
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
