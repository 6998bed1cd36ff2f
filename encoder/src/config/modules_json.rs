//! Which modules a directory has, and in which order each tower runs them: `modules.json` and `router_config.json`, or
//! the folders of a plain Hugging Face model or of a pair of them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::cross_encoder;
use super::json::JsonFile;
use super::modules::{Module, Placed, PoolingConfig};
use super::static_files;
use super::transformer::TransformerConfig;
use crate::error::Error;

/// Names under which the two towers of a pair without `modules.json` lie: DPR's, Tevatron's, and plain ones.
const PAIRS: [[&str; 2]; 3] = [
    ["question_encoder", "ctx_encoder"],
    ["query_model", "passage_model"],
    ["question", "answer"],
];

/// A cross encoder: its transformer, and how its head takes one vector of its tokens'.
fn cross_encoder(folder: &Path, with_settings: bool) -> Result<Modules, Error> {
    let config = TransformerConfig::read(folder, with_settings)?;
    let path = folder.join("config.json");
    let got = config.architecture.fact()["model_type"]
        .as_str()
        .unwrap_or("t5")
        .to_owned();
    let supported =
        "`bert`, `roberta`, `xlm-roberta`, `camembert`, `distilbert`, `mpnet`, `gte` (`new`) and `modernbert`";
    let refused = Error::Unsupported {
        path,
        what: "model type of a cross encoder",
        supported,
        got,
    };
    let config = TransformerConfig {
        architecture: config.architecture.with_score().ok_or(refused)?,
        ..config
    };
    let pooling = if config.architecture.scores_means() {
        PoolingConfig::mean()
    } else {
        PoolingConfig::cls()
    };
    let placed = |module| Placed {
        id: String::new(),
        folder: folder.to_owned(),
        module,
    };
    let modules = vec![
        placed(Module::Transformer(Box::new(config))),
        placed(Module::Pooling(pooling)),
    ];
    Ok((modules, [vec![0, 1], vec![0, 1]]))
}

/// A static model without `modules.json`: its table, the mean of rows, and unit length where it says so.
fn static_tower(root: &Path, config: TransformerConfig, normalizes: bool) -> Modules {
    let mut modules = vec![
        Module::Transformer(Box::new(config)),
        Module::Pooling(PoolingConfig::mean()),
    ];
    modules.extend(normalizes.then_some(Module::Normalize));
    let route: Vec<usize> = (0..modules.len()).collect();
    let placed = |module| Placed {
        id: String::new(),
        folder: root.to_owned(),
        module,
    };
    (modules.into_iter().map(placed).collect(), [route.clone(), route])
}

/// A Hugging Face directory, or a pair of them.
pub(super) fn plain(root: &Path) -> Result<Modules, Error> {
    if cross_encoder::scores(root)? {
        return cross_encoder(root, false);
    }
    if let Some((config, normalizes)) = static_files::plain(root)? {
        return Ok(static_tower(root, config, normalizes));
    }
    let has_config = |folder: &Path| folder.join("config.json").is_file();
    let pair = PAIRS
        .iter()
        .find(|pair| pair.iter().all(|name| has_config(&root.join(name))));
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
        let pooling = if dpr {
            PoolingConfig::cls()
        } else {
            PoolingConfig::mean()
        };
        routes.push(vec![modules.len(), modules.len() + 1]);
        let config = TransformerConfig::read(&folder, false)?;
        let placed = |module| Placed {
            id: (*id).to_owned(),
            folder: folder.clone(),
            module,
        };
        modules.extend([
            placed(Module::Transformer(Box::new(config))),
            placed(Module::Pooling(pooling)),
        ]);
    }
    let question = routes.first().cloned().unwrap_or_default();
    let answer = routes.pop().unwrap_or_default();
    Ok((modules, [question, answer]))
}

/// Reads `modules.json`, whose content is `value`, and `router_config.json` where the first module is a `Router`.
pub(super) fn read(root: &Path, path: &Path, value: &Value) -> Result<Modules, Error> {
    // From sentence-transformers 5.4: a cross encoder is a transformer alone.
    if let Some([only]) = value.as_array().map(Vec::as_slice)
        && only.get("type").and_then(Value::as_str).is_some_and(is_transformer)
        && only.get("path").and_then(Value::as_str) == Some("")
        && cross_encoder::scores(root)?
    {
        return cross_encoder(root, true);
    }
    Reader {
        root,
        path,
        modules: Vec::new(),
    }
    .read(value)
}

/// All modules, and those of each tower.
type Modules = (Vec<Placed>, [Vec<usize>; 2]);

/// The settings of a `Router` in this folder.
pub(super) fn router_file(folder: &Path) -> PathBuf {
    let path = folder.join("router_config.json");
    if path.is_file() {
        path
    } else {
        folder.join("config.json")
    }
}

/// Whether a class is that of two routes.
pub(super) fn is_router(class: &str) -> bool {
    matches!(class.rsplit('.').next(), Some("Router" | "Asym"))
}

struct Reader<'a> {
    root: &'a Path,
    path: &'a Path,
    modules: Vec<Placed>,
}

