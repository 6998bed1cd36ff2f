//! A new bundle of two towers from one pretrained encoder: both towers start from the same tensors, the projection is random.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::drawn;
use super::sharing::{Sharing, Tie};
use crate::bundle::{
    DenseConfig, Layout, Manifest, Module, MultiHopConfig, Partial, Placed, PoolingConfig, SharedTensor, seal, stored,
};
use crate::device::Compute;
use crate::error::Error;

const CLASSIC: &str = "sentence_transformers.models.";
/// Package of the classes that only we have.
const OURS: &str = "dyad.models.";

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Creation {
    /// What the towers have in common.
    pub sharing: Sharing,
    /// Values per vector.
    pub dim: usize,
    /// Of the projection's random values; equal projections of two towers have seeds of their own.
    pub seed: u64,
}

/// What becomes of the pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aggregation {
    /// As the pretrained model has it.
    #[default]
    Kept,
    /// The mean over all tokens.
    Mean,
    /// Multi-hop self-attention (Lin et al. 2017), drawn anew and part of the transformer where towers share: as many means
    /// as `hops`, weighted through `inner` values. sentence-transformers cannot read a model that has it.
    MultiHop {
        /// Values between the two maps.
        inner: usize,
        /// Weighted means, side by side.
        hops: usize,
    },
}

/// [`create_with`], with the pooling of `from`.
pub fn create(from: &Path, to: &Path, creation: &Creation) -> Result<(), Error> {
    create_with(from, to, creation, Aggregation::Kept)
}

/// Writes a bundle to `to`, which must not exist: the transformer of `from` and its pooling or another, one projection or two without
/// bias and drawn by variance scaling (scale 1.0, fan in, truncated normal: Dong et al. 2022, section 4.1), and unit length.
///
/// In the classic layout of sentence-transformers, with a `Router` unless the towers are one.
pub fn create_with(from: &Path, to: &Path, creation: &Creation, aggregation: Aggregation) -> Result<(), Error> {
    if to.exists() {
        return Err(Error::Exists { path: to.to_owned() });
    }
    let layout = Layout::read(from)?;
    let route = layout.routes.first().cloned().unwrap_or_default();
    let module = |at: usize| route.get(at).and_then(|&at| layout.modules.get(at));
    let (Some(transformer), Some(pooling)) = (module(0), module(1)) else {
        return Err(Error::MissingFile {
            path: from.join("config.json"),
            fix: "A tower needs a transformer and a pooling",
        });
    };
    let hidden = stored::hidden_size(&transformer.folder)?;
    if stored::projection(&transformer.folder)?.is_some() {
        return Err(Error::Unsupported {
            path: transformer.folder.join("config.json"),
            what: "a new projection behind DPR's own",
            supported: "models without `projection_dim`",
            got: "projection_dim".to_owned(),
        });
    }
    let aggregator = match aggregation {
        Aggregation::Kept => pooling.module.clone(),
        Aggregation::Mean => Module::Pooling(PoolingConfig::mean()),
        Aggregation::MultiHop { inner, hops } => {
            Module::MultiHop(MultiHopConfig { in_features: hidden, inner, hops, include_prompt: true })
        }
    };
    let kept = (aggregation == Aggregation::Kept).then_some(pooling.folder.as_path());
    let beside = Partial::beside(to)?;
    let partial = beside.path();
    let writer = Writer { root: partial, transformer, hidden, aggregator, kept, creation };
    let manifest = writer.write()?;
    write(
        &partial.join("config_sentence_transformers.json"),
        &json!({
            "__version__": {"sentence_transformers": "5.0.0", "transformers": "4.50.0", "pytorch": "2.7.0"},
            "prompts": {"query": layout.prompts.question, "document": layout.prompts.answer},
            "default_prompt_name": null,
            "similarity_fn_name": "cosine",
        }),
    )?;
    seal(partial, manifest, &Compute { threads: Some(1), ..Compute::default() })?;
    beside.finish()
}

struct Writer<'a> {
    root: &'a Path,
    transformer: &'a Placed,
    /// Values of a token vector.
    hidden: usize,
    /// From token vectors to one vector: a pooling, or multi-hop attention.
    aggregator: Module,
    /// Where its values lie, unless they are drawn anew.
    kept: Option<&'a Path>,
    creation: &'a Creation,
}

