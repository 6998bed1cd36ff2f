//! Opens a model directory: settings, tokenizer, weights, and the fingerprint over all of it.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::architecture::BertConfig;
use super::fingerprint::{Fingerprint, TensorRecord};
use super::layout::{Layout, Module};
use super::weights::WeightsFile;
use crate::device::{Compute, Device, Dtype};
use crate::error::Error;
use crate::tokenize::{Batch, Budget, Tokenizer, TokenizerSettings, Tokens, plan};
use crate::tower::{Bert, Dense, Network, Pooling, Step, Tower};

/// Weights of the transformer and of every dense module, each in its folder.
const WEIGHTS: &str = "model.safetensors";

/// What a model is, for people, peers and indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The directory's name.
    pub name: String,
    /// SHA-256 in hexadecimal over everything that decides the vectors.
    pub fingerprint: String,
    /// Values per vector.
    pub dim: usize,
    /// Longest input in tokens, special tokens included.
    pub max_tokens: usize,
    /// Where the weights lie.
    pub device: Device,
    /// Number type of the computation.
    pub dtype: Dtype,
    /// Whether the model itself ends in a `Normalize` module. Vectors are always of unit length; where this is false, the
    /// length was removed here, as a cosine index needs it.
    pub normalizes: bool,
}

/// An open model: owned and called by one thread (`tch::Tensor` is `Send`, not `Sync`).
#[derive(Debug)]
pub struct Encoder {
    network: Network,
    tokenizer: Arc<Tokenizer>,
    info: ModelInfo,
}

impl Encoder {
    /// Opens a sentence-transformers directory in either form, or a plain Hugging Face BERT directory.
    ///
    /// Sets the number of operator threads of the calling thread, which should be the one that embeds.
    pub fn open(directory: &Path, compute: &Compute) -> Result<Self, Error> {
        compute.prepare()?;
        let layout = Layout::read(directory)?;
        let config = BertConfig::read(&layout.transformer.join("config.json"))?;
        let max_tokens = layout.max_tokens.unwrap_or(usize::MAX).min(config.max_positions());
        let settings = TokenizerSettings {
            max_tokens,
            lower_case: layout.lower_case,
            prompts: &layout.prompts,
            vocab_size: config.vocab_size,
        };
        let tokenizer = Tokenizer::open(&layout.transformer, &settings)?;

        let mut facts = Fingerprint::new();
        facts.fact("architecture", &config.fact());
        facts.fact("max_tokens", &json!(max_tokens));
        facts.fact("lower_case", &json!(layout.lower_case));
        facts.fact("tokenizer", &json!(tokenizer.digest()));
        for tower in [Tower::Question, Tower::Answer] {
            facts.fact(&format!("prompt {tower}"), &json!(layout.prompts.of(tower)));
        }
        for module in &layout.modules {
            facts.fact(
                "module",
                &match module {
                    Module::Pooling(pooling) => pooling.fact(),
                    Module::Dense(_, dense) => dense.fact(),
                    Module::Normalize => json!("normalize"),
                },
            );
        }
        facts.fact("truncate_dim", &json!(layout.truncate_dim));

        let (network, tensors) = load_network(directory, &layout, &config, compute)?;
        for (file, records) in tensors {
            facts.tensors(&file, records);
        }
        let normalizes = layout.modules.last() == Some(&Module::Normalize) && layout.truncate_dim.is_none();
        if let Some(similarity) = layout.similarity.as_deref()
            && similarity != "cosine"
            && !normalizes
        {
            tracing::warn!(
                similarity,
                "the model was made for another similarity; here its vectors are normalised and compared by cosine"
            );
        }
        let info = ModelInfo {
            name: name_of(directory),
            fingerprint: facts.finish(),
            dim: network.dim,
            max_tokens,
            device: compute.device,
            dtype: compute.dtype,
            normalizes,
        };
        Ok(Self { network, tokenizer: Arc::new(tokenizer), info })
    }

    /// What was opened.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// The tokenizer, for other threads.
    pub fn tokenizer(&self) -> Arc<Tokenizer> {
        Arc::clone(&self.tokenizer)
    }