impl Reader<'_> {
    fn read(mut self, value: &Value) -> Result<Modules, Error> {
        let entries = value
            .as_array()
            .ok_or_else(|| self.wrong("(whole file)", "a list of modules", value))?;
        let mut routes = [Vec::new(), Vec::new()];
        for (position, entry) in entries.iter().enumerate() {
            let text = |field: &'static str| {
                let value = entry.get(field).unwrap_or(&Value::Null);
                value
                    .as_str()
                    .ok_or_else(|| self.wrong(field, "a string in every module", value))
            };
            let class = text("type")?;
            // Model2Vec's name of the model's own folder.
            let id = Some(text("path")?).filter(|id| *id != ".").unwrap_or_default();
            if relative(id).is_none() {
                return Err(self.wrong("path", "a folder inside the model directory", entry));
            }
            if position == 0 && is_router(class) {
                routes = self.router(id)?;
                continue;
            }
            if position > 0 && is_transformer(class) {
                return Err(self.unsupported(class));
            }
            let places = self.place(id, class)?;
            for route in &mut routes {
                route.extend(&places);
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
        let settings = JsonFile::required(&router_file(&folder))?;
        let mut routes = [Vec::new(), Vec::new()];
        for (route, names) in routes
            .iter_mut()
            .zip([&["query", "question"][..], &["document", "answer", "passage"][..]])
        {
            let structure = settings.get("structure");
            let ids = names.iter().find_map(|name| structure?.get(name)?.as_array());
            let ids =
                ids.ok_or_else(|| settings.wrong("structure", "routes `query` and `document`, lists of modules"))?;
            for (position, entry) in ids.iter().enumerate() {
                let name = entry.as_str().filter(|name| relative(name).is_some());
                let class = name.and_then(|name| settings.get("types")?.get(name)?.as_str());
                let (Some(name), Some(class)) = (name, class) else {
                    return Err(settings.wrong("types", "a class for every module of `structure`"));
                };
                if position > 0 && is_transformer(class) {
                    return Err(self.unsupported(class));
                }
                let id = Path::new(id).join(name).to_string_lossy().into_owned();
                route.extend(self.place(&id, class)?);
            }
        }
        Ok(routes)
    }

    /// The place of the module in folder `id`, read where it is new; and that of the mean of rows, which is part of a
    /// `StaticEmbedding`.
    fn place(&mut self, id: &str, class: &str) -> Result<Vec<usize>, Error> {
        let folder = self.root.join(id);
        let is = |placed: &Placed| placed.id == id && class.rsplit('.').next() == Some(placed.module.class());
        let places = |at: usize, module: &Module| match module {
            Module::Transformer(config) if config.static_table().is_some() => vec![at, at + 1],
            _ => vec![at],
        };
        if let Some(known) = self.modules.iter().position(is)
            && let Some(placed) = self.modules.get(known)
        {
            return Ok(places(known, &placed.module));
        }
        let module = Module::read(class, &folder)?.ok_or_else(|| self.unsupported(class))?;
        let places = places(self.modules.len(), &module);
        let mean = Module::Pooling(PoolingConfig::mean());
        for module in [module, mean].into_iter().take(places.len()) {
            self.modules.push(Placed {
                id: id.to_owned(),
                folder: folder.clone(),
                module,
            });
        }
        Ok(places)
    }

    fn check(&self, route: &[usize]) -> Result<(), Error> {
        let repeated = |(place, at): (usize, &usize)| {
            route.iter().take(place).any(|before| before == at)
                && self
                    .modules
                    .get(*at)
                    .is_some_and(|placed| matches!(placed.module, Module::Dense(_)))
        };
        if route.iter().enumerate().any(repeated) {
            let got = Value::String("one that stands twice in a tower".into());
            return Err(self.wrong("path", "a folder of its own for every module of a tower", &got));
        }
        let kinds: Vec<&Module> = route
            .iter()
            .filter_map(|&at| Some(&self.modules.get(at)?.module))
            .collect();
        if is_ordered(&kinds) {
            return Ok(());
        }
        Err(Error::Field {
            path: self.path.to_owned(),
            field: "type",
            expected: "a `Transformer` first and one `Pooling` or `MultiHopAttention` second, or a `StaticEmbedding` in place of both".into(),
            got: format!("{} modules", kinds.len()),
        })
    }

    fn unsupported(&self, class: &str) -> Error {
        Error::Unsupported {
            path: self.path.to_owned(),
            what: "module",
            supported: "a `Transformer` or a `Router` of two, a `Pooling` or `dyad.models.MultiHopAttention` (or a `StaticEmbedding` in place of both), then any of `Dense` and `Normalize`",
            got: class.to_owned(),
        }
    }

    fn wrong(&self, field: &'static str, expected: &str, got: &Value) -> Error {
        let got = if got.is_null() {
            "nothing".to_owned()
        } else {
            got.to_string()
        };
        Error::Field {
            path: self.path.to_owned(),
            field,
            expected: expected.into(),
            got,
        }
    }
}

/// A transformer or a static table stands first in a tower; elsewhere its settings are not looked at.
fn is_transformer(class: &str) -> bool {
    matches!(class.rsplit('.').next(), Some("Transformer" | "StaticEmbedding"))
}

/// A transformer, one way to a vector of its tokens, and then maps and normalisation alone.
fn is_ordered(modules: &[&Module]) -> bool {
    let [
        Module::Transformer(_),
        Module::Pooling(_) | Module::MultiHop(_),
        rest @ ..,
    ] = modules
    else {
        return false;
    };
    rest.iter()
        .all(|module| matches!(module, Module::Dense(_) | Module::Normalize))
}

/// The folder of a module, unless it would lead out of the model directory.
fn relative(folder: &str) -> Option<&Path> {
    use std::path::Component;
    let path = Path::new(folder);
    path.components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        .then_some(path)
}
