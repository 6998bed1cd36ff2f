//! Opens a checkpoint: tokenizer, weights, the fingerprint over all of it, and the gate of golden vectors.

use std::path::Path;
use std::sync::Arc;

use super::adapters::{Adapter, AdapterInit};
use super::contents::Contents;
use super::load::{Loader, OpenMode};
use super::prompted::PromptedModel;
use super::supported::{check_dtype, check_static};
use crate::checkpoint::{Checkpoint, Golden, MANIFEST};
use crate::config::{Layout, NamedPrompts, PromptOptions, Prompts, Sharing, Tower};
use crate::device::{Compute, Device, Dtype};
use crate::error::{Error, torch};
use crate::nn::{Exec, KernelPool, Network, Parameter};
use crate::tokenize::{Splitter, SplitterSettings, Tokenizer};

/// What a model makes of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelKind {
    /// Vectors of single texts.
    DualEncoder,
    /// Scores of pairs of texts.
    CrossEncoder,
}

/// A model's identity, for people, peers and indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The directory's name.
    pub name: String,
    /// What it makes of texts.
    pub kind: ModelKind,
    /// SHA-256 in hexadecimal over everything that decides the vectors, as they were when the model was opened.
    pub fingerprint: String,
    /// Values per vector.
    pub dim: usize,
    /// Longest input of the answer tower in tokens, special tokens included.
    pub max_tokens: usize,
    /// Longest input of the question tower.
    pub max_question_tokens: usize,
    /// Device of the weights.
    pub device: Device,
    /// Number type of the computation.
    pub dtype: Dtype,
    /// What stands before the texts of the question tower and of the answer tower; empty where nothing does.
    pub prompts: [String; 2],
    /// All prompts that the model has names for; a cross encoder has none.
    pub named_prompts: NamedPrompts,
    /// Whether questions are embedded otherwise than answers: by modules of their own, or with another prompt.
    pub has_two_towers: bool,
    /// Whether the model itself ends in a `Normalize` module. Vectors are always of unit length; where this is false,
    /// the length was removed here, as a cosine index needs it.
    pub normalizes: bool,
}

/// An open model: owned and called by one thread (`tch::Tensor` is `Send`, not `Sync`).
#[derive(Debug)]
pub struct Model {
    pub(super) network: Network,
    pub(super) prompted: PromptedModel,
    pub(super) info: ModelInfo,
    pub(super) golden: Vec<Golden>,
    /// Threads that may compute a batch each.
    pub(super) workers: usize,
    contents: Contents,
    parameters: Vec<Parameter>,
    pub(super) adapters: Vec<Adapter>,
    sharing: Option<Sharing>,
    token_sizes: [usize; 2],
}

impl Model {
    /// Opens a sentence-transformers directory in either form, with one tower or a `Router` of two; a plain Hugging
    /// Face directory of the BERT family or T5; or a pair of such directories. Refuses one that is not what its
    /// `dyad.json` says.
    ///
    /// Sets the number of operator threads of the calling thread, which should be the one that embeds.
    pub fn open(directory: &Path, compute: &Compute) -> Result<Self, Error> {
        Self::open_with(directory, compute, &PromptOptions::default())
    }

    /// As [`Self::open`], with other prompts than its files have: another model, by its fingerprint.
    pub fn open_with(directory: &Path, compute: &Compute, prompts: &PromptOptions) -> Result<Self, Error> {
        let checkpoint = Checkpoint::read(directory)?;
        let mut model = Self::open_checked(&checkpoint, compute, OpenMode::Inference)?;
        model.reproduce_golden()?;
        if !prompts.is_default() {
            model.set_prompts(checkpoint.layout.prompts_by(prompts)?)?;
        }
        for remark in checkpoint.layout.remarks() {
            tracing::warn!(model = %directory.display(), "{remark}");
        }
        Ok(model)
    }

    /// Golden vectors are those of the files' prompts, and are not kept where these are others.
    fn set_prompts(&mut self, prompts: Prompts) -> Result<(), Error> {
        self.info.named_prompts = prompts.named.clone();
        if !self.prompted.prompts().are_as(&prompts) {
            self.info.prompts = [prompts.question.clone(), prompts.answer.clone()];
            let routes = &self.network.routes;
            self.info.has_two_towers = routes[0] != routes[1] || prompts.question != prompts.answer;
            self.golden.clear();
        }
        self.prompted = self.prompted.with_prompts(prompts)?;
        self.info.fingerprint = self.prompted.fingerprint().to_string();
        Ok(())
    }

