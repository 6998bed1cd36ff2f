//! Two towers from a pretrained model: of one tower, both start from the same tensors; of two, each from its own. The
//! projection is random, or the model's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::creation::Creation;
use super::dpr;
use super::initialize;
use super::origin::TowerOrigin;
use super::transformer::{config_json, transformer_files, transformer_tensors};
use crate::checkpoint::{Checkpoint, CheckpointManifest, Content, SharedTensorRecord, TensorData, WEIGHTS, WeightFile};
use crate::config::{Layout, Module, Placed, Tie, Tower};
use crate::error::Error;

const CLASSIC: &str = "sentence_transformers.models.";

/// The names of the towers in a `Router`.
const TOWERS: [&str; 2] = ["query", "document"];
/// Package of the classes that only we have.
const OURS: &str = "dyad.models.";

/// Two towers: the transformer of `from` and its pooling or `aggregator`, one projection or two without bias and
/// randomly initialised by variance scaling (scale 1.0, fan in, truncated normal: Dong et al. 2022, section 4.1), and
/// unit length.
///
/// Towers of `from` that differ (a pair of DPR, a `Router`) each become a tower; what the new ones share is that of the
/// question tower. In the classic layout of sentence-transformers, with a `Router` unless the towers are one; a DPR
/// encoder becomes a BERT, which sentence-transformers reads.
pub(crate) fn towers(from: &Checkpoint, creation: &Creation, aggregator: Option<&Module>) -> Result<Checkpoint, Error> {
    let origins = [
        TowerOrigin::new(from, Tower::Question, aggregator)?,
        TowerOrigin::new(from, Tower::Answer, aggregator)?,
    ];
    if !from.layout.is_siamese() && [creation.sharing.token, creation.sharing.transformer].contains(&Tie::Shared) {
        let root = from.layout.root.display();
        tracing::warn!(from = %root, "its towers differ: what the new ones share is that of the question tower");
    }
    let layout = Layout {
        root: from.layout.root.clone(),
        modules: Vec::new(),
        routes: [Vec::new(), Vec::new()],
        prompts: from.layout.prompts.clone(),
        truncate_dim: None,
        similarity: Some("cosine".to_owned()),
        unknown: Vec::new(),
    };
    let made = Checkpoint {
        layout,
        files: BTreeMap::new(),
        weights: Vec::new(),
        manifest: None,
    };
    Builder {
        from,
        origins: &origins,
        creation,
        made,
    }
    .build()
}

struct Builder<'a> {
    from: &'a Checkpoint,
    /// The sources of the question tower and the answer tower.
    origins: &'a [TowerOrigin<'a>; 2],
    creation: &'a Creation,
    made: Checkpoint,
}

