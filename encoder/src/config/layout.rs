//! The settings of a model directory, in both on-disk forms of sentence-transformers.
//!
//! The classic form (up to 5.3) and the newer one (from 5.4) differ in class paths, pooling keys and where the
//! longest input is written; a directory without `modules.json` is a plain Hugging Face model and gets mean pooling, as
//! sentence-transformers gives it. Reading only: no tensor, no tokenizer.

use std::path::{Path, PathBuf};

use super::inventory::{self, UnknownSettings};
use super::json::{JsonFile, read_value};
use super::modules::{Module, Placed};
use super::modules_json;
use super::prompts::{PromptOptions, PromptReading, Prompts};
use super::tower::Tower;
use super::transformer::TransformerConfig;
use crate::error::Error;

/// The file of a model's prompts and of what it does in addition to its modules.
pub(crate) const SETTINGS: &str = "config_sentence_transformers.json";

/// What the peft library leaves in a directory.
const ADAPTER: &str = "adapter_config.json";

/// The settings of one model directory.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The model's directory.
    pub(crate) root: PathBuf,
    /// Every module once, however many towers run it.
    pub(crate) modules: Vec<Placed>,
    /// The modules that the question tower and the answer tower run, in order: a transformer, a pooling, then any
    /// others.
    pub(crate) routes: [Vec<usize>; 2],
    /// Prompt of each tower.
    pub(crate) prompts: Prompts,
    /// Keep only this many leading dimensions.
    pub(crate) truncate_dim: Option<usize>,
    /// `cosine`, `dot`, ... where the model says so.
    pub(crate) similarity: Option<String>,
    /// Settings in its files that are in no list.
    pub(crate) unknown: Vec<UnknownSettings>,
}

impl Layout {
    /// Reads the settings of `root`.
    pub(crate) fn read(root: &Path) -> Result<Self, Error> {
        if !root.is_dir() {
            return Err(Error::NoDirectory { path: root.to_owned() });
        }
        let path = root.join("modules.json");
        let modules_json = read_value(&path)?;
        let has_modules_json = modules_json.is_some();
        let (modules, routes) = match &modules_json {
            Some(value) => modules_json::read(root, &path, value)?,
            None => modules_json::plain(root)?,
        };
        refuse_adapters(root, &modules)?;
        let unknown = inventory::check(root, &modules, modules_json.as_ref())?;
        let mut layout = Self {
            root: root.to_owned(),
            modules,
            routes,
            prompts: Prompts::default(),
            truncate_dim: None,
            similarity: None,
            unknown,
        };
        if has_modules_json && let Some(settings) = JsonFile::open_if_present(&root.join(SETTINGS))? {
            layout.prompts = Prompts::read(&settings, PromptReading::Dyad)?;
            layout.truncate_dim = settings.count("truncate_dim")?;
            layout.similarity = settings.text("similarity_fn_name")?.map(ToOwned::to_owned);
            if layout.truncate_dim == Some(0) {
                return Err(settings.wrong("truncate_dim", "a whole number of at least 1"));
            }
        }
        Ok(layout)
    }

    /// The prompts that `options` ask for.
    pub(crate) fn prompts_by(&self, options: &PromptOptions) -> Result<Prompts, Error> {
        let settings = match options.reading {
            PromptReading::Dyad => None,
            // Without `modules.json` the file has no effect there either.
            PromptReading::SentenceTransformers if !self.root.join("modules.json").is_file() => None,
            PromptReading::SentenceTransformers => JsonFile::open_if_present(&self.root.join(SETTINGS))?,
        };
        let own = match settings {
            Some(settings) => Prompts::read(&settings, options.reading)?,
            None => self.prompts.clone(),
        };
        own.replaced(options).map_err(|unknown| Error::UnknownPrompt {
            path: self.root.clone(),
            known: unknown.names(),
            name: unknown.name,
        })
    }