    pub(super) fn open_scoring(checkpoint: &Checkpoint, compute: &Compute, mode: OpenMode) -> Result<Self, Error> {
        let model = Self::from_checkpoint(checkpoint, compute, mode)?;
        model.check_manifest(checkpoint)?;
        Ok(model)
    }

    pub(super) fn open_checked(checkpoint: &Checkpoint, compute: &Compute, mode: OpenMode) -> Result<Self, Error> {
        let root = &checkpoint.layout.root;
        if checkpoint.layout.scores() {
            return Err(Error::Unsupported {
                path: root.clone(),
                what: "model that embeds single texts",
                supported: "a sentence-transformers or Hugging Face encoder",
                got: "a cross encoder, which scores pairs: `dyad-encoder serve` and `score` run it, `dyad-searcher serve --reranker` reranks by it".into(),
            });
        }
        let model = Self::from_checkpoint(checkpoint, compute, mode)?;
        model.check_manifest(checkpoint)?;
        Ok(model)
    }

    /// Refuses a model that is not what its `dyad.json` says.
    pub(super) fn check_manifest(&self, checkpoint: &Checkpoint) -> Result<(), Error> {
        let (root, Some(manifest)) = (&checkpoint.layout.root, &checkpoint.manifest) else {
            return Ok(());
        };
        manifest.check_fingerprint(root, &self.info.fingerprint)?;
        // Nothing is said of the dimension of a cross encoder.
        if !checkpoint.layout.scores() && manifest.dim != self.info.dim {
            let (expected, got) = (self.info.dim.to_string(), manifest.dim.to_string());
            return Err(Error::Field {
                path: root.join(MANIFEST),
                field: "dim",
                expected,
                got,
            });
        }
        Ok(())
    }

    /// A checkpoint as a model, with its ties; the rest of its `dyad.json` is believed.
    pub(crate) fn from_checkpoint(checkpoint: &Checkpoint, compute: &Compute, mode: OpenMode) -> Result<Self, Error> {
        Self::load(checkpoint, compute, mode, None)
    }

    /// As [`Self::from_checkpoint`], with new adapters.
    pub(super) fn load(
        checkpoint: &Checkpoint,
        compute: &Compute,
        mode: OpenMode,
        adapters: Option<&AdapterInit<'_>>,
    ) -> Result<Self, Error> {
        compute.prepare()?;
        let layout = &checkpoint.layout;
        // Settings and tokenizers first: they are small, and refuse early.
        check_dtype(layout, compute.dtype)?;
        check_static(layout, compute.dtype, mode)?;
        let splitters = splitters(layout)?;
        let routes = layout.towers()?;
        let records = checkpoint.records()?;
        let contents = Contents::new(layout, checkpoint.manifest.as_ref(), &records);
        let prompted = PromptedModel::new(layout, splitters, records)?;
        let loaded = Loader::new(checkpoint, compute, mode, adapters).load()?;
        let workers = compute.workers();
        let pool = if loaded.by_kernels && workers > 1 {
            Some(KernelPool::new(workers)?)
        } else {
            None
        };
        let [question, answer] = [
            layout.transformer(Tower::Question)?.2,
            layout.transformer(Tower::Answer)?.2,
        ];
        let info = ModelInfo {
            name: name_of(&layout.root),
            kind: if layout.scores() {
                ModelKind::CrossEncoder
            } else {
                ModelKind::DualEncoder
            },
            fingerprint: prompted.fingerprint().to_string(),
            dim: routes[1].dim,
            max_tokens: answer.max_tokens(),
            max_question_tokens: question.max_tokens(),
            device: compute.device,
            dtype: compute.dtype,
            prompts: [layout.prompts.question.clone(), layout.prompts.answer.clone()],
            named_prompts: if layout.scores() {
                NamedPrompts::none()
            } else {
                layout.prompts.named.clone()
            },
            has_two_towers: routes[0] != routes[1] || layout.prompts.question != layout.prompts.answer,
            normalizes: layout.normalizes(),
        };
        if let Some(similarity) = layout.similarity.as_deref()
            && similarity != "cosine"
            && !info.normalizes
            && mode == OpenMode::Inference
        {
            tracing::warn!(
                similarity,
                "the model was made for another similarity; here its vectors are normalised and compared by cosine"
            );
        }
        Ok(Self {
            network: Network {
                modules: loaded.modules,
                routes,
                device: compute.torch_device(),
                padding: loaded.padding,
                exec: Exec::on(workers),
                pool,
            },
            prompted,
            info,
            golden: checkpoint
                .manifest
                .iter()
                .flat_map(|manifest| manifest.golden.clone())
                .collect(),
            workers,
            contents,
            parameters: loaded.parameters,
            adapters: loaded.adapters,
            sharing: checkpoint.manifest.as_ref().and_then(|manifest| manifest.sharing),
            token_sizes: [question, answer].map(|config| config.architecture.hidden_size()),
        })
    }

