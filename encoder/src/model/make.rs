//! Writes models: two towers from a pretrained model, another number type, what training gives. A model is a value
//! until then ([`crate::transform`]), and appears as a directory that is whole.

use std::collections::BTreeMap;
use std::path::Path;

use dyad_files::AtomicDir;
use safetensors::Dtype as Stored;
use tch::Kind;

use super::adapters::{Adapter, is_of_adapter};
#[cfg(feature = "train")]
use super::cross_encoder::CrossEncoder;
use super::golden::{difference, one_thread, validate};
use super::load::OpenMode;
use super::open::{Model, splitters};
use super::supported::WITHOUT_F16;
use super::tensors::to_checkpoint;
#[cfg(feature = "train")]
use crate::checkpoint::MANIFEST;
use crate::checkpoint::{Checkpoint, CheckpointManifest, Golden, TensorData};
use crate::config::{Layout, Module, PromptOptions, Tower};
use crate::device::{Dtype, OperatorThreads};
use crate::error::{Error, torch};
use crate::nn::Parameter;
use crate::transform::{
    Aggregation, Creation, NewEncoder, TokenVectors, cast, cross_encoder, new_encoder, towers, with_values,
};

/// [`create_with`], with the pooling of `from`.
pub fn create(from: &Path, to: &Path, creation: &Creation) -> Result<(), Error> {
    create_with(from, to, creation, Aggregation::Kept)
}

/// Writes a model to `to`, which must not exist: the transformer of `from` and its pooling or another, one projection
/// or two without bias and randomly initialised by variance scaling (scale 1.0, fan in, truncated normal: Dong et al.
/// 2022, section 4.1), and unit length.
///
/// Towers of `from` that differ (a pair of DPR, a `Router`) each become a tower; what the new ones share is that of the
/// question tower. `from` must be valid: opened with its fingerprint and golden vectors, every weight finite.
///
/// In the classic layout of sentence-transformers, with a `Router` unless the towers are one; a DPR encoder becomes a
/// BERT, which sentence-transformers reads.
pub fn create_with(from: &Path, to: &Path, creation: &Creation, aggregation: Aggregation) -> Result<(), Error> {
    check_absent(to)?;
    let source = Checkpoint::read(from)?;
    validate(&source)?;
    publish(
        &towers(&source, creation, aggregation.module().as_ref())?,
        AtomicDir::create(to)?,
    )
}

/// As [`create_with`], with a new encoder over the token vectors of `from`; where its pooling is kept, it is the mean.
/// Both towers start from the same values.
pub fn create_over(
    from: &Path,
    to: &Path,
    creation: &Creation,
    encoder: NewEncoder,
    aggregation: Aggregation,
) -> Result<(), Error> {
    check_absent(to)?;
    let source = Checkpoint::read(from)?;
    validate(&source)?;
    let plain = new_encoder(&source, Some(encoder), TokenVectors::Pretrained, creation.seed)?;
    publish(
        &towers(&plain, creation, aggregation.module().as_ref())?,
        AtomicDir::create(to)?,
    )
}

/// As [`create_over`], with random token vectors too, for training from scratch: no weights of `from` are read, and
/// none need to be there next to its tokenizer and settings. Without an `encoder` it is the transformer that
/// `config.json` describes (of two towers: the question tower's), initialised as its authors do: maps and tables of
/// BERT's family normal with `initializer_range`, those of T5 by their fan-in. Its pooling can be kept then; multi-hop
/// attention is initialised too.
pub fn create_from_scratch(
    from: &Path,
    to: &Path,
    creation: &Creation,
    encoder: Option<NewEncoder>,
    aggregation: Aggregation,
) -> Result<(), Error> {
    check_absent(to)?;
    let source = Checkpoint::read_settings(from)?;
    splitters(&source.layout)?;
    let pooling = source
        .layout
        .route(Tower::Question)
        .nth(1)
        .filter(|_| encoder.is_none());
    let aggregator = aggregation.module().or(pooling.map(|placed| placed.module.clone()));
    let plain = new_encoder(&source, encoder, TokenVectors::Random, creation.seed)?;
    publish(&towers(&plain, creation, aggregator.as_ref())?, AtomicDir::create(to)?)
}

