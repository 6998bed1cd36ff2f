//! A new bundle of two towers from a pretrained model: of one tower, both start from the same tensors; of two, each from its
//! own. The projection is random, or the model's own.

use std::path::Path;

use serde_json::{Value, json};

use super::drawn;
use super::origin::Origin;
use super::random::Random;
use super::sharing::{Sharing, Tie};
use crate::bundle::{
    Layout, Manifest, Module, MultiHopConfig, Partial, PoolingConfig, SharedTensor, moved, seal, sound, stored,
};
use crate::error::Error;

const CLASSIC: &str = "sentence_transformers.models.";
/// Package of the classes that only we have.
const OURS: &str = "dyad.models.";

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Creation {
    /// What the towers have in common.
    pub sharing: Sharing,
    /// Values per vector. Where each tower of the source brings a projection of that many (DPR's `encode_proj`) and the pooling
    /// is kept, that projection is taken, and none is drawn.
    pub dim: usize,
    /// Of all that is drawn: projections (those of two towers have seeds of their own), multi-hop attention, encoder, token vectors.
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

impl Aggregation {
    /// What takes the place of the model's own, for token vectors of a size that is not known yet.
    pub(super) fn module(self) -> Option<Module> {
        match self {
            Self::Kept => None,
            Self::Mean => Some(Module::Pooling(PoolingConfig::mean())),
            Self::MultiHop { inner, hops } => {
                Some(Module::MultiHop(MultiHopConfig { in_features: 0, inner, hops, include_prompt: true }))
            }
        }
    }
}

/// [`create_with`], with the pooling of `from`.
pub fn create(from: &Path, to: &Path, creation: &Creation) -> Result<(), Error> {
    create_with(from, to, creation, Aggregation::Kept)
}

/// Writes a bundle to `to`, which must not exist: the transformer of `from` and its pooling or another, one projection or two without
/// bias and drawn by variance scaling (scale 1.0, fan in, truncated normal: Dong et al. 2022, section 4.1), and unit length.
///
/// Towers of `from` that differ (a pair of DPR, a `Router`) each become a tower; what the new ones share is that of the question
/// tower. `from` must be sound: opened by its fingerprint and golden vectors, every weight finite.
///
/// In the classic layout of sentence-transformers, with a `Router` unless the towers are one; a DPR encoder becomes a BERT,
/// which sentence-transformers reads.
pub fn create_with(from: &Path, to: &Path, creation: &Creation, aggregation: Aggregation) -> Result<(), Error> {
    if to.exists() {
        return Err(Error::Exists { path: to.to_owned() });
    }
    assemble(from, &sound(from)?, to, creation, aggregation.module().as_ref())
}

/// Values of the projection that the question tower of `from` brings: DPR's `encode_proj`.
pub fn own_projection(from: &Path) -> Result<Option<usize>, Error> {
    Ok(Origin::of(&Layout::read(from)?)?[0].own_projection)
}

/// As [`create_with`], from a model that is known to be sound; with another module in the place of its pooling, if one is given,
/// whose values are then drawn for token vectors of any size.
pub(super) fn assemble(
    from: &Path,
    layout: &Layout,
    to: &Path,
    creation: &Creation,
    aggregator: Option<&Module>,
) -> Result<(), Error> {
    let mut origins = Origin::of(layout)?;
    if let Some(aggregator) = aggregator {
        for origin in &mut origins {
            origin.replace_aggregator(aggregator.clone());
        }
    }
    if !layout.is_siamese() && [creation.sharing.token, creation.sharing.transformer].contains(&Tie::Shared) {
        tracing::warn!(from = %from.display(), "its towers differ: what the new ones share is that of the question tower");
    }
    let beside = Partial::beside(to)?;
    let partial = beside.path();
    let manifest = Writer { root: partial, origins, creation }.write()?;
    write(
        &partial.join("config_sentence_transformers.json"),
        &json!({
            "__version__": {"sentence_transformers": "5.0.0", "transformers": "4.50.0", "pytorch": "2.7.0"},
            "prompts": {"query": layout.prompts.question, "document": layout.prompts.answer},
            "default_prompt_name": null,
            "similarity_fn_name": "cosine",
        }),
    )?;
    seal(partial, manifest)?;
    beside.finish()
}

struct Writer<'a> {
    root: &'a Path,
    /// What the question tower and the answer tower are made from.
    origins: [Origin<'a>; 2],
    creation: &'a Creation,
}

impl Writer<'_> {
    fn write(&self) -> Result<Manifest, Error> {
        let sharing = self.creation.sharing;
        let aggregator = self.origins[0].aggregator.class();
        if sharing.has_one_transformer() && sharing.projection == Tie::Shared {
            self.transformer(self.root, 0)?;
            self.modules(&["Transformer", aggregator, "Dense", "Normalize"])?;
            self.aggregator(&self.root.join(format!("1_{aggregator}")), 0)?;
            self.dense(&self.root.join("2_Dense"), 0)?;
            return Ok(Manifest::new(Some(sharing), Vec::new()));
        }
        let towers = ["query", "document"];
        let ids = |shared: bool, at: usize, classes: [&str; 2]| {
            let named = |tower: usize| format!("{}_{at}_{}", towers[tower], classes[tower]);
            if shared { [0, 0].map(|_| format!("shared_{at}_{}", classes[0])) } else { [named(0), named(1)] }
        };
        let transformers = ids(sharing.has_one_transformer(), 0, ["Transformer"; 2]);
        // What has values is held as the transformer is; a pooling has none.
        let one = match self.origins[0].aggregator {
            Module::MultiHop(_) => sharing.transformer == Tie::Shared,
            _ => sharing.has_one_transformer(),
        };
        let poolings = ids(one, 1, self.origins.each_ref().map(|origin| origin.aggregator.class()));
        let projections = ids(sharing.projection == Tie::Shared, 2, ["Dense"; 2]);
        for (tower, id) in each(&transformers).into_iter().enumerate() {
            self.transformer(&self.root.join(id), tower)?;
        }
        for (tower, id) in each(&poolings).into_iter().enumerate() {
            self.aggregator(&self.root.join(id), tower)?;
        }
        for (tower, id) in each(&projections).into_iter().enumerate() {
            self.dense(&self.root.join(id), tower)?;
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
        let (table, others) = stored::tensors_used(&self.root.join(&modules[0]))?;
        let mut tensors = Vec::new();
        if sharing.token == Tie::Shared {
            tensors.push(table);
        }
        if sharing.transformer == Tie::Shared {
            tensors.extend(others);
        }
        Ok(tensors.into_iter().map(|tensor| SharedTensor { tensor, modules: modules.to_vec() }).collect())
    }

    /// Weights, `config.json`, settings, and the tokenizer that belongs to the token table.
    fn transformer(&self, folder: &Path, tower: usize) -> Result<(), Error> {
        let of = |tie: Tie| if tie == Tie::Shared { 0 } else { tower };
        let Creation { sharing, .. } = self.creation;
        let [table, others] = [sharing.token, sharing.transformer].map(|tie| &self.origins[of(tie)]);
        let as_it_is = table.transformer.folder == others.transformer.folder && !others.is_dpr;
        fs_err::create_dir_all(folder)?;
        for entry in fs_err::read_dir(&table.transformer.folder)? {
            let (file, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            let Some(name) = name.to_str().filter(|name| file.is_file() && belongs(name)) else { continue };
            if as_it_is || !(name == "config.json" || name.contains(".safetensors")) {
                fs_err::copy(&file, folder.join(name))?;
            }
        }
        if !as_it_is {
            moved::transformer(&others.transformer.folder, &table.transformer.folder, folder)?;
        }
        if let Module::Transformer(settings) = &others.transformer.module {
            let settings = json!({"max_seq_length": settings.max_tokens, "do_lower_case": settings.lower_case});
            write(&folder.join("sentence_bert_config.json"), &settings)?;
        }
        Ok(())
    }

    fn aggregator(&self, folder: &Path, tower: usize) -> Result<(), Error> {
        let origin = &self.origins[tower];
        let settings = match &origin.aggregator {
            Module::MultiHop(config) => config.classic(),
            Module::Pooling(config) => config.classic(origin.hidden),
            _ => return Ok(()),
        };
        write(&folder.join("config.json"), &settings)?;
        match (&origin.aggregator, origin.kept) {
            (Module::MultiHop(_), Some(kept)) => {
                fs_err::copy(kept.join("model.safetensors"), folder.join("model.safetensors"))?;
                Ok(())
            }
            (Module::MultiHop(config), None) => drawn::write(folder, drawn::multihop(config, self.creation.seed)),
            _ => Ok(()),
        }
    }

    fn dense(&self, folder: &Path, tower: usize) -> Result<(), Error> {
        let (dim, seed) = (self.creation.dim, self.creation.seed);
        // Both or none: towers of one kind.
        let takes =
            if self.creation.sharing.projection == Tie::Shared { &self.origins[..1] } else { &self.origins[..] };
        let own = takes.iter().all(|origin| origin.own_projection == Some(dim));
        let origin = &self.origins[tower];
        write(&folder.join("config.json"), &origin.dense(dim, own).classic())?;
        if own {
            return moved::projection(&origin.transformer.folder, folder);
        }
        let random = Random::numbered(seed, tower as u64);
        drawn::write(folder, drawn::projection(origin.pooled(), dim, random))
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