impl Writer<'_> {
    fn write(&self) -> Result<Manifest, Error> {
        let sharing = self.creation.sharing;
        if sharing.has_one_transformer() && sharing.projection == Tie::Shared {
            self.transformer(self.root)?;
            let aggregator = self.aggregator.class();
            self.modules(&["Transformer", aggregator, "Dense", "Normalize"])?;
            self.aggregator(&self.root.join(format!("1_{aggregator}")))?;
            self.dense(&self.root.join("2_Dense"), 0)?;
            return Ok(Manifest::new(Some(sharing), Vec::new()));
        }
        let towers = ["query", "document"];
        let ids = |shared: bool, at: usize, class: &str| {
            towers.map(|tower| format!("{}_{at}_{class}", if shared { "shared" } else { tower }))
        };
        let transformers = ids(sharing.has_one_transformer(), 0, "Transformer");
        // What has values is held as the transformer is; a pooling has none.
        let one = match self.aggregator {
            Module::MultiHop(_) => sharing.transformer == Tie::Shared,
            _ => sharing.has_one_transformer(),
        };
        let poolings = ids(one, 1, self.aggregator.class());
        let projections = ids(sharing.projection == Tie::Shared, 2, "Dense");
        for id in each(&transformers) {
            self.transformer(&self.root.join(id))?;
        }
        for id in each(&poolings) {
            self.aggregator(&self.root.join(id))?;
        }
        for (number, id) in each(&projections).into_iter().enumerate() {
            self.dense(&self.root.join(id), number as u64)?;
        }
        let class = |id: &String| class_path(id.rsplit('_').next().unwrap_or_default());
        let all = transformers.iter().chain(&poolings).chain(&projections);
        let types: serde_json::Map<String, Value> = all.map(|id| (id.clone(), json!(class(id)))).collect();
        let structure: serde_json::Map<String, Value> = towers
            .iter()
            .enumerate()
            .map(|(at, tower)| ((*tower).to_owned(), json!([transformers[at], poolings[at], projections[at]])))
            .collect();
        let parameters = json!({"default_route": "document", "allow_empty_key": true});
        let router = json!({"types": types, "structure": structure, "parameters": parameters});
        write(&self.root.join("router_config.json"), &router)?;
        self.modules(&["Router", "Normalize"])?;
        let shared = if sharing.has_one_transformer() { Vec::new() } else { self.shared(&transformers)? };
        Ok(Manifest::new(Some(sharing), shared))
    }

    /// The tensors that two transformers have in common.
    fn shared(&self, modules: &[String; 2]) -> Result<Vec<SharedTensor>, Error> {
        let sharing = self.creation.sharing;
        let (table, others) = stored::tensors_used(&self.transformer.folder)?;
        let mut tensors = Vec::new();
        if sharing.token == Tie::Shared {
            tensors.push(table);
        }
        if sharing.transformer == Tie::Shared {
            tensors.extend(others);
        }
        Ok(tensors.into_iter().map(|tensor| SharedTensor { tensor, modules: modules.to_vec() }).collect())
    }

    /// Copies weights, `config.json` and tokenizer.
    fn transformer(&self, folder: &Path) -> Result<(), Error> {
        fs_err::create_dir_all(folder)?;
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs_err::read_dir(&self.transformer.folder)? {
            files.push(entry?.path());
        }
        for file in files.iter().filter(|file| file.is_file()) {
            if let Some(name) = file.file_name().and_then(|name| name.to_str()).filter(|name| belongs(name)) {
                fs_err::copy(file, folder.join(name))?;
            }
        }
        if let Module::Transformer(settings) = &self.transformer.module {
            let settings = json!({"max_seq_length": settings.max_tokens, "do_lower_case": settings.lower_case});
            write(&folder.join("sentence_bert_config.json"), &settings)?;
        }
        Ok(())
    }

    fn aggregator(&self, folder: &Path) -> Result<(), Error> {
        let settings = match &self.aggregator {
            Module::MultiHop(config) => config.classic(),
            Module::Pooling(config) => config.classic(self.hidden),
            _ => return Ok(()),
        };
        write(&folder.join("config.json"), &settings)?;
        match (&self.aggregator, self.kept) {
            (Module::MultiHop(_), Some(kept)) => {
                fs_err::copy(kept.join("model.safetensors"), folder.join("model.safetensors"))?;
                Ok(())
            }
            (Module::MultiHop(config), None) => drawn::write(folder, &drawn::multihop(config, self.creation.seed)),
            _ => Ok(()),
        }
    }

    fn dense(&self, folder: &Path, number: u64) -> Result<(), Error> {
        let vectors = match &self.aggregator {
            Module::MultiHop(config) => config.hops,
            Module::Pooling(config) => config.modes.len(),
            _ => 1,
        };
        let (input, output) = (self.hidden * vectors, self.creation.dim);
        write(&folder.join("config.json"), &DenseConfig::projection(input, output).classic())?;
        let seed = self.creation.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        drawn::write(folder, &drawn::projection(input, output, seed))
    }

    fn modules(&self, classes: &[&str]) -> Result<(), Error> {
        let entries: Vec<Value> = classes
            .iter()
            .enumerate()
            .map(|(at, class)| {
                let path = if at == 0 { String::new() } else { format!("{at}_{class}") };
                json!({"idx": at, "name": at.to_string(), "path": path, "type": class_path(class)})
            })
            .collect();
        for (at, class) in classes.iter().enumerate().skip(1) {
            fs_err::create_dir_all(self.root.join(format!("{at}_{class}")))?;
        }
        write(&self.root.join("modules.json"), &Value::Array(entries))
    }
}

fn class_path(class: &str) -> String {
    format!("{}{class}", if class == "MultiHopAttention" { OURS } else { CLASSIC })
}

/// Both, or the one that they are.
fn each(ids: &[String; 2]) -> Vec<&String> {
    if ids[0] == ids[1] { vec![&ids[0]] } else { ids.iter().collect() }
}

/// Whether a file is part of a transformer: what lies beside it in a model's own folder is written anew.
pub(super) fn belongs(name: &str) -> bool {
    let others = ["modules.json", "router_config.json", "config_sentence_transformers.json", "dyad.json"];
    let kinds = [".json", ".safetensors", ".txt", ".model"];
    kinds.iter().any(|kind| name.ends_with(kind)) && !others.contains(&name) && !name.starts_with("sentence_")
}

pub(super) fn write(path: &Path, value: &Value) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    Ok(fs_err::write(path, format!("{value:#}\n"))?)
}