/// Writes a cross encoder to `to`, which must not exist: the transformer of `from` with a head that scores a pair,
/// initialised from the seed. `from` must be valid, as for [`create_with`].
pub fn create_cross_encoder(from: &Path, to: &Path, seed: u64) -> Result<(), Error> {
    check_absent(to)?;
    let source = Checkpoint::read(from)?;
    validate(&source)?;
    publish(&cross_encoder(&source, seed)?, AtomicDir::create(to)?)
}

/// Values of the projection that the question tower of `from` brings: DPR's `encode_proj`.
pub fn own_projection(from: &Path) -> Result<Option<usize>, Error> {
    let layout = Layout::read(from)?;
    let (_, _, config) = layout.transformer(Tower::Question)?;
    Ok(config.architecture.projection())
}

/// Writes the model in `from` to `to`, which must not exist, with all weights in `dtype`: every file keeps its place,
/// safetensors files are rewritten, and `dyad.json` is new, with the ties of the old one where there is one.
///
/// The model must open first, so that a damaged one is not sealed again; and the vectors of the new one must be those
/// of the old within rounding. What begins with a dot (`.git`, `.cache`) is no part of a model and is left out. T5 is
/// refused in f16, whose range its activations exceed.
pub fn export(from: &Path, to: &Path, dtype: Dtype) -> Result<(), Error> {
    export_with(from, to, dtype, &PromptOptions::default())
}

/// As [`export`], with these prompts written into the new model: another one, by its fingerprint.
pub fn export_with(from: &Path, to: &Path, dtype: Dtype, prompts: &PromptOptions) -> Result<(), Error> {
    check_absent(to)?;
    let stored = match dtype {
        Dtype::F32 => Stored::F32,
        Dtype::Bf16 => Stored::BF16,
        Dtype::F16 => Stored::F16,
        Dtype::Int8 => {
            return Err(Error::Unsupported {
                path: to.to_owned(),
                what: "dtype of weights in a file",
                supported: "`f32`, `bf16` and `f16`; int8 is made at opening (`--dtype int8` of `embed` and `serve`)",
                got: dtype.to_string(),
            });
        }
    };
    let mut source = Checkpoint::read(from)?;
    for placed in &source.layout.modules {
        if let Module::Transformer(config) = &placed.module
            && config.architecture.refuses_f16()
            && dtype == Dtype::F16
        {
            return Err(Error::Unsupported {
                path: placed.folder.join("config.json"),
                what: "dtype",
                supported: WITHOUT_F16,
                got: dtype.to_string(),
            });
        }
    }
    let expected = {
        let _kept = OperatorThreads::kept();
        let mut model = if source.layout.scores() {
            let model = Model::open_scoring(&source, &one_thread(), OpenMode::Inference)?;
            model.reproduce_golden_logits()?;
            model
        } else {
            let model = Model::open_checked(&source, &one_thread(), OpenMode::Inference)?;
            model.reproduce_golden()?;
            model
        };
        if !prompts.is_default() {
            source = source.with_prompts(prompts)?;
            model = Model::from_checkpoint(&source, &one_thread(), OpenMode::Inference)?;
        }
        model.golden_vectors()?
    };
    let rounded = cast(source.with_all_files()?, stored)?;
    publish_if(&rounded, AtomicDir::create(to)?, |golden| {
        check_rounded(to, dtype, &expected, golden)
    })
}

/// Refuses golden vectors that rounding to `dtype` has moved too far.
fn check_rounded(to: &Path, dtype: Dtype, expected: &[Golden], golden: &[Golden]) -> Result<(), Error> {
    for (expected, rounded) in expected.iter().zip(golden) {
        if let Some(reason) = difference(expected, &rounded.vector, dtype) {
            return Err(Error::Golden {
                model: to.display().to_string(),
                tower: rounded.tower.clone(),
                text: rounded.text.clone(),
                reason: format!("after rounding to {dtype} {reason}"),
            });
        }
    }
    Ok(())
}

/// Refuses to write where something is.
fn check_absent(to: &Path) -> Result<(), Error> {
    if to.exists() {
        Err(Error::Exists { path: to.to_owned() })
    } else {
        Ok(())
    }
}