    /// For its token vectors alone: only the tensors of transformers learn, and their names begin with `prefix`.
    pub fn into_transformers(mut self, prefix: &str) -> Result<Self, Error> {
        let is_transformer = |id: &str| {
            self.contents
                .modules
                .iter()
                .any(|module| ["Transformer", "StaticEmbedding"].contains(&module.class) && module.id == id)
        };
        let mut kept = Vec::new();
        for mut parameter in std::mem::take(&mut self.parameters) {
            if parameter
                .name
                .rsplit_once('/')
                .is_some_and(|(module, _)| is_transformer(module))
            {
                parameter.name.insert_str(0, prefix);
                kept.push(parameter);
            } else {
                let freeze = parameter.tensor.f_set_requires_grad(false);
                let _ = freeze.map_err(torch("freezing what follows a transformer"))?;
            }
        }
        self.parameters = kept;
        Ok(self)
    }

    /// Name, fingerprint and sizes.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Modules, towers and shared tensors.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The trained and frozen tensors, each once, in the order of modules; nothing in [`OpenMode::Inference`].
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The sharing of the towers, where the model states it.
    pub fn sharing(&self) -> Option<Sharing> {
        self.sharing
    }

    /// The vectors that this model must give.
    pub(crate) fn golden(&self) -> &[Golden] {
        &self.golden
    }

    /// The tokenizer, for other threads.
    pub fn tokenizer(&self) -> Arc<Tokenizer> {
        Arc::clone(self.prompted.tokenizer())
    }

    /// The model as far as its prompts decide it.
    pub(crate) fn prompted(&self) -> &PromptedModel {
        &self.prompted
    }

    /// Values of a token vector of a tower.
    pub fn token_size(&self, tower: Tower) -> usize {
        self.token_sizes[tower.index()]
    }
}

/// The tokenizers of both towers, which are one where their transformer is.
pub(super) fn splitters(layout: &Layout) -> Result<[Arc<Splitter>; 2], Error> {
    let [(first, ..), (second, ..)] = [layout.transformer(Tower::Question)?, layout.transformer(Tower::Answer)?];
    let question = open_splitter(layout, Tower::Question)?;
    let answer = if first == second {
        Arc::clone(&question)
    } else {
        open_splitter(layout, Tower::Answer)?
    };
    Ok([question, answer])
}

fn open_splitter(layout: &Layout, tower: Tower) -> Result<Arc<Splitter>, Error> {
    let (_, placed, config) = layout.transformer(tower)?;
    let settings = SplitterSettings {
        max_tokens: config.max_tokens(),
        lower_case: config.lower_case,
        vocab_size: config.architecture.vocab_size(),
        has_types: config.architecture.has_types(),
        source: config.tokenizer.clone(),
    };
    Ok(Arc::new(Splitter::open(&placed.folder, &settings)?))
}

/// The record of a training run, in the folder that contains its models.
pub(crate) const RUN_RECORD: &str = "run.json";

/// The folder's name; of a model that a training has made, with that of its run: `best` and `final` are in every run.
fn name_of(directory: &Path) -> String {
    let absolute = fs_err::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let name_of = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
    let Some(name) = name_of(&absolute) else {
        return directory.display().to_string();
    };
    let run = absolute.parent().filter(|run| run.join(RUN_RECORD).is_file());
    match run.and_then(name_of) {
        Some(run) => format!("{run}-{name}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_of_a_run_is_named_by_the_run_too() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            fs_err::create_dir_all(folder.path().join(name)).unwrap();
            name_of(&folder.path().join(name))
        };
        assert_eq!(of("spl/best"), "best");
        fs_err::write(folder.path().join("spl").join(RUN_RECORD), "{}").unwrap();
        assert_eq!(
            [of("spl/best"), of("spl/final"), of("minilm")],
            ["spl-best", "spl-final", "minilm"]
        );
    }
}