    /// Embeds tokenized texts of one tower as one batch: row-major vectors of `info().dim` values, each of unit length.
    pub fn embed(&self, tower: Tower, texts: &[&Tokens]) -> Result<Vec<f32>, Error> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        self.network.embed(&Batch::new(texts, self.tokenizer.padding(), self.tokenizer.prompt(tower).tokens))
    }

    /// Embeds any number of texts in length-sorted batches; the rows keep the order of `texts`.
    pub fn embed_all(&self, tower: Tower, texts: &[Tokens], budget: Budget) -> Result<Vec<f32>, Error> {
        self.embed_while(tower, texts, budget, |_| true).map(Option::unwrap_or_default)
    }

    /// As [`Encoder::embed_all`], asking `go_on` after each batch with its number of tokens; nothing once it says no.
    pub(crate) fn embed_while(
        &self,
        tower: Tower,
        texts: &[Tokens],
        budget: Budget,
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<Option<Vec<f32>>, Error> {
        let dim = self.info.dim;
        let lengths: Vec<usize> = texts.iter().map(|text| text.ids.len()).collect();
        let mut vectors = vec![0.0; texts.len() * dim];
        for positions in plan(&lengths, budget) {
            let batch: Vec<&Tokens> = positions.iter().filter_map(|&position| texts.get(position)).collect();
            let rows = self.embed(tower, &batch)?;
            for (&position, row) in positions.iter().zip(rows.chunks_exact(dim)) {
                if let Some(place) = vectors.get_mut(position * dim..(position + 1) * dim) {
                    place.copy_from_slice(row);
                }
            }
            if !go_on(batch.iter().map(|text| text.ids.len()).sum()) {
                return Ok(None);
            }
        }
        Ok(Some(vectors))
    }
}

/// The tensors that each file gave.
type FileRecords = Vec<(String, Vec<TensorRecord>)>;

fn load_network(
    root: &Path,
    layout: &Layout,
    config: &BertConfig,
    compute: &Compute,
) -> Result<(Network, FileRecords), Error> {
    let mut file = open_weights(&layout.transformer, *compute, transformer_name)?;
    let transformer = Bert::load(&mut file, config)?;
    let mut records = vec![("transformer".to_owned(), file.finish(is_unused)?)];
    let mut pooling = None;
    let mut steps = Vec::new();
    let mut dim = config.hidden_size;
    for module in &layout.modules {
        match module {
            Module::Pooling(settings) => {
                let module = Pooling::new(settings.clone());
                dim = module.output_size(dim);
                pooling = Some(module);
            }
            Module::Dense(folder, settings) => {
                if settings.in_features != dim {
                    return Err(Error::Field {
                        path: folder.join("config.json"),
                        field: "in_features",
                        expected: format!("the {dim} values that the module before gives"),
                        got: settings.in_features.to_string(),
                    });
                }
                let mut file = open_weights(folder, *compute, str::to_owned)?;
                steps.push(Step::Dense(Dense::load(&mut file, settings, compute.dtype.kind())?));
                records.push((format!("dense-{}", steps.len()), file.finish(|_| false)?));
                dim = settings.out_features;
            }
            Module::Normalize => steps.push(Step::Normalize),
        }
    }
    let Some(pooling) = pooling else {
        return Err(Error::MissingFile { path: root.join("1_Pooling"), fix: "A model needs one pooling" });
    };
    let dim = layout.truncate_dim.map_or(dim, |kept| kept.min(dim));
    Ok((Network { transformer, pooling, steps, dim, device: compute.torch_device() }, records))
}

fn open_weights(folder: &Path, compute: Compute, rename: impl Fn(&str) -> String) -> Result<WeightsFile, Error> {
    let path = folder.join(WEIGHTS);
    if !path.is_file() {
        let fix = if folder.join("model.safetensors.index.json").is_file() {
            "The weights are split over several files, which is not supported: save the model again with a larger `max_shard_size`"
        } else if folder.join("pytorch_model.bin").is_file() {
            "Only `pytorch_model.bin` is there: load the model in Python and save it with `safe_serialization=True`"
        } else {
            "Fetch the model again, for example with `deploy/model.sh NAME DIR`"
        };
        return Err(Error::MissingFile { path, fix });
    }
    WeightsFile::open(&path, compute, rename)
}

/// Checkpoints with a task head carry a prefix, and those converted from TensorFlow call scale and shift gamma and beta.
fn transformer_name(stored: &str) -> String {
    let name = ["bert.", "roberta."].iter().find_map(|prefix| stored.strip_prefix(prefix)).unwrap_or(stored);
    match name
        .strip_suffix(".gamma")
        .map(|stem| (stem, "weight"))
        .or(name.strip_suffix(".beta").map(|stem| (stem, "bias")))
    {
        Some((stem, part)) => format!("{stem}.{part}"),
        None => name.to_owned(),
    }
}

/// Tensors that a checkpoint may hold and an encoder does not use: position counters, the pooler, task heads.
fn is_unused(name: &str) -> bool {
    name == "embeddings.position_ids"
        || name == "embeddings.token_type_ids"
        || ["pooler.", "cls.", "lm_head."].iter().any(|prefix| name.starts_with(prefix))
}

fn name_of(directory: &Path) -> String {
    let absolute = fs_err::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    absolute.file_name().map_or_else(|| directory.display().to_string(), |name| name.to_string_lossy().into_owned())
}