/// Writes a checkpoint with the ties that it has, and new golden vectors.
fn publish(checkpoint: &Checkpoint, partial: AtomicDir) -> Result<(), Error> {
    publish_if(checkpoint, partial, |_| Ok(()))
}

/// The same, if `check` accepts the golden vectors. They are those of the model as it was written: read again, and
/// computed by one thread, the same numbers on every machine. The calling thread has its own number of operator threads
/// again afterwards.
fn publish_if(
    checkpoint: &Checkpoint,
    partial: AtomicDir,
    check: impl FnOnce(&[Golden]) -> Result<(), Error>,
) -> Result<(), Error> {
    let _kept = OperatorThreads::kept();
    let root = partial.path();
    checkpoint.write(root)?;
    let (sharing, ties) = checkpoint.manifest.as_ref().map_or((None, Vec::new()), |known| {
        (known.sharing, known.shared_tensors.clone())
    });
    let mut manifest = CheckpointManifest::new(sharing, ties);
    let written = Checkpoint {
        manifest: Some(manifest.clone()),
        ..Checkpoint::read(root)?
    };
    let model = Model::from_checkpoint(&written, &one_thread(), OpenMode::Inference)?;
    manifest.dim = model.info().dim;
    manifest.fingerprint.clone_from(&model.info().fingerprint);
    manifest.golden = model.golden_vectors()?;
    check(&manifest.golden)?;
    manifest.write(root)?;
    Ok(partial.commit()?)
}

/// Whether a model of ours has its `dyad.json`, which is written last.
#[cfg(feature = "train")]
pub(crate) fn is_sealed(root: &Path) -> Result<bool, Error> {
    Ok(CheckpointManifest::read(root)?.is_some())
}

/// Refuses a model of ours that is torn or was changed: without `dyad.json`, or not what that says.
#[cfg(feature = "train")]
pub(crate) fn check_whole(root: &Path) -> Result<(), Error> {
    let _kept = OperatorThreads::kept();
    if !is_sealed(root)? {
        let fix = "It is written last: the model is not whole";
        return Err(Error::MissingFile {
            path: root.join(MANIFEST),
            fix,
        });
    }
    if CrossEncoder::is_at(root)? {
        return CrossEncoder::open(root, &one_thread()).map(drop);
    }
    Model::open(root, &one_thread()).map(drop)
}

impl Model {
    /// Writes a model to `to`, which must not exist: the one in `directory`, which this one was opened from, with the
    /// values that its tensors have now. Weights are f32; ties, and golden vectors of the new values, stand in
    /// `dyad.json`.
    pub fn write(&self, directory: &Path, to: &Path) -> Result<(), Error> {
        publish(&self.checkpoint(directory)?, AtomicDir::create(to)?)
    }

    /// As [`Self::write`], in the place of what is at `to`: a reader finds the one or the other, whole.
    pub fn replace(&self, directory: &Path, to: &Path) -> Result<(), Error> {
        publish(&self.checkpoint(directory)?, AtomicDir::replace(to)?)
    }

    /// The model in `directory`, which this one was opened from, with the values that its tensors have now; adapters
    /// are merged into the weights that they adapt.
    pub(crate) fn checkpoint(&self, directory: &Path) -> Result<Checkpoint, Error> {
        let value =
            |parameter: &Parameter| Some((parameter.name.clone(), to_checkpoint(&parameter.tensor, Kind::Float)?));
        let weights = self
            .parameters()
            .iter()
            .filter(|parameter| !is_of_adapter(&parameter.name));
        let mut values: BTreeMap<String, TensorData> = weights.filter_map(value).collect();
        for Adapter { weight, map } in &self.adapters {
            let base = self.parameters().iter().find(|parameter| parameter.name == *weight);
            if let Some(base) = base {
                let merged = map.merged(&base.tensor).map_err(torch("merging adapters"))?;
                values.extend(to_checkpoint(&merged, Kind::Float).map(|merged| (weight.clone(), merged)));
            }
        }
        with_values(Checkpoint::read(directory)?, &values)
    }
}