    /// What a user should hear of its files when it is opened: settings that are not known, files that have no effect,
    /// and lengths that nothing says.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for UnknownSettings { file, names } in &self.unknown {
            remarks.push(format!(
                "`{file}` has settings that are not known here and have no effect: `{}`. If one of them changes vectors, those of this model differ from Python's: compare a few (`dyad-encoder encode`)",
                names.join("`, `")
            ));
        }
        if !self.root.join("modules.json").is_file() && !self.scores() {
            for name in [SETTINGS, "sentence_bert_config.json"] {
                if self.root.join(name).is_file() {
                    remarks.push(format!(
                        "`{name}` has no effect without `modules.json`, as in sentence-transformers: the model has mean pooling and no prompts. If the directory was fetched in part, fetch it whole"
                    ));
                }
            }
        }
        let transformers = self.modules.iter().filter_map(|placed| match &placed.module {
            Module::Transformer(config) => Some((placed, config)),
            _ => None,
        });
        for (placed, config) in transformers.filter(|(_, config)| config.is_unlimited()) {
            let file = Path::new(&placed.id).join("sentence_bert_config.json");
            remarks.push(format!(
                "no file says how long an input of this model may be: texts are cut at {} tokens, where Python cuts none. Set `max_seq_length` in `{}`",
                config.max_tokens(),
                file.display()
            ));
        }
        remarks
    }

    /// Whether the model scores pairs of texts: a cross encoder, whose both towers are one.
    pub(crate) fn scores(&self) -> bool {
        self.transformer(Tower::Answer)
            .is_ok_and(|(_, _, config)| config.architecture.scores())
    }

    /// Whether the pooling of a tower leaves the tokens of the prompt out.
    pub(crate) fn leaves_prompt_out(&self, tower: Tower) -> bool {
        self.route(tower).any(|placed| match &placed.module {
            Module::Pooling(pooling) => !pooling.include_prompt,
            Module::MultiHop(multihop) => !multihop.include_prompt,
            _ => false,
        })
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
        let first = self.routes[tower.index()]
            .first()
            .and_then(|&at| Some((at, self.modules.get(at)?)));
        if let Some((at, placed)) = first
            && let Module::Transformer(config) = &placed.module
        {
            return Ok((at, placed, config));
        }
        let fix = "A tower begins with a transformer";
        Err(Error::MissingFile {
            path: self.root.join("config.json"),
            fix,
        })
    }

    /// Whether both towers end in a `Normalize` module.
    pub(crate) fn normalizes(&self) -> bool {
        let ends = |tower| {
            self.route(tower)
                .last()
                .is_some_and(|placed| placed.module == Module::Normalize)
        };
        self.truncate_dim.is_none() && Tower::BOTH.into_iter().all(ends)
    }

    /// The modules of each tower and the length of its vectors: modules fit those before them, and both towers each
    /// other.
    pub(crate) fn towers(&self) -> Result<[Route; 2], Error> {
        let [question, answer] = [self.steps(Tower::Question)?, self.steps(Tower::Answer)?];
        if question.dim != answer.dim {
            return Err(Error::Field {
                path: self.root.join("modules.json"),
                field: "structure",
                expected: format!(
                    "towers of one dimension; the question tower gives {} values",
                    question.dim
                ),
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
            steps.push(ModuleStep::Module(at));
            let Some(placed) = self.modules.get(at) else { continue };
            match &placed.module {
                Module::Transformer(config) => dim = config.architecture.hidden_size(),
                Module::Pooling(pooling) => {
                    dim *= pooling.modes.len();
                    if let Some(last) = head.last() {
                        steps.push(ModuleStep::OwnHead(transformer));
                        dim = last.map.out_features;
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
        Ok(Route {
            steps,
            dim: self.truncate_dim.map_or(dim, |kept| kept.min(dim)),
        })
    }
}

/// The next module of a tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModuleStep {
    /// The module at this place.
    Module(usize),
    /// The head in the own file of the transformer at this place: DPR's projection, or that of a cross encoder.
    OwnHead(usize),
}

/// The modules of one tower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) steps: Vec<ModuleStep>,
    /// Length of a vector.
    pub(crate) dim: usize,
}

/// Refuses an adapter: without it the vectors would be those of the model that it was trained over.
fn refuse_adapters(root: &Path, modules: &[Placed]) -> Result<(), Error> {
    let transformers = modules
        .iter()
        .filter(|placed| matches!(placed.module, Module::Transformer(_)));
    for folder in transformers.map(|placed| placed.folder.as_path()).chain([root]) {
        let path = folder.join(ADAPTER);
        if path.is_file() {
            return Err(Error::Adapter { path });
        }
    }
    Ok(())
}