impl Builder<'_> {
    fn build(mut self) -> Result<Checkpoint, Error> {
        let sharing = self.creation.sharing;
        let prompts = &self.from.layout.prompts;
        let settings = json!({
            "__version__": {"sentence_transformers": "5.0.0", "transformers": "4.50.0", "pytorch": "2.7.0"},
            "prompts": {"query": prompts.question, "document": prompts.answer},
            "default_prompt_name": null,
            "similarity_fn_name": "cosine",
        });
        self.json("config_sentence_transformers.json", settings);
        let shared = if sharing.has_one_transformer() && sharing.projection == Tie::Shared {
            self.one_tower()?;
            Vec::new()
        } else {
            self.router()?
        };
        self.made.manifest = Some(CheckpointManifest::new(Some(sharing), shared));
        Ok(self.made)
    }

    fn one_tower(&mut self) -> Result<(), Error> {
        let origin = &self.origins[0];
        let mut classes = vec![origin.placed.module.class()];
        classes.extend((!origin.is_static()).then(|| origin.aggregator.class()));
        classes.extend(["Dense", "Normalize"]);
        let id = |class: &str| module_id(&classes, class);
        let mut route = vec![
            self.transformer("", 0)?,
            self.aggregator(&id(self.origins[0].aggregator.class()), 0)?,
            self.dense(&id("Dense"), 0)?,
        ];
        route.push(self.module(&id("Normalize"), Module::Normalize, Vec::new()));
        self.made.layout.routes = [route.clone(), route];
        self.modules_json(&classes);
        Ok(())
    }

    /// Two towers by a `Router`; gives the tensors that two transformers have in common.
    fn router(&mut self) -> Result<Vec<SharedTensorRecord>, Error> {
        let sharing = self.creation.sharing;
        let classes = self.origins.each_ref().map(|origin| origin.placed.module.class());
        let transformers = module_ids(sharing.has_one_transformer(), 0, classes);
        // What has values is held as the transformer is; a pooling has none.
        let one = match self.origins[0].aggregator {
            Module::MultiHop(_) => sharing.transformer == Tie::Shared,
            _ => sharing.has_one_transformer(),
        };
        let mut poolings = module_ids(one, 1, self.origins.each_ref().map(|origin| origin.aggregator.class()));
        for (tower, pooling) in poolings.iter_mut().enumerate() {
            let from = if one { 0 } else { tower };
            if self.origins[from].is_static() {
                pooling.clone_from(&transformers[tower]);
            }
        }
        let projections = module_ids(sharing.projection == Tie::Shared, 2, ["Dense"; 2]);
        let mut routes = [Vec::new(), Vec::new()];
        let kinds: [(&[String; 2], Make<'_>); 3] = [
            (&transformers, &|made, id, tower| made.transformer(id, tower)),
            (&poolings, &|made, id, tower| made.aggregator(id, tower)),
            (&projections, &|made, id, tower| made.dense(id, tower)),
        ];
        for (ids, make) in kinds {
            let question = make(self, &ids[0], 0)?;
            let answer = if ids[0] == ids[1] {
                question
            } else {
                make(self, &ids[1], 1)?
            };
            routes[0].push(question);
            routes[1].push(answer);
        }
        let last = self.module("1_Normalize", Module::Normalize, Vec::new());
        for route in &mut routes {
            route.push(last);
        }
        self.made.layout.routes = routes;
        let class = |id: &String| class_path(id.rsplit('_').next().unwrap_or_default());
        let all = transformers.iter().chain(&poolings).chain(&projections);
        let types: serde_json::Map<String, Value> = all.map(|id| (id.clone(), json!(class(id)))).collect();
        let structure: serde_json::Map<String, Value> = TOWERS
            .iter()
            .enumerate()
            .map(|(at, tower)| {
                let mut modules = vec![&transformers[at], &poolings[at], &projections[at]];
                modules.dedup();
                ((*tower).to_owned(), json!(modules))
            })
            .collect();
        let parameters = json!({"default_route": "document", "allow_empty_key": true});
        self.json(
            "router_config.json",
            json!({"types": types, "structure": structure, "parameters": parameters}),
        );
        self.modules_json(&["Router", "Normalize"]);
        if sharing.has_one_transformer() {
            Ok(Vec::new())
        } else {
            self.shared(&transformers)
        }
    }

    /// The tensors that two transformers have in common.
    fn shared(&self, modules: &[String; 2]) -> Result<Vec<SharedTensorRecord>, Error> {
        let sharing = self.creation.sharing;
        let (_, _, config) = self.made.layout.transformer(Tower::Question)?;
        let table = config.architecture.token_table();
        let mut names: Vec<String> = config.architecture.tensors().map(|(name, _)| name).collect();
        names.sort();
        names.sort_by_key(|name| name != table);
        names.retain(|name| {
            let tie = if name == table {
                sharing.token
            } else {
                sharing.transformer
            };
            tie == Tie::Shared
        });
        let record = |tensor: String| SharedTensorRecord {
            tensor,
            modules: modules.to_vec(),
        };
        Ok(names.into_iter().map(record).collect())
    }

    /// Weights, `config.json`, settings, and the tokenizer that belongs to the token table.
    fn transformer(&mut self, id: &str, tower: usize) -> Result<usize, Error> {
        let of = |tie: Tie| if tie == Tie::Shared { 0 } else { tower };
        let sharing = self.creation.sharing;
        if self.origins[of(sharing.token)].is_static() {
            return Ok(self.static_table(id, &self.origins[of(sharing.token)]));
        }
        let [table, others] = [sharing.token, sharing.transformer].map(|tie| &self.origins[of(tie)]);
        let as_it_is = table.placed.folder == others.placed.folder && others.is_plain();
        let (folder, source) = (Path::new(id), Path::new(&table.placed.id));
        let mut weights = Vec::new();
        for (path, content) in transformer_files(self.from, source) {
            let Some(name) = path.file_name() else { continue };
            let replaced = name == "config.json" || name.to_string_lossy().contains(".safetensors");
            if !as_it_is && replaced {
                continue;
            }
            if let Content::Weights(_) = content {
                weights.push(folder.join(name));
            }
            self.made.files.insert(folder.join(name), content.clone());
        }
        if !as_it_is {
            self.file(
                folder.join("config.json"),
                Content::Json(config_json(self.from, others)?),
            );
            weights = vec![self.weights(folder, transformer_tensors(table, others)?)];
        }
        let config = dpr::as_bert(others.config);
        let mut settings = json!({"max_seq_length": config.max_seq_length, "do_lower_case": config.lower_case});
        for (name, given) in [
            ("processor_kwargs", &config.tokenizer.processor_kwargs),
            ("config_kwargs", &config.tokenizer.config_kwargs),
        ] {
            if !given.is_empty() {
                settings[name] = json!(given);
            }
        }
        self.file(folder.join("sentence_bert_config.json"), Content::Json(settings));
        let at = self.module(id, Module::Transformer(Box::new(config)), weights);
        if let Some(placed) = self.made.layout.modules.get_mut(at) {
            placed.folder.clone_from(&table.placed.folder);
        }
        Ok(at)
    }

    /// A `StaticEmbedding`: its table and its tokenizer under the names that sentence-transformers gives them, and the
    /// settings of Model2Vec.
    fn static_table(&mut self, id: &str, origin: &TowerOrigin<'_>) -> usize {
        let (from, folder, source) = (self.from, Path::new(id), Path::new(&origin.placed.id));
        let table = origin.config.static_table().map(|table| table.weights_file.as_str());
        let tokenizer = origin.config.tokenizer.of_static.as_ref();
        let names = [
            (table, WEIGHTS),
            (tokenizer.map(|tokenizer| tokenizer.file.as_str()), "tokenizer.json"),
            (
                tokenizer
                    .filter(|tokenizer| tokenizer.is_model2vec)
                    .map(|_| "config.json"),
                "config.json",
            ),
        ];
        for (stored, name) in names {
            let content = stored.and_then(|stored| from.files.get(&source.join(stored)));
            if let Some(content) = content {
                self.file(folder.join(name), content.clone());
            }
        }
        let module = Module::Transformer(Box::new(origin.config.clone()));
        let at = self.module(id, module, vec![folder.join(WEIGHTS)]);
        if let Some(placed) = self.made.layout.modules.get_mut(at) {
            placed.folder.clone_from(&origin.placed.folder);
        }
        at
    }

    fn aggregator(&mut self, id: &str, tower: usize) -> Result<usize, Error> {
        let origin = &self.origins[tower];
        if origin.is_static() {
            return Ok(self.module(id, origin.aggregator.clone(), Vec::new()));
        }
        let (settings, tensors) = match &origin.aggregator {
            Module::MultiHop(config) => {
                let tensors = match origin.aggregator_tensors()? {
                    Some(kept) => kept
                        .tensors
                        .into_iter()
                        .map(|(name, tensor)| (name, tensor.clone()))
                        .collect(),
                    None => initialize::multihop(config, self.creation.seed),
                };
                (config.classic(), tensors)
            }
            Module::Pooling(config) => (config.classic(origin.config.architecture.hidden_size()), Vec::new()),
            _ => (Value::Null, Vec::new()),
        };
        self.file(Path::new(id).join("config.json"), Content::Json(settings));
        let weights = if tensors.is_empty() {
            Vec::new()
        } else {
            vec![self.weights(Path::new(id), tensors)]
        };
        Ok(self.module(id, origin.aggregator.clone(), weights))
    }

    fn dense(&mut self, id: &str, tower: usize) -> Result<usize, Error> {
        let (dim, seed) = (self.creation.dim, self.creation.seed);
        // Both or none: towers of one kind.
        let takes = if self.creation.sharing.projection == Tie::Shared {
            &self.origins[..1]
        } else {
            &self.origins[..]
        };
        let own = takes.iter().all(|origin| origin.own_projection == Some(dim));
        let origin = &self.origins[tower];
        let config = origin.dense(dim, own);
        self.file(Path::new(id).join("config.json"), Content::Json(config.classic()));
        let tensors = if own {
            dpr::projection(&origin.tensors()?)?
        } else {
            initialize::projection(origin.pooled(), dim, seed, &format!("projection/{tower}"))
        };
        let weights = self.weights(Path::new(id), tensors);
        Ok(self.module(id, Module::Dense(config), vec![weights]))
    }

    fn modules_json(&mut self, classes: &[&str]) {
        let mut entries = Vec::new();
        for (at, class) in classes.iter().enumerate() {
            let path = module_id(classes, class);
            entries.push(json!({"idx": at, "name": at.to_string(), "path": path, "type": class_path(class)}));
        }
        self.json("modules.json", Value::Array(entries));
    }

    /// Adds a module; its place.
    fn module(&mut self, id: &str, module: Module, weights: Vec<PathBuf>) -> usize {
        let folder = self.made.layout.root.join(id);
        self.made.layout.modules.push(Placed {
            id: id.to_owned(),
            folder,
            module,
        });
        self.made.weights.push(weights);
        self.made.layout.modules.len() - 1
    }

    fn file(&mut self, path: PathBuf, content: Content) {
        self.made.files.insert(path, content);
    }

    fn json(&mut self, name: &str, value: Value) {
        self.file(PathBuf::from(name), Content::Json(value));
    }

    /// Adds a file of weights; its path.
    fn weights(&mut self, folder: &Path, tensors: Vec<(String, TensorData)>) -> PathBuf {
        let path = folder.join(WEIGHTS);
        self.file(
            path.clone(),
            Content::Weights(WeightFile {
                path: path.clone(),
                metadata: None,
                tensors,
            }),
        );
        path
    }
}

/// Adds one module of a tower.
type Make<'a> = &'a dyn Fn(&mut Builder<'_>, &str, usize) -> Result<usize, Error>;

/// The folder of a module of one tower, whose modules have these classes: the first lies in the model's own. A part of
/// the first has no class of its own.
fn module_id(classes: &[&str], class: &str) -> String {
    match classes.iter().position(|known| *known == class) {
        None | Some(0) => String::new(),
        Some(at) => format!("{at}_{class}"),
    }
}

/// The folders of a module of each tower, the `at`-th of its route.
fn module_ids(is_shared: bool, at: usize, classes: [&str; 2]) -> [String; 2] {
    if is_shared {
        [0, 0].map(|_| format!("shared_{at}_{}", classes[0]))
    } else {
        [0, 1].map(|tower| format!("{}_{at}_{}", TOWERS[tower], classes[tower]))
    }
}

fn class_path(class: &str) -> String {
    format!("{}{class}", if class == "MultiHopAttention" { OURS } else { CLASSIC })
}
